"""Gradients of ops on symmetric matrices, beside PyTorch's in float64, and second derivatives beside differences."""

import numpy as np
import pytest
import torch

from prototorch import ops
from prototorch.ops.core import gradients, run_on_arrays

SHAPES = [(3, 3), (2, 4, 4)]


def matrices(shape, seed=0):
    x = np.random.default_rng(seed).standard_normal(shape)
    return x @ np.swapaxes(x, -1, -2) + np.eye(shape[-1])


def symmetric_part(x):
    order = (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2)
    return (x + ops.transpose(x, order=order)) * 0.5


FUNCTIONS = {
    "cholesky": (lambda x: ops.cholesky(x), lambda x: torch.linalg.cholesky(x)),
    "eigenvalues": (lambda x: ops.eigh(x)[0], lambda x: torch.linalg.eigh(x)[0]),
    # the squares do not depend on the signs of the eigenvectors
    "eigenvectors": (lambda x: ops.square(ops.eigh(x)[1]), lambda x: torch.linalg.eigh(x)[1].square()),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradient(name, shape):
    ours, theirs = FUNCTIONS[name]
    a = matrices(shape)
    t = torch.tensor(a, requires_grad=True)
    y = theirs((t + t.mT) * 0.5)
    seed = np.random.default_rng(1).standard_normal(tuple(y.shape))
    y.backward(torch.tensor(seed))
    got = run_on_arrays(lambda x, g: gradients(lambda v: ours(symmetric_part(v)), x, seeds=[g])[0], a, seed)
    np.testing.assert_allclose(got, t.grad.numpy(), rtol=1e-9, atol=1e-9)


FACTORS = {
    "qr": (ops.qr, torch.linalg.qr),
    "svd": (ops.svd, lambda x: torch.linalg.svd(x, full_matrices=False)),
}


@pytest.mark.parametrize(("name", "shape"), [
    ("qr", (4, 3)), ("qr", (3, 3)), ("qr", (2, 5, 3)), ("qr", (3, 5)), ("svd", (4, 3)),
    ("svd", (3, 3)), ("svd", (2, 3, 4)),
])  # fmt: skip
def test_gradient_of_factors(name, shape):
    """Of the squares of the factors and of their product, which do not depend on signs."""
    ours, theirs = FACTORS[name]
    a = np.random.default_rng(3).standard_normal(shape)
    t = torch.tensor(a, requires_grad=True)
    factors = theirs(t)
    weights = [np.random.default_rng(k).standard_normal(tuple(f.shape)) for k, f in enumerate(factors)]
    sum((f.square() * torch.tensor(w)).sum() for f, w in zip(factors, weights, strict=True)).backward()

    def total(x):
        parts = [ops.sum(ops.square(f) * w) for f, w in zip(ours(x), weights, strict=True)]
        return sum(parts[1:], parts[0])

    got = run_on_arrays(lambda x: gradients(total, x, seeds=[ops.sum(x) * 0 + 1])[0], a)
    np.testing.assert_allclose(got, t.grad.numpy(), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_second_gradient(name):
    ours, theirs = FUNCTIONS[name]
    a = matrices((3, 3))
    t = torch.tensor(a, requires_grad=True)
    first = torch.autograd.grad(theirs((t + t.mT) * 0.5).pow(3).sum(), t, create_graph=True)[0]
    want = torch.autograd.grad(first.square().sum(), t)[0]

    def first_of(x):
        value = ops.power(ours(symmetric_part(x)), 3.0)
        return gradients(lambda v: ops.sum(ops.power(ours(symmetric_part(v)), 3.0)), x, seeds=[ops.sum(value) * 0 + 1])[
            0
        ]

    def second_of(x):
        one = ops.sum(x) * 0 + 1
        return gradients(lambda v: ops.sum(ops.square(first_of(v))), x, seeds=[one])[0]

    got = run_on_arrays(second_of, a)
    np.testing.assert_allclose(got, want.numpy(), rtol=1e-7, atol=1e-7)
