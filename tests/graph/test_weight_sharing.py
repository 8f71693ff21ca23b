"""Weights that several layers share under one ``weights`` name."""

from __future__ import annotations

import numpy as np
import pytest

import prototorch as pt
from prototorch.errors import ShapeError, UsageError

TIED = """
name: "tied"
input { name: "x"  shape: [4]  dtype: int32 }
Embedding { name: "tok"  input_dim: 9  output_dim: 3  weights: "w" }
Dense { name: "mix"  units: 3  activation: tanh }
Dense { name: "head"  units: 9  weights: "w"  HEAD }
compile { loss: SparseCategoricalCrossentropy { from_logits: true }  optimizer: adam }
"""
X = np.random.default_rng(1).integers(0, 9, (6, 4)).astype(np.int32)


def tied(tmp_path, head="", text=TIED):
    (tmp_path / "tied.proto").write_text(text.replace("HEAD", head))
    return pt.load_model(tmp_path / "tied.proto")


def test_the_kernel_of_dense_is_the_transposed_embedding(tmp_path):
    model = tied(tmp_path)
    weights = model.get_weights()
    assert list(weights) == ["w/embeddings", "mix/kernel", "mix/bias", "w/bias"]
    assert model.count_params() == 9 * 3 + 9 + 3 + 9
    hidden = np.tanh(weights["w/embeddings"][X] @ weights["mix/kernel"])
    np.testing.assert_allclose(model.predict(X), hidden @ weights["w/embeddings"].T, rtol=1e-4, atol=1e-6)
    lines = []
    model.summary(print_fn=lines.append)
    assert "48 parameters, 48 of them trained" in lines[0]
    assert [row.split()[4] for row in lines[0].splitlines()[2:5]] == ["27", "12", "9"]


def test_a_tied_weight_gets_the_sum_of_both_gradients_and_one_slot(tmp_path):
    import torch

    model = tied(tmp_path, "use_bias: false")
    model.compile(pt.optimizers.SGD(1.0), model.compile_block.loss)
    start = model.get_weights()
    table, mix, bias = (torch.tensor(start[n], requires_grad=True) for n in ("w/embeddings", "mix/kernel", "mix/bias"))
    logits = torch.tanh(table[torch.tensor(X).long()] @ mix + bias) @ table.T
    torch.nn.functional.cross_entropy(logits.reshape(-1, 9), torch.tensor(X).long().reshape(-1)).backward()
    model.train_on_batch(X, X)
    after = model.get_weights()
    np.testing.assert_allclose(start["w/embeddings"] - after["w/embeddings"], table.grad, rtol=1e-4, atol=1e-6)
    model.compile("adam", model.compile_block.loss)
    model.train_on_batch(X, X)
    assert sum(":m" in k for k in model.variables if k.startswith("optimizer:w/")) == 1


def test_tied_weights_are_saved_once_and_load(tmp_path):
    model = tied(tmp_path)
    model.fit(X, X, epochs=1, verbose=0)
    model.save(tmp_path / "tied.h5")
    again = pt.load_model(tmp_path / "tied.h5")
    assert list(again.get_weights()) == list(model.get_weights())
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_the_layer_that_comes_first_holds_the_matrix():
    x = pt.Input((3,))
    y = pt.layers.Dense(9, weights="w", activation="softmax")(x)
    index = pt.Input((4,), dtype="int32", name="index")
    z = pt.layers.Embedding(9, 3, weights="w")(index)
    model = pt.Model([x, index], [y, z])
    assert list(model.get_weights()) == ["w/kernel", "w/bias"]
    found = model.predict({"input_1": np.zeros((6, 3), np.float32), "index": X})
    np.testing.assert_array_equal(found[model.outputs[1]], model.get_weights()["w/kernel"].T[X])


