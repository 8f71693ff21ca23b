"""Parts of models: outputs of layers by name and pattern, with shared weights, as Keras' functional API gives them."""

import gc
import weakref

import keras
import numpy as np
import pytest
import torch

import prototorch as pt
from prototorch.errors import UsageError
from prototorch.model.load import model_from_text

TEXT = """
name: "net"
block unit(filters) {
  Conv2D { name: "conv"  filters: $filters  kernel_size: 3  padding: same }
  ReLU { name: "relu" }
}
input { name: "image"  shape: [3, 8, 8] }
preprocess { Rescaling { scale: 0.01 } }
unit { name: "stem"  filters: 4 }
MaxPooling2D { name: "pool" }
Add { name: "sum"  branch { }  branch { unit { name: "inner"  filters: 4 } } }
Flatten { name: "flat" }
Dense { name: "logits"  units: 5 }
"""
X = np.random.default_rng(0).uniform(0, 255, (6, 3, 8, 8)).astype(np.float32)
SHAPES = {"stem/conv": (4, 8, 8), "stem/relu": (4, 8, 8), "pool": (4, 4, 4), "inner/conv": (4, 4, 4),
          "inner/relu": (4, 4, 4), "sum": (4, 4, 4), "flat": (64,), "logits": (5,)}  # fmt: skip


def steps_of(model):
    """The outputs of all layers, layer by layer in eager mode."""
    values = {"image": pt.tensor(X * np.float32(0.01))}
    for node in model.net.nodes:
        values[node.name] = node.layer(*(values[b] for b in node.bottoms))
    return {name: value.numpy() for name, value in values.items()}


@pytest.mark.parametrize(
    ("output", "names"),
    [
        ("pool", ["pool"]),
        ("logits", ["logits"]),
        ("stem", ["stem/relu"]),
        ("stem/*", ["stem/conv", "stem/relu"]),
        (["flat", "pool"], ["pool", "flat"]),
        ("**/conv", ["stem/conv", "inner/conv"]),
        (["inner", "p??l"], ["pool", "inner/relu"]),
        ("*", ["stem/relu", "pool", "inner/relu", "sum", "flat", "logits"]),
    ],
    ids=str,
)
def test_a_submodel_gives_what_the_layers_give(output, names):
    model = model_from_text(TEXT)
    model.build()
    part, expected = model.submodel(output=output), steps_of(model)
    assert list(part.outputs) == names
    outputs = part.predict(X)
    outputs = {names[0]: outputs} if len(names) == 1 else outputs
    for name in names:
        assert outputs[name].shape == (6, *SHAPES[name])
        np.testing.assert_allclose(outputs[name], expected[name], rtol=1e-5, atol=1e-6)
    assert {node.name for node in part.net.nodes} <= set(SHAPES)
    assert model_from_text(part.to_text()).outputs == part.outputs


def test_the_weights_are_shared_in_both_directions():
    model = model_from_text(TEXT)
    part = model.submodel("pool")
    assert np.shares_memory(part.weights["stem/conv/kernel"], model.weights["stem/conv/kernel"])
    part.compile("sgd", "mse")
    part.fit(X, np.zeros((6, 4, 4, 4), "f"), verbose=0)
    expected = steps_of(model)["pool"]
    np.testing.assert_allclose(part.predict(X), expected, rtol=1e-5, atol=1e-6)
    model.compile("sgd", pt.losses.MeanSquaredError())
    model.fit(X, np.zeros((6, 5), "f"), verbose=0)
    np.testing.assert_allclose(part.predict(X), steps_of(model)["pool"], rtol=1e-5, atol=1e-6)
    assert not np.allclose(part.predict(X), expected)


def test_the_first_weights_are_those_of_the_whole_model():
    model = model_from_text(TEXT + "compile { loss: mse  seed: 7 }")
    part = model.submodel("stem")
    part.predict(X)
    np.testing.assert_array_equal(
        part.weights["stem/conv/kernel"],
        model_from_text(TEXT + "compile { loss: mse  seed: 7 }").weights["stem/conv/kernel"],
    )


