"""The logic of the GPU's scans, sorts and searches, run on the CPU from the same text."""

from __future__ import annotations

import numpy as np
import pytest

from prototorch.cuda.kernels import radix_sort, scan
from tests.cuda.offline.kernel_logic import check_kernel, random_array
from tests.cuda.offline.shim_device import COMPILER

pytestmark = pytest.mark.skipif(
    COMPILER is None, reason="the kernels are run on the CPU by g++, which is not installed"
)
SCANS = ("cumsum", "cumprod", "logcumsumexp", "linear_recurrence", "cummax", "cummin")


@pytest.fixture(params=["one launch", "in chunks"])
def rows(request, monkeypatch):
    """Rows that one thread walks along, and rows that are cut into chunks."""
    if request.param == "in chunks":
        monkeypatch.setattr(scan, "SHORT_ROW", 3)


@pytest.mark.parametrize("name", SCANS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_scans(device, rows, name, dtype):
    x = (random_array(2, 17, 3) / 2).astype(dtype)
    if name.startswith("cumm"):
        x[0, 3] = x[0, 5] = 9.0
        x[1, 4, 2] = np.nan
        check_kernel(device, name, [x])
        return
    if name == "logcumsumexp":
        x[0, 2:4] = -np.inf
        x[1, 2:4, 1] = np.inf
    arrays = [x, random_array(2, 17, 3, seed=1).astype(dtype)] if name == "linear_recurrence" else [x]
    loose = {} if dtype == "float64" else {"rtol": 1e-5, "atol": 1e-6}
    for axis in (1, -1):
        check_kernel(device, name, arrays, {"axis": axis}, **loose)
    if name in ("cumsum", "linear_recurrence"):
        check_kernel(device, name, arrays, {"axis": 1, "reverse": True}, **loose)


def test_scans_of_integers(device, rows):
    x = np.random.default_rng(0).integers(-9, 9, (3, 40)).astype(np.int64)
    for name in ("cumsum", "cumprod"):
        check_kernel(device, name, [x], {"axis": 1})
    for name in ("cummax", "cummin"):
        check_kernel(device, name, [x])


def test_a_product_that_a_chunk_alone_could_not_hold(device, rows):
    x = np.array([1e-30, 1e30, 1e30, 1e-30] * 5, np.float32)
    check_kernel(device, "cumprod", [x], {"axis": 0}, rtol=1e-5)


def elements(dtype: str) -> np.ndarray:
    rng = np.random.default_rng(0)
    if dtype == "bool":
        return rng.random((3, 50)) < 0.5
    if dtype[0] in "iu":
        low = 0 if dtype[0] == "u" else -100
        return rng.integers(low, 100, (3, 50)).astype(dtype)
    x = np.round(rng.standard_normal((3, 50)) * 4)
    x[0, :4] = [np.nan, -np.inf, np.inf, -0.0]
    x[1, 3] = x[1, 30] = np.nan
    return x.astype(dtype)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "uint8", "int8", "bool", "uint32"])
def test_sorts(device, monkeypatch, dtype, descending):
    for tile in (32, 4096):
        monkeypatch.setattr(radix_sort, "TILE", tile)
        check_kernel(device, "sort", [elements(dtype)], {"descending": descending})
    if dtype in ("float32", "int32"):
        wide = elements("float64" if dtype == "float32" else "int64")[1]
        check_kernel(device, "sort", [wide], {"descending": descending})


def test_many_of_the_largest(device, monkeypatch):
    from prototorch.cuda.kernels import sort
    from prototorch.cuda.kernels.launch import use_device
    from prototorch.spec import Spec

    x = elements("float32")
    with use_device(device):
        sequence = sort.top_k((Spec(x.shape),), (Spec((3, 20)), Spec((3, 20), "int32")), {"k": 20})
    assert sequence is not None
    values, indices = np.empty((3, 20), np.float32), np.empty((3, 20), np.int32)
    sequence([x], [values, indices])
    order = np.argsort(-x, axis=-1, kind="stable")[:, :20]
    np.testing.assert_array_equal(indices, order)
    np.testing.assert_array_equal(values, np.take_along_axis(x, order, axis=-1))


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint32", "bool"])
def test_the_largest_integers(device, dtype):
    """The least and the largest number that the dtype has are among them."""
    x = elements(dtype)
    if dtype != "bool":
        x[0, :2] = [np.iinfo(dtype).min, np.iinfo(dtype).max]
    check_kernel(device, "top_k", [x], {"k": 4})


@pytest.mark.parametrize("side", ["left", "right"])
def test_searches(device, side):
    table = np.sort(elements("float32"), axis=-1)
    values = np.array([[np.nan, -np.inf, 0.0, 2.0], [1.0, 9.0, np.inf, -1.0], [0.5, -0.0, 3.0, 4.0]], np.float32)
    check_kernel(device, "searchsorted", [table, values], {"side": side})
    check_kernel(device, "searchsorted", [table[0], values], {"side": side})
    integers = np.sort(elements("int32")[0])
    check_kernel(device, "searchsorted", [integers, elements("int32")], {"side": side})
