"""Gradient accumulation, weight decay by patterns, and nets whose layers bring their loss."""

from __future__ import annotations

import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np
import pytest

import prototorch as pt
from prototorch.errors import UsageError

X = np.random.default_rng(0).normal(size=(24, 5)).astype(np.float32)
Y = np.random.default_rng(1).normal(size=(24, 2)).astype(np.float32)
KERNEL = np.random.default_rng(2).normal(size=(5, 2)).astype(np.float32)


def trained(optimizer, batch_size, epochs=2, **compile_arguments):
    model = pt.Sequential([pt.Input((5,)), pt.layers.Dense(2, name="dense")])
    model.compile(optimizer, "mse", **compile_arguments)
    model.set_weights({"dense/kernel": KERNEL, "dense/bias": np.zeros(2, np.float32)})
    model.fit(X, Y, batch_size=batch_size, epochs=epochs, shuffle=False, verbose=0)
    return model


def by_keras(optimizer, batch_size, epochs=2):
    model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(2)])
    model.compile(optimizer, "mse")
    model.set_weights([KERNEL, np.zeros(2, np.float32)])
    model.fit(X, Y, batch_size=batch_size, epochs=epochs, shuffle=False, verbose=0)
    return [w.value.detach().numpy() for w in model.weights]


@pytest.mark.parametrize(
    "fields",
    [
        {"momentum": 0.9},
        {"global_clipnorm": 0.3, "momentum": 0.5},
        {"weight_decay": 0.1},
    ],
)
@pytest.mark.parametrize("count", [2, 4])
def test_accumulation_equals_keras(fields, count):
    ours = trained(pt.optimizers.SGD(0.1, gradient_accumulation_steps=count, **fields), 6)
    theirs = by_keras(keras.optimizers.SGD(0.1, gradient_accumulation_steps=count, **fields), 6)
    for mine, other in zip(ours.weights.values(), theirs, strict=True):
        np.testing.assert_allclose(mine, other, rtol=2e-5, atol=2e-6)
    assert ours.trainer.step == 8


def test_accumulated_batches_equal_one_large_batch():
    schedule = pt.schedules.StepDecay(0.1, step_size=1, gamma=0.5)
    parts = trained(pt.optimizers.Adam(schedule, gradient_accumulation_steps=4), 6, epochs=3)
    whole = trained(pt.optimizers.Adam(schedule), 24, epochs=3)
    for name, value in whole.weights.items():
        np.testing.assert_allclose(parts.weights[name], value, rtol=1e-5, atol=1e-6)


def test_weights_change_with_every_update_only():
    model = trained(pt.optimizers.SGD(0.1, gradient_accumulation_steps=3), 8, epochs=1)
    before = {name: np.array(value) for name, value in model.weights.items()}
    for _ in range(2):
        model.train_on_batch(X[:8], Y[:8])
        for name, value in before.items():
            np.testing.assert_array_equal(model.weights[name], value)
    model.train_on_batch(X[:8], Y[:8])
    assert all((model.weights[name] != value).any() for name, value in before.items())


def test_decay_mult_of_a_pattern():
    decayed = trained(pt.optimizers.SGD(0.0001, l2=10.0), 24, epochs=1)
    spared = trained(pt.optimizers.SGD(0.0001, l2=10.0), 24, epochs=1, decay_mult={"**/kernel": 0.5})
    plain = trained(pt.optimizers.SGD(0.0001), 24, epochs=1)
    kernels = [m.weights["dense/kernel"] for m in (plain, spared, decayed)]
    np.testing.assert_allclose(kernels[1] - kernels[0], -0.0001 * 5.0 * KERNEL, rtol=1e-2, atol=1e-7)
    np.testing.assert_allclose(kernels[2] - kernels[0], -0.0001 * 10.0 * KERNEL, rtol=1e-2, atol=1e-7)
    with pytest.raises(UsageError, match="matches no layer or weight"):
        trained(pt.optimizers.SGD(0.1), 24, decay_mult={"conv": 0.0})


def test_a_net_with_its_own_loss_is_compiled_without_one():
    def graph():
        x, y = pt.Input((5,), name="x"), pt.Input((2,), name="y")
        out = pt.layers.Dense(2, name="out")(x)
        difference = pt.layers.Subtract(name="difference")([out, y])
        squares = pt.layers.Multiply(name="squares")([difference, difference])
        return pt.Model([x, y], pt.layers.AddLoss(weight=1 / 48, name="loss")(squares))

    model = graph()
    model.compile("sgd")
    model.set_weights({"out/kernel": KERNEL, "out/bias": np.zeros(2, np.float32)})
    history = model.fit({"x": X, "y": Y}, batch_size=24, epochs=3, verbose=0)
    other = trained("sgd", 24, epochs=3)
    for mine, theirs in zip(model.weights.values(), other.weights.values(), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)
    assert history.history["loss"][2] < history.history["loss"][0]
    loss = model.evaluate({"x": X, "y": Y}, batch_size=24, verbose=0)["loss"]
    np.testing.assert_allclose(
        loss, np.mean((X @ model.weights["out/kernel"] + model.weights["out/bias"] - Y) ** 2), rtol=1e-5
    )
