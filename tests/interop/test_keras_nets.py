"""Channels-last nets of Keras and the same nets here: files of either side give equal outputs on the other."""

import numpy as np
import pytest

import prototorch as pt
from prototorch import layers as pl
from prototorch.errors import UsageError
from prototorch.interop.writers import ModelToWrite, write_model
from tests.interop.keras_nets import WRITERS, keras, predict, quiet, randomize, write

kl = keras.layers
TOLERANCE = 1e-4


def theirs(shape, body):
    x = keras.Input(shape)
    model = keras.Model(x, body(x))
    randomize(model, 3)
    return model


def flattened(L, x, **last):
    """A Flatten behind convolutions, then layers whose weights are in its order."""
    y = L.Conv2D(5, (3, 2), strides=2, padding="same", activation="relu", name="c1")(x)
    y = L.MaxPooling2D(2, name="p")(y)
    y = L.Flatten(name="f")(y)
    y = L.BatchNormalization(name="bn")(y)
    y = L.PReLU(name="alpha")(y)
    y = L.Dropout(0.5, name="drop")(y)
    return L.Dense(4, name="out")(y)


def several_readers(L, x, **last):
    y = L.Conv2D(3, 2, name="c")(x)
    flat = L.Flatten(name="f")(L.Activation("tanh", name="t")(y))
    pooled = L.GlobalAveragePooling2D(name="g")(y)
    a = L.Dense(6, name="a")(L.Dropout(0.1, name="d")(flat))
    b = L.Dense(5, name="b")(L.Concatenate(name="all")([pooled, L.LeakyReLU(name="l")(flat)]))
    return L.Dense(3, name="end")(L.Concatenate(name="both")([a, b, pooled]))


def decoder(L, x, channels_first=False):
    """A vector that becomes an image: the columns of the Dense are in the image's order."""
    y = L.Flatten(name="f")(x)
    y = L.Dense(4, name="code")(y)
    y = L.Dense(3 * 4 * 2, activation="relu", name="wide")(y)
    y = L.BatchNormalization(name="bn")(y)
    y = L.Reshape((2, 3, 4) if channels_first else (3, 4, 2), name="image")(y)
    return L.Conv2DTranspose(3, 2, strides=2, name="up")(y)


def over_images(L, x, channels_first=False):
    y = L.Conv2D(4, 2, name="c")(x)
    y = L.PReLU(name="each")(y)
    y = L.PReLU(shared_axes=[2, 3] if channels_first else [1, 2], name="channel")(y)
    y = L.LayerNormalization(axis=[1, 2, 3], name="ln")(y)
    y = L.GroupNormalization(2, name="gn")(y)
    return L.GlobalMaxPooling2D(name="g")(y)


def one_step(L, x, channels_first=False):
    """A recurrent layer that reads what a Flatten gives."""
    y = L.Flatten(name="f")(L.DepthwiseConv2D(3, depth_multiplier=2, name="d")(x))
    y = L.Reshape((1, 5 * 4 * 6), name="r")(y)
    return L.LSTM(3, name="lstm")(y)


NETS = [flattened, several_readers, decoder, over_images, one_step]
SHAPE = (7, 6, 3)


@quiet
def keras_net(body):
    keras.backend.clear_session()
    return theirs(SHAPE, lambda x: body(kl, x))


def our_net(body):
    x = pt.Input((SHAPE[2], *SHAPE[:2]))
    arguments = {} if body.__code__.co_varnames[2] == "last" else {"channels_first": True}
    return pt.Model(x, body(pl, x, **arguments))


def pictures():
    return np.random.default_rng(0).standard_normal((2, *SHAPE)).astype(np.float32)


def our_outputs(model):
    return model.predict(np.moveaxis(pictures(), -1, 1).copy(), verbose=0)


def in_their_order(y):
    return np.moveaxis(y, 1, -1) if y.ndim == 4 else y


@pytest.mark.parametrize("how", ["weights", "weights before 3.6", "legacy model", "model"])
@pytest.mark.parametrize("body", NETS, ids=lambda f: f.__name__)
def test_their_file_here(tmp_path, body, how):
    peer, model = keras_net(body), our_net(body)
    model.load_weights(write(peer, how, tmp_path))
    np.testing.assert_allclose(in_their_order(our_outputs(model)), predict(peer, pictures())[0], atol=TOLERANCE)


