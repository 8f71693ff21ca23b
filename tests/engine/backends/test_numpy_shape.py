"""Kernels that move elements, and those that look them up, against the plain bodies."""

from itertools import permutations

import numpy as np
import pytest

from prototorch.engine.backends.cpu.numpy import elementwise
from tests.engine.backends.kernel_check import check, run_kernel


@pytest.fixture(params=["whole", "pieces"], autouse=True)
def pieces(request, monkeypatch):
    """Everything once more in tiny pieces over threads."""
    if request.param == "pieces":
        monkeypatch.setattr(elementwise, "PARALLEL_MIN_SIZE", 1)
        monkeypatch.setattr(elementwise, "TASK_SIZE", 5)
        monkeypatch.setattr(elementwise, "CHUNK_SIZE", 2)


def numbers(*shape, dtype="float32", seed=0):
    return np.asarray(np.random.default_rng(seed).normal(size=shape) * 9, dtype)


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
def test_transpose(dtype):
    x = numbers(3, 1, 5, 4, dtype=dtype)
    for order in permutations(range(4)):
        check("transpose", x, order=order)
    check("transpose", numbers(35, 67), order=(1, 0))
    check("transpose", numbers(2, 33, 5, 34), order=(0, 3, 2, 1))
    check("transpose", numbers(7), order=(0,))
    check("transpose", numbers(0, 40), order=(1, 0))


def test_concat():
    check("concat", numbers(2, 3, 4), numbers(2, 1, 4, seed=1), numbers(2, 0, 4), axis=1)
    check("concat", numbers(3), axis=0)
    check("concat", numbers(2, 3), numbers(2, 5, seed=1), axis=-1)


SLICES = [((0, 0), (3, 5), (1, 1)), ((1, 2), (3, 5), (1, 2)), ((2, 0), (3, 5), (1, 3)), ((1, 1), (1, 4), (1, 1))]


@pytest.mark.parametrize("part", SLICES, ids=str)
def test_slice_and_its_adjoint(part):
    start, stop, step = part
    x = numbers(3, 5)
    check("slice", x, start=start, stop=stop, step=step)
    g = np.ascontiguousarray(x[tuple(map(slice, start, stop, step))])
    check("slice_grad", g, shape=(3, 5), start=start, stop=stop, step=step)


def test_pad():
    check("pad", numbers(3, 5), pads=((1, 2), (0, 3)))
    check("pad", numbers(3, 5), pads=((1, 0), (0, 0)), value=-np.inf)
    check("pad", numbers(3, 5, dtype="int32"), pads=((1, 0), (0, 1)), value=7)
    check("pad", numbers(0, 5), pads=((2, 0), (0, 1)))


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
def test_take_and_put_rows(dtype):
    places = np.asarray([[3, 0, 3], [6, 2, 3]], dtype)
    check("take", numbers(7, 5), places)
    check("take", numbers(7), places)
    check("take", numbers(7, 2, 3), np.asarray(4, dtype))
    check("take", numbers(7, 2), np.zeros((0,), dtype))
    check("embedding_grad", numbers(2, 3, 5), places, rows=7, rtol=1e-6)
    check("embedding_grad", numbers(2, 3), places, rows=9, rtol=1e-6)
    check("embedding_grad", numbers(50, 4), np.arange(50).astype(dtype) % 3, rows=4, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
def test_indices_outside_a_table(dtype):
    places = np.asarray([[3, 0, 7], [200, 2, 255]]).astype(dtype)
    check("take", numbers(7, 5), places)
    check("take", numbers(7, 5, dtype="int32"), places)
    check("embedding_grad", numbers(2, 3, 5), places, rows=7, rtol=1e-6)
    check("embedding_grad", numbers(2, 3), places + 7 if dtype != "uint8" else places // 8 + 7, rows=7)
    if dtype != "uint8":
        check("take", numbers(7), -places)
        check("embedding_grad", numbers(2, 3), -places, rows=7)
    rows = run_kernel("take", [numbers(7, 2), places], {})[0]
    assert np.isnan(rows[0, 2]).all()
    assert np.isnan(rows[1, [0, 2]]).all()
    assert np.isfinite(rows[[0, 0, 1], [0, 1, 1]]).all()


def test_a_row_that_is_not_finite_stays_alone():
    values = numbers(4, 3)
    values[1, 1] = np.nan
    check("embedding_grad", values, np.asarray([2, 0, 2, 1]), rows=3, rtol=1e-6)


def test_take_along_axis():
    x, places = numbers(2, 3, 5), np.asarray([[[0, 4], [2, 2], [1, 0]], [[3, 3], [4, 0], [0, 1]]])
    check("take_along_axis", x, places)


def test_iota_and_static_gather():
    check("iota", size=7)
    check("iota", size=0, dtype="float32")
    check("static_gather", numbers(3, 5, 2), indices=(4, 0, 0), axis=1)


def test_parts_of_pictures():
    top, left = (np.array(p, np.int32).reshape(3, 1, 1, 1) for p in ((0, 2, 9), (3, -1, 1)))
    check("crop", numbers(3, 2, 5, 6), top, left, height=3, width=4)
