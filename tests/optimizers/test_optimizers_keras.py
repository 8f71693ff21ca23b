"""Every optimiser equals Keras' over five steps of the same gradients, planned and at once; some equal PyTorch's."""

from __future__ import annotations

import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np
import pytest
import torch

from prototorch import optimizers as O
from prototorch import tensor
from tests.optimizers.sides import keras_steps, planned_steps, weight

K = keras.optimizers
RNG = np.random.default_rng(7)
STEPS = 5
SHAPES = {"dense/kernel": (4, 3), "dense/bias": (3,), "scale": ()}
START = {name: np.asarray(RNG.normal(size=shape), np.float32) for name, shape in SHAPES.items()}
GRADS = [{name: np.asarray(RNG.normal(size=shape), np.float32) for name, shape in SHAPES.items()} for _ in range(STEPS)]

METHODS = {
    "SGD": [{}, {"momentum": 0.9}, {"momentum": 0.9, "nesterov": True}],
    "Adam": [{}, {"amsgrad": True}, {"beta_1": 0.8, "beta_2": 0.95, "epsilon": 1e-3}],
    "AdamW": [{}, {"weight_decay": 0.1, "amsgrad": True}],
    "Nadam": [{}, {"beta_1": 0.7}],
    "Adamax": [{}, {"beta_2": 0.9}],
    "RMSprop": [{}, {"momentum": 0.9}, {"centered": True}, {"centered": True, "momentum": 0.5, "rho": 0.8}],
    "Adagrad": [{}, {"initial_accumulator_value": 0.0}],
    "Adadelta": [{"learning_rate": 1.0}, {"learning_rate": 0.5, "rho": 0.9}],
    "Lion": [{}, {"beta_1": 0.8}],
}
ADDED = [
    {},
    {"weight_decay": 0.05},
    {"clipnorm": 0.7},
    {"clipvalue": 0.3},
    {"global_clipnorm": 1.0},
    {"use_ema": True, "ema_momentum": 0.8, "weight_decay": 0.01},
    {"use_ema": True, "ema_momentum": 0.8, "ema_overwrite_frequency": 2},
]
CASES = [
    (name, {"learning_rate": 0.05, **own, **added})
    for name, owns in METHODS.items()
    for i, own in enumerate(owns)
    for added in (ADDED if i == 0 else ADDED[:2])
]


def test_every_optimiser_is_compared():
    assert set(METHODS) == set(O.Optimizer.members())


def by_keras(name, fields):
    return keras_steps(getattr(K, name)(**fields), START, GRADS)


def planned(optimizer, **extra):
    return planned_steps(optimizer, START, GRADS, **extra)


def at_once(optimizer, steps=STEPS):
    """The same with tensors."""
    values = {n: tensor(v) for n, v in START.items()}
    slots = {n: {k: tensor(a) for k, a in optimizer.initial_slots(weight(n, SHAPES[n])).items()} for n in START}
    for t, grads in enumerate(GRADS[:steps]):
        clipped = optimizer.clip([tensor(g) for g in grads.values()])
        rate, step = tensor(np.float32(optimizer.learning_rate)), tensor(np.int64(t + 1))
        for n, g in zip(START, clipped, strict=True):
            values[n], slots[n] = optimizer.apply(values[n], g, slots[n], rate, step, weight(n, SHAPES[n]))
    return {
        **{n: v.numpy() for n, v in values.items()},
        **{f"{n}:{k}": v.numpy() for n, held in slots.items() for k, v in held.items()},
    }


# float32: five steps of a few roundings each on weights of size 1
CLOSE = {"rtol": 2e-5, "atol": 2e-6}


# Keras' own Nadam for PyTorch hands tensors to NumPy in a way NumPy warns about
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
@pytest.mark.parametrize(("name", "fields"), CASES, ids=[f"{n}-{f}" for n, f in CASES])
def test_five_steps_equal_keras(name, fields):
    want, averages = by_keras(name, fields)
    optimizer = O.Optimizer.lookup(name)(**fields)
    made, other = planned(optimizer), at_once(optimizer)
    for n in START:
        np.testing.assert_allclose(made[n], want[n], **CLOSE, err_msg=n)
        if averages is not None:
            slots = {k.split(":")[1]: v for k, v in made.items() if k.startswith(n + ":")}
            np.testing.assert_allclose(optimizer.final_value(slots), averages[n], **CLOSE, err_msg=n)
    assert made.keys() == other.keys()
    for n in made:
        # one set of ops; but a plan's kernels may round otherwise than those of ops that run at once
        np.testing.assert_allclose(made[n], other[n], rtol=1e-5, atol=1e-6, err_msg=n)


def by_torch(make, steps=STEPS):
    parameters = [torch.nn.Parameter(torch.tensor(v)) for v in START.values()]
    optimizer = make(parameters)
    for grads in GRADS[:steps]:
        for p, g in zip(parameters, grads.values(), strict=True):
            p.grad = torch.tensor(g)
        optimizer.step()
    return {n: p.detach().numpy() for n, p in zip(START, parameters, strict=True)}


# PyTorch adds epsilon elsewhere and corrects the bias in float64, so 1 - beta^t differs in its fifth digit
TORCH = [
    (O.SGD(0.1, momentum=0.9, l2=0.05), lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.05)),
    (O.SGD(0.1, l2=0.05), lambda p: torch.optim.SGD(p, 0.1, weight_decay=0.05)),
    (
        O.SGD(0.1, momentum=0.9, nesterov=True, l2=0.05),
        lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True, weight_decay=0.05),
    ),
    (O.Adam(0.01), lambda p: torch.optim.Adam(p, 0.01, eps=1e-12)),
    (O.AdamW(0.01, weight_decay=0.1), lambda p: torch.optim.AdamW(p, 0.01, weight_decay=0.1, eps=1e-12)),
    (O.Adam(0.01, l2=0.1), lambda p: torch.optim.Adam(p, 0.01, weight_decay=0.1, eps=1e-12)),
    (O.Adamax(0.01), lambda p: torch.optim.Adamax(p, 0.01, eps=1e-7)),
    (O.Adadelta(1.0, rho=0.9, epsilon=1e-6), lambda p: torch.optim.Adadelta(p, 1.0, rho=0.9, eps=1e-6)),
    (O.Adagrad(0.1, 0.5, epsilon=0.0), lambda p: torch.optim.Adagrad(p, 0.1, initial_accumulator_value=0.5, eps=0.0)),
    (
        O.RMSprop(0.01, l2=0.1, epsilon=0.0),
        lambda p: torch.optim.RMSprop(p, 0.01, alpha=0.9, weight_decay=0.1, eps=0.0),
    ),
    (O.RMSprop(0.01, rho=0.9, epsilon=0.0), lambda p: torch.optim.RMSprop(p, 0.01, alpha=0.9, eps=0.0)),
]


@pytest.mark.parametrize(("optimizer", "theirs"), TORCH, ids=[repr(o) for o, _ in TORCH])
def test_five_steps_equal_torch(optimizer, theirs):
    made, want = planned(optimizer), by_torch(theirs)
    for n in START:
        np.testing.assert_allclose(made[n], want[n], rtol=1e-4, atol=1e-5, err_msg=n)