@pytest.mark.parametrize("body", NETS, ids=lambda f: f.__name__)
def test_our_file_there(tmp_path, body):
    """A ``.weights.h5`` is for the net that a user has in Keras: channels-last."""
    peer, model = keras_net(body), our_net(body)
    weights = {n: np.asarray(a) for n, a in model.weights.items()}
    write_model(tmp_path / "net.weights.h5", ModelToWrite(model.net, weights))
    quiet(peer.load_weights)(tmp_path / "net.weights.h5")
    np.testing.assert_allclose(in_their_order(our_outputs(model)), predict(peer, pictures())[0], atol=TOLERANCE)


def test_rows_matter(tmp_path):
    """Without the order of the rows the outputs would be others: the test above can fail."""
    peer, model = keras_net(flattened), our_net(flattened)
    model.load_weights(write(peer, "weights", tmp_path))
    kernel = np.asarray(model.weights["out/kernel"])
    assert not np.array_equal(kernel, peer.get_layer("out").kernel.value.detach().numpy())


@pytest.mark.parametrize("how", WRITERS)
def test_channels_first_nets_of_keras(tmp_path, how):
    """Keras' Flatten puts such images into channels-last order, too, if it is told that they are channels-first."""
    for flatten_format in ("channels_first", "channels_last"):
        x = keras.Input((3, 7, 6))
        y = kl.Conv2D(4, 2, data_format="channels_first", name="c")(x)
        y = kl.Dense(3, name="d")(kl.Flatten(data_format=flatten_format, name="f")(y))
        peer = keras.Model(x, y)
        randomize(peer)
        x = pt.Input((3, 7, 6))
        model = pt.Model(x, pl.Dense(3, name="d")(pl.Flatten(name="f")(pl.Conv2D(4, 2, name="c")(x))))
        data = np.moveaxis(pictures(), -1, 1).copy()
        model.load_weights(write(peer, how, tmp_path))
        is_known = "model" in how or flatten_format == "channels_first"  # weights alone: the usual order
        difference = np.abs(model.predict(data, verbose=0) - predict(peer, data)[0]).max()
        assert (difference < TOLERANCE) == is_known


@pytest.mark.parametrize("how", ["theirs", "ours"])
def test_channels_first_weights_alone(tmp_path, how):
    """What a ``.weights.h5`` of Keras does not tell the user does; what was assumed stands in the report. A file that
    prototorch wrote tells it."""
    x = keras.Input((3, 7, 6))
    y = kl.Flatten(name="f")(kl.Conv2D(4, 2, data_format="channels_first", name="c")(x))
    peer = keras.Model(x, kl.Dense(3, name="d")(y))
    randomize(peer)
    x = pt.Input((3, 7, 6))
    model = pt.Model(x, pl.Dense(3, name="d")(pl.Flatten(name="f")(pl.Conv2D(4, 2, name="c")(x))))
    path = write(peer, "weights", tmp_path)
    assert "taken to be channels_last" in str(model.load_weights(path))
    report = model.load_weights(path, data_format="channels_first")
    assert "channels_last" not in str(report)
    data = np.moveaxis(pictures(), -1, 1).copy()
    expected = predict(peer, data)[0]
    np.testing.assert_allclose(model.predict(data, verbose=0), expected, atol=TOLERANCE)
    if how == "ours":
        weights = {n: np.asarray(a).copy() for n, a in model.weights.items()}
        for data_format in ("channels_first", "channels_last"):
            path = tmp_path / f"{data_format}.weights.h5"
            write_model(path, ModelToWrite(model.net, weights), data_format=data_format)
            assert "taken to be" not in str(model.load_weights(path))
            np.testing.assert_allclose(model.predict(data, verbose=0), expected, atol=TOLERANCE)
        with pytest.raises(UsageError, match="the file itself says 'channels_last'"):
            model.load_weights(path, data_format="channels_first")
    with pytest.raises(UsageError, match="expected channels_last or channels_first, got 'nchw'"):
        model.load_weights(path, data_format="nchw")
