"""Real published weights of Keras: outputs equal those of Keras itself."""

import h5py
import numpy as np

import prototorch as pt
from prototorch import layers as pl
from prototorch.model.loading.read.read_file import read_weights
from tests.interop.keras_nets import keras, predict, quiet
from tests.interop.real_files import real_file


def mini_xception():
    """The net of the file: its names are those of Keras 2, whose numbers do not follow the order of the layers."""

    def norm(k, y):
        return pl.BatchNormalization(name=f"batch_normalization_{k}")(y)

    x = y = pt.Input((1, 64, 64))
    for k in (1, 2):
        y = pl.ReLU()(norm(k, pl.Conv2D(8, 3, use_bias=False, name=f"conv2d_{k}")(y)))
    for k, filters in enumerate((16, 32, 64, 128)):
        shortcut = norm(3 * k + 3, pl.Conv2D(filters, 1, strides=2, use_bias=False, name=f"conv2d_{k + 3}")(y))
        for j in (1, 2):
            y = pl.ReLU()(y) if j == 2 else y
            y = pl.SeparableConv2D(filters, 3, padding="same", use_bias=False, name=f"separable_conv2d_{2 * k + j}")(y)
            y = norm(3 * k + 3 + j, y)
        y = pl.Add()(pl.MaxPooling2D(3, 2, padding="same")(y), shortcut)
    y = pl.GlobalAveragePooling2D()(pl.Conv2D(7, 3, padding="same", name="conv2d_7")(y))
    return pt.Model(x, pl.Softmax()(y))


def test_mini_xception_of_keras_2(tmp_path):
    """A whole model of Keras 2.0.5 with its optimizer's state: 58,423 parameters."""
    path = real_file("emotion_model", tmp_path)
    file = read_weights(path)
    assert file.metadata["keras_version"] == "2.0.5"
    assert list(file.skipped) == ["optimizer_weights"]
    assert sum(stored.shape and int(np.prod(stored.shape)) for stored in file.arrays.values()) == 58_423
    model = mini_xception()
    report = model.load_weights(path)
    assert (report.missing, report.unexpected, report.mismatched) == ((), (), ())
    images = np.random.default_rng(0).uniform(-1, 1, (3, 64, 64, 1)).astype(np.float32)
    theirs = predict(quiet(keras.models.load_model)(path, compile=False), images)[0]
    np.testing.assert_allclose(model.predict(np.moveaxis(images, -1, 1).copy(), verbose=0), theirs, atol=1e-4)


def test_vgg16_trunk_of_keras_3(tmp_path):
    """A ``.weights.h5`` of a subclassed model, whose layers are named by their attributes' paths."""
    path = real_file("hed", tmp_path)
    depths, widths = (2, 2, 3, 3, 3), (64, 128, 256, 512, 512)
    x = y = pt.Input((3, 32, 48))
    image = z = keras.Input((32, 48, 3))
    rules = {}
    with h5py.File(path) as file:
        arrays = {}
        for s, (depth, width) in enumerate(zip(depths, widths, strict=True)):
            y, z = (pl.MaxPooling2D(2)(y), keras.layers.MaxPooling2D(2)(z)) if s else (y, z)
            for k in range(depth):
                y = pl.Conv2D(width, 3, padding=1, activation="relu", name=f"stage{s}_{k}")(y)
                z = keras.layers.Conv2D(width, 3, padding="same", activation="relu", name=f"stage{s}_{k}")(z)
                key = f"conv2d_{k}" if k else "conv2d"
                rules[f"block{s + 1}/{key}"] = f"stage{s}_{k}"
                group = file[f"block{s + 1}/layers/{key}/vars"]
                arrays[f"stage{s}_{k}"] = [group["0"][()], group["1"][()]]
    model, peer = pt.Model(x, y), keras.Model(image, z)
    for name, both in arrays.items():
        quiet(peer.get_layer(name).set_weights)(both)
    report = model.load_weights(path, rules=rules, by_name=True)
    assert report.missing == ()
    assert {name.split("/")[0] for name in report.unexpected} <= {f"dsn{k}" for k in range(1, 6)} | {"fuse"}
    images = np.random.default_rng(0).uniform(-100, 100, (1, 32, 48, 3)).astype(np.float32)
    theirs = np.moveaxis(predict(peer, images)[0], -1, 1)
    ours = model.predict(np.moveaxis(images, -1, 1).copy(), verbose=0)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4 * np.abs(theirs).max())
