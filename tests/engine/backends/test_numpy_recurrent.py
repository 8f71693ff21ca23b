"""Kernels of recurrent sequences against the plain bodies."""

import numpy as np
import pytest

from prototorch.engine.backends.cpu import cpu
from prototorch.engine.backends.cpu.numpy import lstm
from prototorch.engine.backends.cpu.numpy.lstm import has_default_activations
from prototorch.ops.operators import OPS
from prototorch.spec import Spec
from tests.engine.backends.kernel_check import check, plain

# float32 rounding through up to nine steps of products and squashings
NEAR = {"rtol": 1e-4, "atol": 2e-5}
# (samples, steps, units)
SIZES = [(3, 4, 5), (1, 1, 1), (2, 9, 3), (7, 2, 16)]


@pytest.fixture(params=["together", "step by step"], autouse=True)
def steps(request, monkeypatch):
    if request.param == "step by step":
        monkeypatch.setattr(lstm, "MIN_STEP_ELEMENTS", 1)


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def arrays(name, size):
    batch, length, n = size
    gates = 4 if name == "lstm_sequence" else 3
    x, u, h = numbers(batch, length, gates * n) * 2, numbers(n, gates * n, seed=1), numbers(batch, n, seed=2)
    more = numbers(batch, n, seed=3) if name == "lstm_sequence" else numbers(gates * n, seed=3)
    return [x, u, h, more] if name == "lstm_sequence" else [x, u, more, h]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("name", ["lstm_sequence", "gru_sequence"])
def test_sequence_and_its_gradient(name, size, reverse):
    given = arrays(name, size)
    # BLAS' own threads may add in another order
    check(name, *given, reverse=reverse, **NEAR, threads_agree=False)
    if name == "gru_sequence":  # its gradient has no kernel at this level
        return
    made = plain(name, given, {"reverse": reverse})
    states = OPS[name].states
    kept = [made[0], *made[states + 1 :]]
    grads = [numbers(*y.shape, seed=9 + i) for i, y in enumerate(made[: states + 1])]
    check(f"{name}_grad", *given, *kept, *grads, reverse=reverse, **NEAR, threads_agree=False)


@pytest.mark.parametrize("attrs", [{"masked": True}, {"activation": "relu"}, {"recurrent_activation": "hard_sigmoid"}])
def test_what_is_unusual_is_left_to_the_plain_body(attrs):
    assert not has_default_activations((Spec((2, 3, 4)),), attrs)
    given = tuple(Spec(a.shape) for a in arrays("gru_sequence", (2, 3, 4)))
    outs = OPS["gru_sequence"].infer_spec(*given)
    assert cpu("numpy").kernel_level(OPS["gru_sequence"], given, outs, {"reset_after": False}) == "plain"
