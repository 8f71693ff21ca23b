"""Jacobians, Hessians and their products, against PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import prototorch as pt
from prototorch.autograd import functional
from prototorch.errors import GradientError, UsageError

X, Y = np.linspace(0.3, 1.7, 6).reshape(2, 3), np.linspace(-1.0, 1.0, 3)


def two_outputs(a, b):
    return (a * b).sin(), (a.exp() * b * b).sum()


def scalar(a, b):
    return ((a * a * a) * b).sum() + (b * b * b * b).sum()


def linear(a, b):
    return (a * 2).sum()


def assert_equal(ours, theirs):
    if isinstance(theirs, tuple):
        assert isinstance(ours, tuple)
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            assert_equal(a, b)
    else:
        assert tuple(ours.shape) == tuple(theirs.shape)
        np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-10, atol=1e-12)
        assert ours.requires_grad == theirs.requires_grad


def both(name, func, *args, **options):
    def convert(module, value):
        if isinstance(value, tuple):
            return tuple(convert(module, v) for v in value)
        return module.tensor(value) if isinstance(value, np.ndarray) else value

    ours = getattr(functional, name)(func, *convert(pt, args), **options)
    theirs = getattr(torch.autograd.functional, name)(func, *convert(torch, args), **options)
    return ours, theirs


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize(
    ("name", "func", "args"),
    [
        ("jacobian", two_outputs, ((X, Y),)),
        ("jacobian", lambda a: a.exp(), (X,)),
        ("jacobian", lambda a: (a.exp(), a.sum()), (X,)),
        ("jacobian", linear, ((X, Y),)),
        ("hessian", scalar, ((X, Y),)),
        ("hessian", lambda a: (a * a * a).sum(), (X,)),
        ("vjp", two_outputs, ((X, Y), (X * 2, np.array(3.0)))),
        ("vjp", lambda a: a.sum(), (X,)),
        ("jvp", two_outputs, ((X, Y), (X * 3, np.array(Y + 1)))),
        ("jvp", lambda a: a * a, (np.array([2.0]),)),
        ("vhp", scalar, ((X, Y), (X * 3, Y + 1))),
        ("hvp", scalar, ((X, Y), (X * 3, Y + 1))),
    ],
)
def test_as_in_pytorch(name, func, args, create_graph):
    assert_equal(*both(name, func, *args, create_graph=create_graph))


def test_second_derivatives_of_a_linear_function_are_zeros():
    found = functional.hessian(linear, (pt.tensor(X), pt.tensor(Y)))
    assert [[h.shape for h in row] for row in found] == [[(2, 3, 2, 3), (2, 3, 3)], [(3, 2, 3), (3, 3)]]
    assert all(not h.numpy().any() for row in found for h in row)


def test_a_result_can_be_differentiated():
    x = pt.tensor(X, requires_grad=True)
    functional.jacobian(lambda a: a * a * a, x, create_graph=True).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 6 * X)


def test_vectorize_is_accepted():
    assert_equal(*both("jacobian", two_outputs, (X, Y), vectorize=True))
    assert_equal(*both("hessian", scalar, (X, Y), vectorize=True))


@pytest.mark.parametrize("name", ["jacobian", "hessian", "vjp", "jvp", "vhp", "hvp"])
def test_strict_refuses_what_does_not_depend_on_the_inputs(name):
    with pytest.raises(GradientError, match="does not depend on the inputs"):
        getattr(functional, name)(lambda a: pt.tensor(1.0) * 1, pt.tensor(X), strict=True)


def test_strict_refuses_an_unused_input():
    with pytest.raises(GradientError, match="output 0 does not depend on input 1"):
        functional.jacobian(linear, (pt.tensor(X), pt.tensor(Y)), strict=True)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: functional.hessian(lambda a: a * 2, pt.tensor(X)), "one tensor of one element, got \\[2, 3\\]"),
        (lambda: functional.vjp(lambda a: a * 2, pt.tensor(X)), "may be left out where the outputs are one tensor"),
        (lambda: functional.vjp(lambda a: a * 2, pt.tensor(X), pt.tensor(Y)), "expected vectors of the shapes"),
        (lambda: functional.jacobian(lambda a: 3, pt.tensor(X)), "outputs of the function that are tensors, got int"),
        (lambda: functional.jacobian(lambda a: a, [1.0]), "inputs that are tensors, got float at position 0"),
        (lambda: functional.jacobian(lambda a: a, pt.tensor(X), strategy="forward-mode"), "no forward mode"),
    ],
)
def test_mistakes(call, message):
    with pytest.raises(UsageError, match=message):
        call()
