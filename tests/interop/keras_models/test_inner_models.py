"""Models of Keras with models as layers, nested at random: to a text, trained here, and their weights back into Keras'
own model, by its file."""

from __future__ import annotations

import json
import random

import h5py
import numpy as np
import pytest

import prototorch as pt
from prototorch.errors import UsageError, WeightsError
from prototorch.interop.conversion import convert
from prototorch.interop.keras.config_import.whole_model import import_config
from tests.interop.keras_models.imported import random_weights
from tests.interop.keras_nets import keras, predict, quiet

kl = keras.layers
ENDINGS = ("keras", "h5", "weights.h5")


LAYERS = {  # by the rank of a sample; functions of a width and a random number
    1: [
        lambda width, _: kl.Dense(width, activation="relu"),
        lambda width, _: kl.Dense(width),
        lambda width, number: kl.Dense(width, name=f"named_{number}"),
        lambda *_: kl.BatchNormalization(),
        lambda *_: kl.LayerNormalization(),
        lambda *_: kl.PReLU(),
        lambda *_: kl.Dropout(0.3),
    ],
    2: [
        lambda width, _: kl.GRU(width, return_sequences=True),
        lambda width, _: kl.LSTM(width, return_sequences=True),
        lambda width, _: kl.Bidirectional(kl.LSTM(width, return_sequences=True)),
        lambda width, _: kl.Conv1D(width, 2, padding="same"),
        lambda width, _: kl.TimeDistributed(kl.Dense(width)),
        lambda width, _: kl.SeparableConv1D(width, 2, padding="same"),
        lambda *_: kl.BatchNormalization(),
    ],
    3: [
        lambda width, _: kl.Conv2D(width, 3, padding="same", activation="relu"),
        lambda width, _: kl.SeparableConv2D(width, 2, padding="same"),
        lambda *_: kl.BatchNormalization(),
        lambda *_: kl.DepthwiseConv2D(2, padding="same"),
        lambda *_: kl.PReLU(shared_axes=[1, 2]),
        lambda *_: kl.MaxPooling2D(2, padding="same"),
    ],
}
SHAPES = {1: (5,), 2: (6, 4), 3: (6, 5, 3)}


def _model(rng, shape, depth):
    """A Sequential or functional model over values of a shape, with layers and models inside."""

    def layer():
        return rng.choice(LAYERS[len(shape)])(rng.choice((3, 4, 5)), rng.randrange(10**9))

    if rng.random() < 0.5:
        model = keras.Sequential([keras.Input(shape)])
        for _ in range(rng.choice((1, 2, 3))):
            inner_shape = (model.layers and model.output_shape[1:]) or shape
            model.add(_model(rng, inner_shape, depth - 1) if depth > 0 and rng.random() < 0.5 else layer())
        return model
    x = keras.Input(shape)
    y = _model(rng, shape, depth - 1)(x) if depth > 0 else layer()(x)
    kind = rng.randrange(3)
    if kind == 0:  # a branch beside
        y = kl.Concatenate()([y, layer()(y)]) if len(shape) < 3 else layer()(y)
    elif kind == 1:  # a model that is called twice
        width = y.shape[-1]
        same = keras.Sequential([keras.Input(y.shape[1:]), kl.Dense(width, activation="tanh")])
        y = same(same(y))
    else:
        y = layer()(y)
    return keras.Model(x, y)


@quiet
def _nested_model(seed):
    rng = random.Random(seed)
    keras.utils.set_random_seed(seed)
    keras.backend.clear_session()
    shape = SHAPES[seed % 3 + 1]
    x = keras.Input(shape)
    y = _model(rng, shape, 2)(x)
    if len(y.shape) > 2:
        y = kl.Flatten()(y)
    y = kl.Dense(4)(y)
    model = keras.Model(x, _model(rng, (4,), rng.choice((0, 1)))(y))
    random_weights(model, seed)
    return model


def _arrays(path):
    found = {}
    with h5py.File(path) as file:
        file.visititems(lambda name, item: found.update({name: item[()]} if isinstance(item, h5py.Dataset) else {}))
    return {name: array for name, array in found.items() if "seed_generator" not in name}