def test_what_keras_users_write_works():
    """`Model(base.input, base.get_layer(...).output)`, and a new head on it."""
    base = model_from_text(TEXT)
    for inputs in (base.input, base.inputs, [base.input]):
        features = pt.Model(inputs, base.get_layer("pool").output)
        np.testing.assert_array_equal(features.predict(X), base.submodel("pool").predict(X))
    both = pt.Model(base.input, [base.get_layer("pool").output, base.get_layer(index=-1).output, base.output])
    assert list(both.predict(X)) == ["pool", "logits"]
    base.trainable = False
    y = pt.layers.Dense(2, name="new")(pt.layers.Flatten()(base.get_layer("sum").output))
    tuned = pt.Model(base.input, y)
    assert [type(layer).__name__ for layer in tuned.net.preprocess] == ["Rescaling"]
    tuned.compile("sgd", "mse")
    before = tuned.get_weights()
    tuned.fit(X, np.ones((6, 2), "f"), verbose=0)
    assert {n for n, a in tuned.weights.items() if not np.array_equal(a, before[n])} == {"new/kernel", "new/bias"}


def test_outputs_of_layers_equal_those_of_keras():
    k = keras.layers
    theirs = keras.Sequential(
        [keras.Input((7,)), k.Dense(5, activation="tanh", name="a"), k.Dense(4, name="b"), k.Dense(3)]
    )
    ours = pt.Sequential([pt.Input((7,)), pt.layers.Dense(5, activation="tanh", name="a"), pt.layers.Dense(4, name="b"),
                          pt.layers.Dense(3, name="c")])  # fmt: skip
    ours.set_weights([w.value.detach().numpy() for layer in theirs.layers for w in layer.weights])
    x = np.random.default_rng(1).normal(size=(9, 7)).astype(np.float32)
    for name in ("a", "b"):
        expected = keras.Model(theirs.inputs, theirs.get_layer(name).output)(torch.tensor(x)).detach().numpy()
        made = pt.Model(ours.input, ours.get_layer(name).output).predict(x)
        np.testing.assert_allclose(made, expected, rtol=1e-5, atol=1e-6)


def test_layers_with_several_inputs_and_outputs():
    text = """
      input { name: "a"  shape: [3] }
      input { name: "b"  shape: [3] }
      Add { name: "sum"  bottom: ["a", "b"] }
      Dense { name: "left"  bottom: "a"  units: 2  weights: "w" }
      Dense { name: "right"  bottom: "b"  units: 2  weights: "w" }
      Concatenate { name: "out"  bottom: ["sum", "left", "right"] }
    """
    model = model_from_text(text)
    assert len(model.input) == 2
    assert len(model.get_layer("sum").input) == 2
    left = model.submodel("left")
    assert left.inputs == ("a",)
    right = pt.Model(model.inputs[1:], model.get_layer("right").output)
    x = np.ones((2, 3), "f")
    np.testing.assert_array_equal(left.predict(x), right.predict(x))
    assert np.shares_memory(left.weights["w/kernel"], right.weights["w/kernel"])


def test_a_submodel_of_a_net_of_open_size():
    text = 'input { shape: [none, 1] }  Conv1D { name: "c"  filters: 2  kernel_size: 3 }  GlobalMaxPooling1D { }'
    model = model_from_text(text)
    part = model.submodel("c")
    assert part.predict(np.ones((2, 9, 1), "f")).shape == (2, 7, 2)
    model.predict(np.ones((2, 9, 1), "f"))
    assert np.shares_memory(part.weights["c/kernel"], model.weights["c/kernel"])


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (lambda m: m.submodel("pol"), r"'pol' matches no layer\. Did you mean 'pool'\?"),
        (lambda m: m.submodel("pool/*"), "matches no layer"),
        (lambda m: m.submodel([]), "expected the name of a layer"),
        (lambda m: m.submodel(3), "expected the name of a layer"),
        (lambda m: pt.Model(["imag"], m.output), "depend on no input 'imag'; they read image"),
        (lambda m: pt.layers.Dense(3).output, "is no layer of a model yet"),
    ],
)
def test_mistakes_are_errors(work, message):
    with pytest.raises(UsageError, match=message):
        work(model_from_text(TEXT))


def test_a_layer_outlives_its_model_with_a_clear_error():
    layer = model_from_text(TEXT).get_layer("pool")
    gc.collect()
    with pytest.raises(UsageError, match="the model of the layer 'pool' exists no more"):
        _ = layer.output


def test_a_model_whose_symbols_were_used_is_freed():
    model = model_from_text(TEXT)
    _ = model.get_layer("pool").output, [layer.output for layer in model.layers]
    reference = weakref.ref(model)
    del model, _
    gc.collect()
    assert reference() is None