WRONG = {
    "nothing": ('input { shape: [3] }\nDense { name: "a"  units: 3  weights: "w" }\n'
                'PReLU { name: "b"  weights: "w" }',
                r"3:1: layer 'b' \(PReLU\): weights: 'w' shares nothing with the layer 'a': there are kernel \[3, 3\], "
                r"bias \[3\], here alpha \[3\]"),
    "shape": (TIED.replace("units: 9", "units: 8").replace("HEAD", ""),
              r"layer 'head' \(Dense\): its kernel \[3, 8\] is shared with the embeddings \[9, 3\] of the layer .tok. "
              r"as the transpose of it, and would need the shape \[3, 9\]"),
    "same names": ('input { shape: [3] }\nDense { name: "a"  units: 4  weights: "w" }\nDense { name: "b"  units: 4  '
                   'weights: "w" }',
                   r"the shared weight 'w/kernel' is float32 \[3, 4\] in the layer 'a', but would need to be "
                   r"float32 \[4, 4\]"),
    "initializer": ('input { shape: [3] }\nDense { name: "a"  units: 3  weights: "w"  kernel_initializer: ones }\n'
                    'Dense { name: "b"  units: 3  weights: "w"  kernel_initializer: zeros }',
                    r"'w/kernel' has the initializer .*Ones.* by the layer 'a', but .*Zeros.* here"),
    "regularizer": (TIED.replace("HEAD", "kernel_regularizer: l2"), "state the regularizer at the layer 'tok'"),
    "rates": ('input { shape: [3] }\nDense { name: "a"  units: 3  weights: "w"  lr_mult: 2 }\n'
              'Dense { name: "b"  units: 3  weights: "w"  lr_mult: 3 }', "has the lr_mult 2.0 .* but 3.0 here"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_layers_that_cannot_share_are_refused(name, tmp_path):
    text, message = WRONG[name]
    with pytest.raises(ShapeError, match=message):
        tied(tmp_path, text=text).build()


def test_what_one_layer_states_holds_for_the_shared_weight(tmp_path):
    text = """input { shape: [3] }
    Dense { name: "a"  units: 3  weights: "w" }
    Dense { name: "b"  units: 3  weights: "w"  use_bias: false  kernel_initializer: ones  trainable: false }
    """
    model = tied(tmp_path, text=text)
    weights = model.get_weights()
    assert weights["w/kernel"].tolist() == np.ones((3, 3)).tolist()
    assert list(weights) == ["w/kernel", "w/bias"]  # the bias is that of 'a' alone
    lines = []
    model.summary(print_fn=lines.append)
    assert "12 parameters, 3 of them trained" in lines[0]


def test_a_layer_named_like_the_beginning_of_another_shares_nothing_and_is_no_mistake(tmp_path):
    text = 'input { shape: [3] }\nDense { name: "a"  units: 3 }\nDense { name: "a/b"  units: 3 }'
    assert len(tied(tmp_path, text=text).get_weights()) == 4


def test_tied_embeddings_of_a_language_model_have_their_right_size(tmp_path):
    text = """input { name: "x"  shape: [8]  dtype: int32 }
    Embedding { input_dim: 50257  output_dim: 768  weights: "wte" }
    PositionEmbedding { sequence_length: 1024 }
    Dense { units: 50257  use_bias: false  weights: "wte" }
    """
    (tmp_path / "gpt.proto").write_text(text)
    lines = []
    pt.load_model(tmp_path / "gpt.proto").summary(print_fn=lines.append)
    assert f"{50257 * 768 + 1024 * 768:,} parameters" in lines[0]


def test_each_use_of_a_batch_normalization_moves_its_statistics():
    """As in Keras and PyTorch: the second use starts from the statistics that the first one has left."""
    a, b = pt.Input((2,), name="a"), pt.Input((2,), name="b")
    norm = pt.layers.BatchNormalization(momentum=0.5, name="norm")
    model = pt.Model([a, b], pt.layers.Concatenate()(norm(a), norm(b)))
    model.compile(pt.optimizers.SGD(0.0), "mse")
    x = np.array([[1.0, 2.0], [3.0, 6.0]], np.float32)
    model.train_on_batch({"a": x, "b": 2 * x}, np.zeros((2, 4), np.float32))
    mean, variance = x.mean(0), x.var(0)
    np.testing.assert_allclose(model.weights["norm/moving_mean"], (0 + mean) * 0.25 + mean, rtol=1e-6)
    expected = (1 * 0.5 + variance * 0.5) * 0.5 + 4 * variance * 0.5
    np.testing.assert_allclose(model.weights["norm/moving_variance"], expected, rtol=1e-6)


def test_a_shared_name_on_tensors_or_inside_another_layer_is_refused():
    with pytest.raises(UsageError, match="on tensors, call one layer object several times"):
        pt.layers.Dense(2, weights="w")(pt.tensor(np.ones((1, 2), np.float32)))
    x = pt.Input((2, 3))
    with pytest.raises(ShapeError, match="weights: 'w' has no effect on a Dense inside a TimeDistributed"):
        pt.Model(x, pt.layers.TimeDistributed(pt.layers.Dense(2, weights="w"))(x)).build()


def test_the_factors_of_a_layer_inside_another_count():
    x = pt.Input((2, 3))
    inner = pt.layers.Dense(1, use_bias=False, lr_mult=0.0)
    model = pt.Model(x, pt.layers.TimeDistributed(inner, lr_mult=2.0)(x))
    model.compile("sgd", "mse")
    before = model.get_weights()
    model.train_on_batch(np.ones((1, 2, 3), np.float32), np.ones((1, 2, 1), np.float32))
    assert all(np.array_equal(before[n], a) for n, a in model.get_weights().items())
