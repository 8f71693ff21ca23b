"""Optimiser updates in chunks: the same bits as the plain body."""

import numpy as np
import pytest

from prototorch.engine.backends.cpu.numpy import update as update_kernels
from prototorch.ops import update
from prototorch.ops.operators import OPS
from tests.engine.backends.kernel_check import check

ATTRS = {
    "sgd_update": [{}, {"l2": 0.01}, {"decay": 0.1}],
    "momentum_update": [
        {"momentum": 0.9},
        {"momentum": 0.9, "nesterov": True, "l2": 0.01},
        {"momentum": 0.5, "decay": 0.1},
    ],
    "adam_update": [{"beta_1": 0.9, "beta_2": 0.99, "epsilon": 1e-7, "decay": d} for d in (0.0, 0.1)],
    "amsgrad_update": [{"beta_1": 0.9, "beta_2": 0.99, "epsilon": 1e-7}],
    "nadam_update": [{"beta_1": 0.9, "beta_2": 0.99, "epsilon": 1e-7}],
    "rmsprop_update": [{"rho": 0.9, "epsilon": 1e-7, "decay": 0.1}],
    "rmsprop_momentum_update": [{"rho": 0.9, "momentum": 0.5, "epsilon": 1e-7}],
    "centered_rmsprop_update": [{"rho": 0.9, "momentum": 0.5, "epsilon": 1e-3}],
    "adagrad_update": [{"epsilon": 1e-7}],
    "adadelta_update": [{"rho": 0.9, "epsilon": 1e-7}],
    "adamax_update": [{"beta_1": 0.9, "beta_2": 0.99, "epsilon": 1e-7}],
    "lion_update": [{"beta_1": 0.9, "beta_2": 0.99}],
}


@pytest.fixture(params=["whole", "chunks"], autouse=True)
def chunks(request, monkeypatch):
    """Everything once more in tiny chunks over threads."""
    if request.param == "chunks":
        monkeypatch.setattr(update_kernels, "_CHUNK_SIZE", 3)
        monkeypatch.setattr(update_kernels, "_CHUNKS_PER_TASK", 2)


@pytest.mark.parametrize("shape", [(3, 5), (), (1,), (2, 3, 4), (0, 3)], ids=str)
@pytest.mark.parametrize("name", ATTRS)
def test_update(name, shape):
    r = np.random.default_rng(0)
    w, g = (np.asarray(r.normal(size=shape), "float32") for _ in range(2))
    slots = [np.asarray(r.random(size=shape), "float32") for _ in range(OPS[name].slots)]
    for attrs in ATTRS[name]:
        # float32 rounding where a mean square is the difference of two sums; elsewhere the operations are the same
        check(name, w, g, np.float32(0.1) * np.ones(()), np.asarray(3), *slots, **attrs, rtol=1e-6)


def test_every_update_is_tested():
    assert set(ATTRS) == {v.name for v in vars(update).values() if isinstance(v, update.Update)}