@pytest.mark.filterwarnings("ignore::prototorch.data.checks.DataWarning")  # of random targets
@pytest.mark.parametrize("seed", [*range(5), *(pytest.param(n, marks=pytest.mark.slow) for n in range(5, 18))])
def test_weights_go_back_into_the_nested_model(tmp_path, monkeypatch, seed):
    monkeypatch.chdir(tmp_path)
    peer = _nested_model(seed)
    for ending in ENDINGS:
        quiet(peer.save_weights if ending == "weights.h5" else peer.save)(f"peer.{ending}")
    source = ("peer.keras", "peer.h5")[seed % 2]
    convert(source, "net.proto")
    model = pt.load_model("net.proto")
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((6, *peer.input_shape[1:])).astype(np.float32)
    ours = np.moveaxis(x, -1, 1) if model.net.inputs[0].shape != x.shape[1:] else x
    np.testing.assert_allclose(model.predict(ours, verbose=0), predict(peer, x)[0], atol=1e-4)
    for ending in ENDINGS:  # untrained: the file that Keras writes, array by array
        pt.load_model("net.proto").export(f"same_{ending}.weights.h5", like=f"peer.{ending}")
        written, expected = _arrays(f"same_{ending}.weights.h5"), _arrays("peer.weights.h5")
        assert written.keys() == expected.keys()
        for name, array in expected.items():
            np.testing.assert_array_equal(written[name], array, name)
    model.compile("adam", "mse")
    model.fit(ours, rng.standard_normal((6, *peer.output_shape[1:])).astype(np.float32), epochs=2, verbose=0)
    for ending in ENDINGS:
        path = f"trained_{ending}.weights.h5"
        model.export(path, like=f"peer.{ending}")
        random_weights(peer, 99)
        quiet(peer.load_weights)(path)
        np.testing.assert_allclose(model.predict(ours, verbose=0), predict(peer, x)[0], rtol=1e-3, atol=1e-4)
        assert pt.load_model("net.proto").load_weights(path).missing == ()


def _keras_2_entry(entry, first_call):
    """A layer of a functional config as Keras 2 wrote it: lists of references, the calls of a model counted from 1."""
    nodes = [[[*node["args"][0]["config"]["keras_history"], {}]] for node in entry.get("inbound_nodes") or []]
    for node in nodes:
        for reference in node:
            reference[1] += first_call.get(reference[0], 0)
    return {"class_name": entry["class_name"], "config": entry["config"], "name": entry["name"], "inbound_nodes": nodes}


@pytest.mark.parametrize("first_call", [0, 1])
def test_calls_of_models_in_configs_of_keras_2(first_call):
    """Keras 2 counted a call of the model on its own inputs, which is not listed: of a Sequential not always."""
    keras.backend.clear_session()
    x = keras.Input((3,), name="x")
    inner = keras.Sequential([keras.Input((3,)), kl.Dense(3, name="a")], name="inner")
    model = keras.Model(x, inner(kl.Dense(3, name="b")(inner(x))))
    config = json.loads(model.to_json())
    expected = import_config(config, None, "new").net
    old = {
        **config["config"],
        "layers": [_keras_2_entry(one, {"inner": first_call}) for one in config["config"]["layers"]],
    }
    old["output_layers"] = [["inner", 1 + first_call, 0]]
    net = import_config({"class_name": "Functional", "config": old}, None, "old").net
    assert [(n.name, n.bottoms, n.layer.weights) for n in net.nodes] == [
        (n.name, n.bottoms, n.layer.weights) for n in expected.nodes
    ]
    assert net.outputs == expected.outputs


def test_what_is_no_file_of_the_model_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    peer, other = _nested_model(0), _nested_model(3)
    quiet(peer.save)("peer.keras")
    quiet(other.save)("other.keras")
    convert("peer.keras", "net.proto")
    model = pt.load_model("net.proto")
    with pytest.raises(WeightsError, match=r"other\.keras do not fit the model"):
        model.export("x.weights.h5", like="other.keras")
    model.export("net.npz")
    with pytest.raises(UsageError, match=r"like: expected a file that Keras wrote of the model, got net\.npz"):
        model.export("x.weights.h5", like="net.npz")
    with pytest.raises(UsageError, match="no option 'like'"):
        model.export("x.keras", like="peer.keras")


def test_the_command_line_takes_the_file_of_the_nested_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    peer = _nested_model(1)
    quiet(peer.save)("peer.keras")
    convert("peer.keras", "net.proto")
    convert("net.h5", "back.weights.h5", like="peer.keras")
    x = np.random.default_rng(0).standard_normal((3, *peer.input_shape[1:])).astype(np.float32)
    expected = predict(peer, x)[0]
    random_weights(peer, 5)
    quiet(peer.load_weights)("back.weights.h5")
    np.testing.assert_allclose(predict(peer, x)[0], expected, atol=1e-5)
