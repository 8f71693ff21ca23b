"""Kernels that index by several arrays and kernels that sort, against the reference implementations."""

import numpy as np
import pytest

from tests.engine.backends.kernel_check import check, run_kernel


def numbers(*shape, dtype="float32", seed=0):
    return np.asarray(np.random.default_rng([seed, *shape]).normal(size=shape) * 9, dtype)


def indices(*shape, below, dtype="int64", seed=0):
    return np.random.default_rng([seed, *shape]).integers(0, below, shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "float16"])
@pytest.mark.parametrize("of", ["int32", "int64", "uint8"])
def test_index(dtype, of):
    x = numbers(6, 5, 4, dtype=dtype)
    check("advanced_index", x, indices(3, 2, below=5, dtype=of), axes=(1,))
    check("advanced_index", x, indices(7, below=6, dtype=of), indices(2, 1, below=5), axes=(0, 1))
    check("advanced_index", x, indices(7, below=6, dtype=of), indices(7, below=4), axes=(0, 2))
    check("advanced_index", x, indices(below=6, dtype=of), axes=(0,))
    check("advanced_index", x, np.array([0, 9, 5, 200], of), np.array([0, 1, 2, 3]), axes=(0, 2))


@pytest.mark.parametrize("reduce", ["set", "sum", "prod", "amax", "amin"])
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
def test_index_put(reduce, dtype):
    x = numbers(6, 5, 4, dtype=dtype)
    for axes, places in [
        ((1,), [indices(8, below=5)]),
        ((0, 1), [indices(3, 1, below=6, dtype="uint8"), indices(2, below=5)]),
        ((0, 2), [indices(9, below=6), indices(9, below=4)]),
        ((2,), [np.array([3, -1, 0, 4, 3, 3])]),
    ]:
        values = numbers(*run_kernel("advanced_index", [x, *places], {"axes": axes})[0].shape, seed=1, dtype=dtype)
        check("index_put", x, values, *places, axes=axes, reduce=reduce, rtol=2e-6, atol=2e-6)
    check(
        "index_put",
        numbers(9, dtype=dtype),
        numbers(40, dtype=dtype),
        indices(40, below=9),
        axes=(0,),
        reduce=reduce,
        rtol=1e-4,
        atol=1e-4,
    )


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "uint8", "bool"])
@pytest.mark.parametrize("descending", [False, True])
def test_sort(dtype, descending):
    check("sort", np.abs(numbers(3, 40, dtype=dtype)), descending=descending)
    check("sort", numbers(2, 0, dtype=dtype), descending=descending)
    if dtype.startswith("float"):
        check("sort", np.where(numbers(5, 30) > 5, np.nan, np.round(numbers(5, 30))).astype(dtype))


@pytest.mark.parametrize("side", ["left", "right"])
def test_searchsorted(side):
    elements = np.sort(np.round(numbers(4, 30)), axis=-1)
    check("searchsorted", elements, np.round(numbers(4, 9)), side=side)
    check("searchsorted", elements[0], np.round(numbers(2, 3, 9)), side=side)


@pytest.mark.parametrize("name", ["cummax", "cummin"])
@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8", "bool"])
def test_running_extrema(name, dtype):
    check(name, np.round(np.abs(numbers(3, 50))).astype(dtype))
    if dtype == "float32":
        check(name, np.where(numbers(5, 30) > 9, np.nan, numbers(5, 30)).astype(dtype))
