"""Checkpoints: values, gradients, random numbers and mistakes, against PyTorch's and against no checkpoint."""

from __future__ import annotations

import gc

import numpy as np
import pytest
import torch

import prototorch as pt
from prototorch import nn
from prototorch.errors import GradientError, UsageError
from prototorch.utils.checkpoint import checkpoint, checkpoint_sequential

X = np.linspace(-1, 1, 12).reshape(3, 4)


def block(m, w):
    def run(x, scale=1.0):
        return (x @ w).tanh().exp() * scale + x.sin()

    return run


@pytest.mark.parametrize("use_reentrant", [None, False, True])
def test_gradients_are_those_of_pytorch(use_reentrant):
    results = []
    for m, function in ((torch, torch.utils.checkpoint.checkpoint), (pt, checkpoint)):
        x = m.tensor(X, requires_grad=True)
        w = m.tensor(np.eye(4) * 0.5, requires_grad=True)
        step = block(m, w)
        h = (
            function(step, x, use_reentrant=bool(use_reentrant), scale=2.0)
            if m is pt
            else function(step, x, use_reentrant=False, scale=2.0)
        )
        h = function(step, h, use_reentrant=False)
        (h * h).sum().backward()
        results.append([h.detach().numpy(), x.grad.numpy(), w.grad.numpy()])
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10)


def test_nested_and_differentiated_twice():
    x = pt.tensor(X, requires_grad=True)
    y = checkpoint(lambda a: checkpoint(lambda b: b.exp() * b, a * a), x)
    (g,) = pt.autograd.grad(y.sum(), x, create_graph=True)
    (h,) = pt.autograd.grad(g.sum(), x)
    z = pt.tensor(X, requires_grad=True)
    (g0,) = pt.autograd.grad(((z * z).exp() * z * z).sum(), z, create_graph=True)
    (h0,) = pt.autograd.grad(g0.sum(), z)
    np.testing.assert_allclose(g.detach().numpy(), g0.detach().numpy(), rtol=1e-12)
    np.testing.assert_allclose(h.numpy(), h0.numpy(), rtol=1e-12)


def test_random_numbers_are_drawn_again_as_they_were():
    x = pt.ones(1000, requires_grad=True)
    y = checkpoint(lambda a: a * a * (pt.rand_like(a) > 0.5), x)
    before = pt.default_generator.get_state()
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * y.detach().numpy())
    np.testing.assert_array_equal(pt.default_generator.get_state().numpy(), before.numpy())


def test_nothing_is_kept_between_the_passes():
    x = pt.ones(1013, requires_grad=True)
    calls = []

    def function(a):
        calls.append(1)
        for _ in range(5):
            a = a.exp().tanh()
        return a

    gc.disable()
    try:
        y = checkpoint(function, x)
        alive = [o for o in gc.get_objects() if type(o) is pt.Tensor and o.spec.shape == (1013,) and o is not x]
        assert len(alive) <= 2  # the result, and the argument of the call
        y.sum().backward()
    finally:
        gc.enable()
    assert len(calls) == 2


def test_it_stops_early():
    reached = []

    def function(a):
        b = a.exp()
        c = b * b
        reached.append(1)
        return c

    x = pt.ones(3, requires_grad=True)
    checkpoint(function, x).sum().backward()
    assert len(reached) == 1
    x.grad = None
    checkpoint(function, x, early_stop=False).sum().backward()
    assert len(reached) == 3
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.exp(2) * np.ones(3), rtol=1e-6)


@pytest.mark.parametrize("segments", [1, 2, 3, 5])
def test_sequences(segments):
    steps = [nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4), nn.Sigmoid(), nn.Linear(4, 2)]
    model = nn.Sequential(*steps)
    x = pt.tensor(X.astype("float32"), requires_grad=True)
    model(x).sum().backward()
    expected = [x.grad.numpy().copy(), *[p.grad.numpy().copy() for p in model.parameters()]]
    x.grad = None
    model.zero_grad()
    checkpoint_sequential(model, segments, x, use_reentrant=False).sum().backward()
    for one, other in zip([x.grad, *[p.grad for p in model.parameters()]], expected, strict=True):
        np.testing.assert_allclose(one.numpy(), other, rtol=1e-6)


def test_a_function_that_differs_the_second_time():
    sizes = iter([3, 4])
    with pytest.raises(GradientError, match=r"saved tensor 0 was .*is .*the same both times"):
        checkpoint(lambda a: (a[: next(sizes)].exp() ** 2).sum(), pt.ones(5, requires_grad=True)).backward()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: checkpoint(3, 4), "expected a function"),
        (lambda: checkpoint(abs, 4, determinism_check="strict"), "'default' or 'none'"),
        (lambda: checkpoint_sequential([abs], 2, 4), "must be in 1 .. 1"),
        (lambda: checkpoint_sequential([abs], 1, 4, debug=True), "unknown argument 'debug'"),
    ],
)
def test_mistakes(call, message):
    with pytest.raises(UsageError, match=message):
        call()
