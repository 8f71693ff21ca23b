"""Checks of gradients: a wrong derivative is found, a right one passes."""

from __future__ import annotations

import numpy as np
import pytest

import prototorch as pt
from prototorch import ops
from prototorch.autograd import gradcheck, gradgradcheck
from prototorch.autograd.gradcheck import GradcheckError
from prototorch.errors import UsageError


def leaf(*shape, seed=0):
    return pt.tensor(np.random.default_rng(seed).uniform(0.5, 1.5, shape), requires_grad=True)


def cube(factor=1.0, second=6.0):
    """x^3 whose first derivative is multiplied by a factor, and whose second is ``second`` x."""

    class Slope(pt.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return 3 * x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return second * x * g

    class Cube(pt.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return factor * g * Slope.apply(x)

    return Cube.apply


def identity(backward):
    def forward(ctx, x):
        return x * 1

    return type(
        "Identity", (pt.Function,), {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    ).apply


@pytest.mark.parametrize("fast", [False, True])
def test_a_right_derivative_passes(fast):
    assert gradcheck(cube(), leaf(2, 3), fast_mode=fast)
    assert gradgradcheck(cube(), leaf(2, 3), fast_mode=fast)
    assert gradcheck(lambda a, b: (ops.matmul(a, b), a * 2), (leaf(2, 3), leaf(3, 2, seed=1)), fast_mode=fast)


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("factor", [0.99, 1.01, -1, 0])
def test_a_wrong_derivative_is_found(factor, fast):
    with pytest.raises(GradcheckError, match="gradient of output 0 by input 0 differs"):
        gradcheck(cube(factor), leaf(3), fast_mode=fast)
    assert gradcheck(cube(factor), leaf(3), fast_mode=fast, raise_exception=False) is False


def test_a_wrong_second_derivative_is_found():
    assert gradcheck(cube(second=5.9), leaf(3))
    with pytest.raises(GradcheckError, match="differs"):
        gradgradcheck(cube(second=5.9), leaf(3))
    assert not gradgradcheck(cube(second=5.9), leaf(3), raise_exception=False)


def test_a_backward_that_ignores_its_gradient_is_found():
    with pytest.raises(GradcheckError, match="does not multiply by the gradient"):
        gradcheck(identity(lambda ctx, g: g * 0 + 1), leaf(1))


def test_a_gradient_that_changes_from_call_to_call_is_found():
    calls = iter(range(1000))
    noisy = identity(lambda ctx, g: g * (1 + 1e-6 * (next(calls) % 3)))
    with pytest.raises(GradcheckError, match="two evaluations"):
        gradcheck(noisy, leaf(2))
    assert gradcheck(noisy, leaf(2), nondet_tol=1e-5)


def test_a_missing_gradient_is_found():
    with pytest.raises(GradcheckError, match="no output requires a gradient, yet"):
        gradcheck(lambda x: (x * x).detach(), leaf(2))
    assert gradcheck(lambda x: ops.ones_like(x).detach(), leaf(2))


def test_low_precision_is_warned_of():
    with pytest.warns(UserWarning, match="input 0 is float32"):
        gradcheck(lambda x: x * x, pt.tensor([1.0], requires_grad=True), eps=1e-2, atol=1e-2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"check_forward_ad": True}, "check_forward_ad=True is not possible"),
        ({"check_batched_grad": True}, "check_batched_grad=True is not possible"),
        ({"check_backward_ad": False}, "would check nothing"),
        ({"masked": True}, "masked=True is not possible"),
    ],
)
def test_checks_that_do_not_exist_are_refused(options, message):
    with pytest.raises(UsageError, match=message):
        gradcheck(lambda x: x * x, leaf(1), **options)


def test_mistakes_in_a_check():
    with pytest.raises(UsageError, match="no input requires a gradient"):
        gradcheck(lambda x: x * x, pt.tensor([1.0]))
    with pytest.raises(UsageError, match="share one memory location"):
        gradcheck(lambda x: x * x, ops.broadcast_to(leaf(1), shape=(3,)))
    with pytest.raises(UsageError, match="2 grad_outputs for 1 outputs"):
        gradgradcheck(lambda x: x * x, leaf(1), (leaf(1), leaf(1)))


def test_the_inputs_are_as_they_were():
    x = leaf(3)
    before = x.numpy().copy()
    gradcheck(lambda x: x * x, x)
    np.testing.assert_array_equal(x.numpy(), before)
    assert x.grad is None
    assert x._version == 0
