"""Optimiser updates on native kernels: every one of them, weight and slots written in place."""

import numpy as np
import pytest

from prototorch.ops.operators import OPS
from prototorch.ops.update import Update

native_check = pytest.importorskip("native_check", reason="no native level here", exc_type=ImportError)
check = native_check.check

ADAM = {"beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-7}
OUTSIDE = {"epsilon_inside_root": False}
RMS = {"rho": 0.9, "epsilon": 1e-3}
ATTRS = {
    "sgd_update": [{}, {"l2": 0.01}],
    "momentum_update": [{"momentum": 0.9}, {"momentum": 0.9, "nesterov": True, "l2": 0.01}],
    "adam_update": [ADAM], "amsgrad_update": [ADAM], "nadam_update": [ADAM], "adamax_update": [ADAM],
    "rmsprop_update": [RMS, {**RMS, **OUTSIDE}],
    "rmsprop_momentum_update": [{**RMS, "momentum": 0.5}, {**RMS, **OUTSIDE, "momentum": 0.5}],
    "centered_rmsprop_update": [{**RMS, "momentum": 0.5, "epsilon": 9.0}],
    "adagrad_update": [{"epsilon": 1e-3}, {"epsilon": 1e-3, **OUTSIDE}], "adadelta_update": [RMS],
    "lion_update": [{"beta_1": 0.9, "beta_2": 0.99}],
}  # fmt: skip


def test_every_update_is_tried():
    assert set(ATTRS) == {name for name, op in OPS.items() if isinstance(op, Update)}


@pytest.mark.parametrize("name", sorted(ATTRS))
@pytest.mark.parametrize(("shape", "step"), [((3, 5), 1), ((37,), 2), ((1,), 9), ((9, 2, 77), 1000), ((70_001,), 7)])
def test_updates(bits, name, shape, step):
    rng = np.random.default_rng(0)
    w, g = (rng.normal(size=shape).astype("float32") for _ in range(2))
    slots = [np.abs(rng.normal(size=shape)).astype("float32") for _ in range(OPS[name].slots)]
    rate, step = np.array(0.01, "float32"), np.array(step, "int64")
    for attrs in ATTRS[name]:
        for decay in (0.0, 0.1):
            # the corrections 1 - beta^t and Nadam's 1 - product are small differences, taken in float32
            check(name, w, g, rate, step, *slots, rtol=2e-5, atol=2e-6, decay=decay, **attrs)
