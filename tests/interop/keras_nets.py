"""Nets of Keras with random weights, for tests: layers with odd sizes, put together in each way that Keras has."""

import os
import warnings
from functools import wraps

os.environ.setdefault("KERAS_BACKEND", "torch")

import h5py
import keras
import numpy as np
from keras import layers as kl

__all__ = ["NETS", "WRITERS", "build", "predict", "quiet", "randomize", "write"]


def quiet(function):
    """A function whose warnings do not count: Keras' own, of its back end and of its legacy format."""

    @wraps(function)
    def inner(*args, **kwargs):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(*args, **kwargs)

    return inner


def _images():
    return keras.Sequential(
        [
            keras.Input((11, 9, 3)),
            kl.Conv2D(6, (3, 2), name="c1"),
            kl.BatchNormalization(name="bn"),
            kl.PReLU(shared_axes=[1, 2]),
            kl.Conv2D(4, 2, groups=2, use_bias=False),
            kl.BatchNormalization(scale=False),
            kl.DepthwiseConv2D(2, depth_multiplier=3),
            kl.BatchNormalization(center=False),
            kl.SeparableConv2D(5, 2, depth_multiplier=2),
            kl.Conv2DTranspose(3, (2, 3)),
            kl.LayerNormalization(),
            kl.GroupNormalization(3),
            kl.BatchNormalization(scale=False, center=False),
            kl.Dropout(0.2),
            kl.Flatten(),
            kl.Dense(7, name="out"),
        ]
    )


def _sequences():
    x = keras.Input((7, 5))
    y = kl.Bidirectional(kl.LSTM(3, return_sequences=True, dropout=0.1))(x)
    y = kl.GRU(4, return_sequences=True)(y)
    y = kl.GRU(3, return_sequences=True, reset_after=False)(y)
    y = kl.LSTM(5, return_sequences=True, use_bias=False)(y)
    y = kl.Conv1D(6, 3, padding="causal")(y)
    y = kl.SeparableConv1D(4, 2)(y)
    y = kl.Conv1DTranspose(3, 2)(y)
    y = kl.MultiHeadAttention(2, 3, value_dim=4)(y, y)
    y = kl.TimeDistributed(kl.Dense(4))(y)
    y = kl.LayerNormalization(center=False)(y)
    y = kl.Bidirectional(kl.GRU(2))(y)
    return keras.Model(x, kl.Dense(3, use_bias=False)(y))


def _tokens():
    x = keras.Input((6,), dtype="int32")
    y = kl.Embedding(11, 5)(x)
    y = kl.SimpleRNN(4)(y)
    return keras.Model(x, kl.PReLU()(y))


def _volumes():
    x = keras.Input((5, 6, 4, 2))
    y = kl.Conv3D(3, 2)(x)
    return keras.Model(x, kl.Conv3DTranspose(2, (2, 1, 3))(y))


def _nested():
    inner = keras.Sequential([keras.Input((8, 7, 3)), kl.Conv2D(3, 3, name="a"), kl.BatchNormalization()], name="inner")
    x = keras.Input((10, 9, 3))
    y = kl.Conv2D(3, 3)(x)
    y = kl.Conv2D(2, 1, name="last")(inner(y))
    return keras.Model(x, kl.Dense(2)(kl.GlobalAveragePooling2D()(y)))


def _many_of_a_class():
    return keras.Sequential([keras.Input((3,)), *(kl.Dense(3 + k) for k in range(12))])


NETS = {name.strip("_"): maker for name, maker in sorted(globals().items())
        if name in ("_images", "_sequences", "_tokens", "_volumes", "_nested", "_many_of_a_class")}  # fmt: skip


@quiet
def build(name, seed=0):
    """A net with random weights, running statistics too."""
    keras.backend.clear_session()
    model = NETS[name]()
    randomize(model, seed)
    return model


@quiet
def randomize(model, seed=0):
    """Random weights; variances are positive."""
    rng = np.random.default_rng(seed)
    for layer in model._flatten_layers():
        for variable in layer._trainable_variables + layer._non_trainable_variables:
            value = rng.normal(0, 0.3, variable.shape)
            variable.assign(np.abs(value) + 0.5 if "variance" in variable.name else value)


@quiet
def predict(model, *inputs):
    """The net's outputs, as a list of arrays."""
    outputs = model(inputs[0] if len(inputs) == 1 else list(inputs), training=False)
    return [np.array(y.detach().numpy()) for y in (outputs if isinstance(outputs, list | tuple) else [outputs])]


def _without_names(path):
    with h5py.File(path, "r+") as file:
        groups = []
        file.visititems(lambda _, item: groups.append(item) if "name" in item.attrs else None)
        for group in groups:
            del group.attrs["name"]


def _before_3_6(model, path):
    model.save_weights(path)
    _without_names(path)


def _of_2_15(model, path):
    _before_3_6(model, path)
    with h5py.File(path, "r+") as file:
        file.move("layers", "_layer_checkpoint_dependencies")


#: how Keras writes a file: name -> (ending, function of model and path)
WRITERS = {
    "weights": (".weights.h5", lambda model, path: model.save_weights(path)),
    "weights before 3.6": (".weights.h5", _before_3_6),
    "weights of 2.15": (".weights.h5", _of_2_15),
    "legacy model": (".h5", lambda model, path: model.save(path)),
    "model": (".keras", lambda model, path: model.save(path)),
}


@quiet
def write(model, how, folder):
    """A file that Keras writes in one of its ways; its path."""
    ending, function = WRITERS[how]
    path = str(folder / f"net{ending}")
    function(model, path)
    return path
