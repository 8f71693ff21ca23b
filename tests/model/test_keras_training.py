"""Training beside Keras: the same weights at first, the same data, the same loss at every step."""

from __future__ import annotations

import keras
import numpy as np
import pytest

import prototorch as pt

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

rng = np.random.default_rng(0)
X = rng.normal(size=(48, 2, 8, 8)).astype(np.float32)
Y = rng.integers(0, 4, 48)


def ours() -> pt.Model:
    layers = pt.layers
    return pt.Sequential([
        pt.Input((2, 8, 8)),
        layers.Conv2D(6, 3, padding="same", activation="relu"),
        layers.BatchNormalization(),
        layers.MaxPooling2D(2),
        layers.Conv2D(8, 3, activation="tanh"),
        layers.Flatten(),
        layers.Dense(4),
    ])  # fmt: skip


def theirs() -> keras.Model:
    layers, first = keras.layers, {"data_format": "channels_first"}
    return keras.Sequential([
        keras.Input((2, 8, 8)),
        layers.Conv2D(6, 3, padding="same", activation="relu", **first),
        layers.BatchNormalization(axis=1),
        layers.MaxPooling2D(2, **first),
        layers.Conv2D(8, 3, activation="tanh", **first),
        layers.Permute((2, 3, 1)),  # Keras flattens channels-first data in the order of channels-last
        layers.Flatten(),
        layers.Dense(4),
    ])  # fmt: skip


def give(mine: pt.Model, other: keras.Model) -> None:
    """Our weights for Keras: kernels [filters, channels, h, w] -> [h, w, channels, filters]; features in its order."""
    for layer, kept in zip(
        [x for x in other.layers if x.weights],
        ["conv2d_1", "batch_normalization_1", "conv2d_2", "dense_1"],
        strict=True,
    ):
        named = {n.rsplit("/", 1)[1]: a for n, a in mine.weights.items() if n.startswith(kept + "/")}
        for weight in layer.weights:
            array = named[weight.name]
            if array.ndim == 4:
                array = array.transpose(2, 3, 1, 0)
            elif array.ndim == 2:
                array = array.reshape(8, 2, 2, 4).transpose(1, 2, 0, 3).reshape(32, 4)
            weight.assign(np.array(array))


OPTIMIZERS = {
    "momentum": ("SGD", {"learning_rate": 0.05, "momentum": 0.9}),
    "nesterov": ("SGD", {"learning_rate": 0.05, "momentum": 0.9, "nesterov": True}),
    "Adam": ("Adam", {"learning_rate": 0.003}),
}


def pair(kind, options):
    mine, other = ours(), theirs()
    mine.compile(
        getattr(pt.optimizers, kind)(**options), pt.losses.SparseCategoricalCrossentropy(from_logits=True), ["accuracy"]
    )
    other.compile(
        getattr(keras.optimizers, kind)(**options),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    give(mine, other)
    return mine, other


@pytest.mark.parametrize(("kind", "options"), OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_the_same_curve(kind, options):
    mine, other = pair(kind, options)
    arguments = {"epochs": 4, "batch_size": 16, "shuffle": False, "verbose": 0, "validation_data": (X[:20] + 1, Y[:20])}
    weights = {0: 1.0, 1: 2.0, 2: 0.5, 3: 1.0}
    a = mine.fit(X, Y, class_weight=weights, **arguments).history
    b = other.fit(X, Y, sample_weight=np.array([weights[k] for k in Y], np.float32), **arguments).history
    assert set(a) - {"learning_rate"} == set(b)
    for name in ("loss", "val_loss"):
        # 12 steps in float32, whose sums are taken in another order
        np.testing.assert_allclose(a[name], b[name], rtol=1e-4)
    np.testing.assert_allclose(a["accuracy"], b["accuracy"])
    np.testing.assert_allclose(mine.predict(X), other.predict(X, verbose=0), rtol=1e-3, atol=1e-3)


def test_names_in_the_logs_of_several_outputs():
    def build(library, make):
        x = library.Input((3,), name="x")
        outs = [library.layers.Dense(2, name="kind")(x), library.layers.Dense(1, name="score")(x)]
        made = make(x, outs)
        loss = {"kind": library.losses.SparseCategoricalCrossentropy(from_logits=True), "score": "mse"}
        made.compile("sgd", loss, metrics={"kind": ["accuracy"], "score": ["mae", "mse"]})
        return made

    x = rng.normal(size=(8, 3)).astype(np.float32)
    y = {"kind": np.arange(8) % 2, "score": x[:, :1]}
    a = build(pt, pt.Model).evaluate(x, y)
    b = build(keras, keras.Model).evaluate(x, y, verbose=0, return_dict=True)
    assert a.keys() == b.keys()
