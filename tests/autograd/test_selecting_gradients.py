"""Where an activation is constant its gradient is 0 whatever comes in, infinity and NaN too: PyTorch selects, it does
not multiply by 0."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import prototorch as pt
from prototorch.engine.backends.cpu import LEVELS, cpu
from prototorch.model.load import model_from_text
from prototorch.ops.operators import OPS
from prototorch.spec import Spec

ODD = (np.inf, -np.inf, np.nan, 1.5, -2.0)
POINTS = (-8.0, -3.5, -2.0, -0.75, -0.25, 0.25, 0.75, 2.0, 3.5, 7.0)  # on both sides of all bends, on none

#: the same function in both libraries
FUNCTIONS = {
    "relu": lambda m, x: m.nn.functional.relu(x),
    "relu6": lambda m, x: m.nn.functional.relu6(x),
    "hardtanh": lambda m, x: m.nn.functional.hardtanh(x),
    "clamp": lambda m, x: m.clamp(x, -0.5, 2.5),
    "threshold": lambda m, x: m.nn.functional.threshold(x, 0.5, -1.0),
    "hardsigmoid": lambda m, x: m.nn.functional.hardsigmoid(x),
    "hardswish": lambda m, x: m.nn.functional.hardswish(x),
    "hardshrink": lambda m, x: m.nn.functional.hardshrink(x),
    "softshrink": lambda m, x: m.nn.functional.softshrink(x),
    "leaky_relu": lambda m, x: m.nn.functional.leaky_relu(x, 0.2),
    "elu": lambda m, x: m.nn.functional.elu(x),
    "selu": lambda m, x: m.nn.functional.selu(x),
    "maximum": lambda m, x: m.maximum(x, x * 0 + 0.5),
    "minimum": lambda m, x: m.minimum(x, x * 0 + 0.5),
    "where": lambda m, x: m.where(x > 0.5, x, x * 2),
}
#: the gradient of an op, read from the op's input or output -> the activation
GRADIENTS = {
    "relu_grad": (torch.relu, True),
    "relu6_grad": (torch.nn.functional.relu6, True),
    "hard_sigmoid_grad": (torch.nn.functional.hardsigmoid, True),
    "hard_swish_grad": (torch.nn.functional.hardswish, False),
}


@pytest.fixture(params=LEVELS)
def level(request, monkeypatch):
    monkeypatch.setenv("PROTOTORCH_CPU", request.param)
    return request.param


def every_pair(dtype="float32"):
    """Each odd gradient with each point."""
    g, x = np.meshgrid(np.array(ODD, dtype), np.array(POINTS, dtype))
    return g.copy(), x.copy()


def gradient_by_torch(function, g, x):
    x = torch.tensor(x, requires_grad=True)
    y = function(x)
    y.backward(torch.tensor(g))
    return y.detach().numpy(), x.grad.numpy()


@pytest.mark.parametrize("repeats", [1, 3000], ids=["small", "in pieces"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradient_ops(name, dtype, repeats, level):
    function, reads_output = GRADIENTS[name]
    g, x = (np.tile(a, (repeats, 1)) for a in every_pair(dtype))
    y, expected = gradient_by_torch(function, g, x)
    spec, result = Spec(g.shape, dtype), np.full_like(g, 7)
    with np.errstate(all="ignore"):
        cpu(level).prepare(OPS[name], (spec, spec), (spec,), {})([g, y if reads_output else x], [result])
    np.testing.assert_allclose(result, expected, rtol=1e-6)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name, compiled, level):
    g, x = every_pair()
    function = FUNCTIONS[name]
    _, expected = gradient_by_torch(lambda t: function(torch, t), g, x)
    ours = pt.tensor(x, requires_grad=True)
    call = pt.compile(lambda t: function(pt, t)) if compiled else lambda t: function(pt, t)
    with np.errstate(all="ignore"):
        call(ours).backward(pt.tensor(g))
    if name in ("maximum", "minimum"):  # the other operand is made of x too: inf * 0
        assert np.isnan(expected).any()
    np.testing.assert_allclose(ours.grad.numpy(), expected, rtol=1e-6)


def root_of_relu(m, x):
    return m.sqrt(m.nn.functional.relu(x))


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_the_root_of_a_relu(compiled, level):
    x = np.array(POINTS, "float32")
    _, expected = gradient_by_torch(lambda t: root_of_relu(torch, t), np.ones_like(x), x)
    assert np.isfinite(expected).all()
    ours = pt.tensor(x, requires_grad=True)
    call = pt.compile(lambda t: root_of_relu(pt, t)) if compiled else lambda t: root_of_relu(pt, t)
    call(ours).backward(pt.ones(len(POINTS)))
    np.testing.assert_allclose(ours.grad.numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("name", ["relu", "relu6", "hardswish"])  # PyTorch has none of hardsigmoid
def test_second_derivatives(name, level):
    """That of the gradient by what comes in and by the point, with an odd weight of each."""
    weight, x = every_pair()
    found = []
    for m in (torch, pt):
        a, g = m.tensor(x, requires_grad=True), m.tensor(np.full_like(x, 2), requires_grad=True)
        with np.errstate(all="ignore"):
            (da,) = m.autograd.grad(FUNCTIONS[name](m, a), a, g, create_graph=True)
            (dg,) = m.autograd.grad(da, g, m.tensor(weight))
        found.append(dg.detach().numpy())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6)
    found = []
    for m in (torch, pt):
        a = m.tensor(np.array(POINTS, "float32"), requires_grad=True)
        (da,) = m.autograd.grad(root_of_relu(m, a).sum(), a, create_graph=True)
        with np.errstate(all="ignore"):
            da.sum().backward()
        found.append(a.grad.numpy())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5)


def test_prelu_and_its_slope(level):
    x = np.array(POINTS, "float32")
    g = np.where(x > 0, np.inf, 2).astype("float32")
    found = []
    for m in (torch, pt):
        a, w = m.tensor(x, requires_grad=True), m.tensor(np.array([0.25], "float32"), requires_grad=True)
        m.nn.functional.prelu(a, w).backward(m.tensor(g))
        found.append((a.grad.numpy(), w.grad.numpy()))
    for ours, theirs in zip(found[1], found[0], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    assert np.isfinite(found[1][1]).all()


@pytest.mark.parametrize("norm", [False, True], ids=["relu", "norm and relu"])
def test_fit(norm, level):
    """A step of SGD through the root of a ReLU, alone and fused with a batch normalization."""
    text = f"""
    input {{ shape: [4] }}
    Dense {{ name: "a"  units: 6 }}
    {'BatchNormalization { name: "n" }' if norm else ""}
    ReLU {{ }}
    Sqrt {{ }}
    compile {{ loss: mse  optimizer: SGD {{ learning_rate: 0.1 }}  seed: 3 }}
    """
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(8, 4)).astype("float32"), rng.normal(size=(8, 6)).astype("float32")
    model = model_from_text(text)
    before = {name: torch.tensor(np.array(w)) for name, w in model.get_weights().items()}
    model.fit(x, y, batch_size=8, epochs=1, verbose=0, shuffle=False)
    kernel = before["a/kernel"].requires_grad_()
    h = torch.tensor(x) @ kernel
    if norm:
        h = torch.nn.functional.batch_norm(h, None, None, training=True, eps=1e-3)
    torch.nn.functional.mse_loss(torch.relu(h).sqrt(), torch.tensor(y)).backward()
    expected = kernel.detach() - 0.1 * kernel.grad
    assert torch.isfinite(expected).all()
    np.testing.assert_allclose(model.get_weights()["a/kernel"], expected.numpy(), rtol=1e-3, atol=1e-5)
