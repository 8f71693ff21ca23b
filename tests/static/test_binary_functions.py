"""Functions of two values on symbols and numbers, in either order, beside PyTorch on tensors: values and gradients."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import torch

import prototorch as pt
from prototorch.eager.namespace import FUNCTIONS
from prototorch.errors import UsageError

SECOND = ("other", "exponent", "values")
NO_NUMBERS = {  # products, shapes, and what is one bool of Python
    "allclose", "cross", "dist", "equal", "inner", "is_same_size", "kron", "matmul", "outer", "vdot",
}  # fmt: skip
BINARY = sorted(
    name
    for name, function in FUNCTIONS.items()
    if name not in NO_NUMBERS
    and hasattr(torch, name)
    and len(p := list(inspect.signature(function).parameters)) > 1
    and p[1] in SECOND
)
INTEGERS = {n for n in BINARY if n.startswith("bitwise") or n in ("gcd", "lcm")}
X = np.float32([[-1.5, 0.25, 2.0], [3.5, 0.5, -0.75]])


def torch_value(name, a, b):
    return getattr(torch, name)(*(v if isinstance(v, torch.Tensor) else torch.tensor(v) for v in (a, b)))


def test_the_table_has_what_it_is_to_have():
    assert {"maximum", "minimum", "fmax", "fmin", "add", "pow", "atan2", "heaviside", "gcd", "isclose"} <= set(BINARY)


@pytest.mark.parametrize("order", ["symbol, number", "number, symbol", "symbol, symbol"])
@pytest.mark.parametrize("name", BINARY)
def test_a_symbol_and_a_number(name, order):
    array, number = (np.int64([[1, 2, 3], [4, 5, 6]]), 3) if name in INTEGERS else (X, 0.75)
    array = abs(array) if name == "xlogy" else array  # the logarithm of a negative number is NaN
    dtype = str(array.dtype)
    x, there = pt.Input((3,), dtype=dtype), torch.tensor(array, requires_grad=dtype == "float32")
    second = {"symbol, symbol": (x, x), "symbol, number": (x, number), "number, symbol": (number, x)}[order]
    symbol = getattr(pt, name)(*second)
    expected = torch_value(name, *(there if v is x else v for v in second))
    value = pt.Graph(x, symbol)(array)
    np.testing.assert_allclose(value, expected.detach().numpy(), rtol=1e-5, atol=1e-7)
    if expected.requires_grad and name not in ("nextafter", "heaviside", "floor_divide"):
        expected[expected.isfinite()].sum().backward()
        safe = pt.where(pt.isfinite(symbol), symbol, pt.zeros_like(symbol)).sum()
        gradient = pt.Graph(x, pt.gradients(safe, x))(array)
        where = np.isfinite(there.grad.numpy())
        np.testing.assert_allclose(gradient[where], there.grad.numpy()[where], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["maximum", "minimum", "fmax", "fmin"])
@pytest.mark.parametrize("number", [0, 0.5, -1, True])
def test_extremes_of_tensors_and_numbers(name, number):
    for array in (X, np.int32([[1, -2, 0]])):
        for swap in (False, True):
            a, b = (number, pt.tensor(array)) if swap else (pt.tensor(array), number)
            there = (torch.tensor(number), torch.tensor(array))
            result = getattr(pt, name)(a, b)
            expected = getattr(torch, name)(*(there if swap else there[::-1]))
            assert str(result.dtype).rpartition(".")[2] == str(expected.dtype).rpartition(".")[2]
            np.testing.assert_array_equal(result.numpy(), expected.numpy())


def test_numpys_functions_of_an_array_and_a_symbol():
    x = pt.Input((3,))
    for name in ("maximum", "minimum", "hypot", "arctan2", "fmod", "logaddexp"):
        function = getattr(np, name)
        for make in (lambda v, f=function: f(v, np.float32(2)), lambda v, f=function: f(X[::-1], v)):
            np.testing.assert_allclose(pt.Graph(x, make(x))(X), make(X), rtol=1e-5)


def test_in_a_model_they_are_layers():
    x = pt.Input((3,))
    y = pt.maximum(x, 0) + pt.minimum(0.5, x) * pt.maximum(-1, x)
    model = pt.Model(x, y)
    np.testing.assert_allclose(model.predict(X), np.maximum(X, 0) + np.minimum(X, 0.5) * np.maximum(X, -1), rtol=1e-5)
    assert "ReLU" in model.to_text()


def test_mistakes():
    with pytest.raises(UsageError, match="maximum: expected two tensors, or a tensor and a number, got int and float"):
        pt.maximum(1, 2.0)
    with pytest.raises(UsageError, match="heaviside"):
        pt.heaviside(pt.tensor([1, 2]), 0.5)
