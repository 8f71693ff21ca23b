"""Layers without names: Keras counts ``dense``, ``dense_1``, we count ``dense_1``, ``dense_2``; files go both ways."""

import h5py
import numpy as np
import pytest

import prototorch as pt
from prototorch import layers as pl
from prototorch.errors import WeightsError
from prototorch.interop.writers import ModelToWrite, write_model
from tests.interop.keras_nets import keras, predict, quiet, randomize, write

kl = keras.layers
SHAPE = (7, 4)


def body(L, x):
    """Layers of one shape, so that a pair of wrong ones would fit."""
    y = L.GRU(4, return_sequences=True)(x)
    y = L.GRU(4)(y)
    y = L.PReLU()(L.Dense(4)(y))
    y = L.Dense(4, activation="relu")(y)
    y = L.Dense(4, name="head")(y)
    return L.Dense(4)(y)


@quiet
def keras_net(clear=True, seed=1):
    if clear:
        keras.backend.clear_session()
    x = keras.Input(SHAPE)
    model = keras.Model(x, body(kl, x))
    randomize(model, seed)
    return model


def our_net():
    x = pt.Input(SHAPE)
    return pt.Model(x, body(pl, x))


def data():
    return np.random.default_rng(0).standard_normal((3, *SHAPE)).astype(np.float32)


def export(model, path, **options):
    write_model(path, ModelToWrite(model.net, {n: np.asarray(a) for n, a in model.weights.items()}), **options)
    return path


def weighted_names(model):
    return [layer.name for layer in model.layers if layer.weights]


def test_the_nets_differ_in_their_names():
    assert weighted_names(keras_net()) == ["gru", "gru_1", "dense", "p_re_lu", "dense_1", "head", "dense_2"]
    names = list(dict.fromkeys(name.split("/")[0] for name in our_net().weights))
    assert names == ["gru_1", "gru_2", "dense_1", "prelu_1", "dense_2", "head", "dense_3"]


@pytest.mark.parametrize("how", ["weights", "weights before 3.6", "legacy model", "model"])
@pytest.mark.parametrize("clear", [True, False])
def test_their_file_here(tmp_path, how, clear):
    """A second model of a session counts on (``gru_2``); a file says the same."""
    peer = keras_net()
    peer = peer if clear else keras_net(clear=False)
    assert ("gru" in weighted_names(peer)) == clear
    model = our_net()
    report = model.load_weights(write(peer, how, tmp_path))
    assert (report.missing, report.unexpected, report.mismatched) == ((), (), ())
    np.testing.assert_allclose(model.predict(data(), verbose=0), predict(peer, data())[0], atol=1e-5)


def test_pairs_are_by_name_not_by_position(tmp_path):
    """The second layer that was made is called first: the numbers in the names tell which is which."""

    def exchanged(L, x):
        first, second = L.Dense(4), L.Dense(4)
        y = second(x)
        return first(y) if L is kl else L.Dense(4, name="dense_1")(L.Dense(4, name="dense_2")(x))

    keras.backend.clear_session()
    x = keras.Input((4,))
    peer = keras.Model(x, exchanged(kl, x))
    randomize(peer, 2)
    assert weighted_names(peer) == ["dense_1", "dense"]
    x = pt.Input((4,))
    model = pt.Model(x, exchanged(pl, x))
    for how in ("weights", "legacy model"):
        model.load_weights(write(peer, how, tmp_path))
        x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
        np.testing.assert_allclose(model.predict(x, verbose=0), predict(peer, x)[0], atol=1e-5)
    quiet(peer.load_weights)(export(model, tmp_path / "ours.weights.h5"))
    np.testing.assert_allclose(model.predict(x, verbose=0), predict(peer, x)[0], atol=1e-5)


@pytest.mark.parametrize("units", [3, 5])
def test_other_counts_are_refused(tmp_path, units):
    keras.backend.clear_session()
    peer = keras.Sequential([keras.Input((4,)), *(kl.Dense(4) for _ in range(units))])
    x = y = pt.Input((4,))
    for _ in range(4):
        y = pl.Dense(4)(y)
    model = pt.Model(x, y)
    before = model.get_weights()
    with pytest.raises(WeightsError, match="only count the layers of a class"):
        model.load_weights(quiet(write)(peer, "weights", tmp_path))
    assert all(np.array_equal(before[name], array) for name, array in model.get_weights().items())


@pytest.mark.parametrize("ending", [".keras", ".h5", ".weights.h5"])
def test_our_file_there_and_back(tmp_path, ending):
    model = our_net()
    options = {"format": "keras-h5"} if ending == ".h5" else {}
    path = export(model, tmp_path / f"net{ending}", **options)
    expected = model.predict(data(), verbose=0)
    if ending == ".weights.h5":
        with h5py.File(path) as file:
            assert {file[f"layers/{key}/vars"].attrs["name"] for key in file["layers"]} >= set(
                weighted_names(keras_net())
            )
        peer = keras_net()
        quiet(peer.load_weights)(path)
    else:
        peer = quiet(keras.saving.load_model)(path)
        assert weighted_names(peer) == weighted_names(keras_net())
        by_name = keras_net(seed=4)
        if ending == ".h5":
            quiet(by_name.load_weights)(path, by_name=True)
            np.testing.assert_allclose(predict(by_name, data())[0], expected, atol=1e-5)
    np.testing.assert_allclose(predict(peer, data())[0], expected, atol=1e-5)
    again = our_net()
    again.load_weights(path)
    np.testing.assert_array_equal(again.predict(data(), verbose=0), expected)


def test_a_name_of_another_layer_is_not_taken(tmp_path):
    """A ReLU called ``dense`` keeps its name, and so do the layers of the class Dense."""
    x = pt.Input((4,))
    model = pt.Model(x, pl.Dense(2)(pl.ReLU(name="dense")(pl.Dense(3)(x))))
    peer = quiet(keras.saving.load_model)(export(model, tmp_path / "net.keras"))
    assert weighted_names(peer) == ["dense_1", "dense_2"]
