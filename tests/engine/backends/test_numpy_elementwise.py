"""Elementwise kernels against the plain bodies."""

import numpy as np
import pytest

from prototorch.engine.backends.cpu.numpy import elementwise
from prototorch.engine.backends.cpu.numpy.elementwise import BINARY, BITWISE, UNARY
from prototorch.ops.operators import OPS
from tests.engine.backends.kernel_check import check

SHAPES = [(), (1,), (7,), (3, 5), (2, 3, 4, 5), (0, 3), (1, 13, 1)]
PAIRS = [((), ()), ((5,), (5,)), ((4, 1, 3), (2, 3)), ((3,), (2, 1)), ((2, 3, 4, 5), (3, 1, 1)), ((1, 6), (6, 1)),
         ((0, 3), (3,)), ((1, 9, 4), (9, 1))]  # fmt: skip
ODD = np.array([0.0, -0.0, 1.0, -1.5, 2.5, np.inf, -np.inf, np.nan, 1e-42, 3e38], np.float32)


@pytest.fixture(params=["whole", "pieces"], autouse=True)
def pieces(request, monkeypatch):
    """Everything once more with arrays cut into tiny pieces over threads."""
    if request.param == "pieces":
        monkeypatch.setattr(elementwise, "PARALLEL_MIN_SIZE", 1)
        monkeypatch.setattr(elementwise, "TASK_SIZE", 3)
        monkeypatch.setattr(elementwise, "CHUNK_SIZE", 2)


def numbers(shape, dtype="float32", seed=0):
    made = np.random.default_rng(seed).normal(size=shape) * 3
    return np.asarray(made, dtype)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_unary(name, shape):
    check(name, numbers(shape))


@pytest.mark.parametrize("name", UNARY)
def test_unary_on_odd_numbers(name):
    check(name, ODD)
    check(name, ODD.astype("float64"))


@pytest.mark.parametrize("shapes", PAIRS, ids=str)
@pytest.mark.parametrize("name", BINARY)
def test_binary(name, shapes):
    check(name, *(numbers(s, seed=i) for i, s in enumerate(shapes)))


@pytest.mark.parametrize("name", BINARY)
def test_binary_on_odd_numbers(name):
    check(name, ODD[:, None].copy(), ODD)
    check(name, ODD, ODD[::-1].copy())


@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "less", "equal", "remainder", "floor_divide"])
def test_binary_on_whole_numbers(name):
    check(name, np.arange(-5, 7, dtype="int32"), np.arange(1, 13, dtype="int32"))


@pytest.mark.parametrize("dtype", ["int32", "uint8", "bool"])
@pytest.mark.parametrize("name", BITWISE)
def test_bits(name, dtype):
    arrays = np.arange(2, 14).astype(dtype), (np.arange(12)[::-1] % 5).astype(dtype)
    check(name, *arrays[: BITWISE[name].nin])


@pytest.mark.parametrize(
    "shapes", [((3,), (3,), (3,)), ((2, 1), (), (3,)), ((), (2, 3), ()), ((0,), (0,), (0,))], ids=str
)
def test_where(shapes):
    c, a, b = shapes
    check("where", numbers(c) > 0, numbers(a, seed=1), numbers(b, seed=2))
    check("where", ODD > 0, ODD, -ODD)


@pytest.mark.parametrize("to", ["float64", "int32", "bool", "float16", "uint8"])
def test_cast(to):
    check("cast", np.abs(numbers((3, 7))), dtype=to)
    check("cast", np.arange(12, dtype="int64").reshape(3, 4), dtype=to)


def test_full():
    check("full", shape=(3, 5), value=2.5)
    check("full", shape=(), value=3, dtype="int32")
    check("full", shape=(0, 4), value=True, dtype="bool")


def test_every_ufunc_kernel_has_its_op():
    assert all(name in OPS for name in {**UNARY, **BINARY})
