"""Reduction and matrix product kernels against the plain bodies."""

import numpy as np
import pytest

from prototorch.engine.backends.cpu.numpy import matmul, reduce
from tests.engine.backends.kernel_check import check, run_kernel

# (shape, axis): all, inner, outer, middle, none, mixed, sizes of 1 and of 0
SUMS = [((7,), None), ((), None), ((3, 5), 1), ((3, 5), 0), ((2, 3, 4, 5), (0, 2, 3)), ((2, 3, 4, 5), (1, 3)),
        ((3, 0), 1), ((0, 3), 0), ((1, 13, 1), (0, 2)), ((4, 5), ()), ((2, 3, 4), -1)]  # fmt: skip
LONG = [((9001,), None), ((3, 5000), 1), ((5000, 3), 0), ((4, 7, 91), (0, 2)), ((3, 1, 4097), (0, 2)), ((700, 11), 0),
        ((40, 3, 5, 7), (0, 2, 3)), ((2, 9000), None), ((600, 9), 1), ((13, 17, 11), 1)]  # fmt: skip

# Sums are taken in another order than the plain body's: float32 rounding (6e-8) over some thousand terms of size 1.
SUM = {"rtol": 1e-5, "atol": 2e-4}


def numbers(shape, dtype="float32", seed=0):
    return np.asarray(np.random.default_rng(seed).normal(size=shape), dtype)


@pytest.fixture(params=["whole", "pieces"], autouse=True)
def pieces(request, monkeypatch):
    """Everything once more cut into pieces over threads."""
    if request.param == "pieces":
        monkeypatch.setattr(reduce, "PARALLEL_MIN_SIZE", 2100)
        monkeypatch.setattr(reduce, "_MAX_PLAIN_SIZE", 1)
        monkeypatch.setattr(matmul, "_MIN_PARALLEL_WORK", 1)
        monkeypatch.setattr(matmul, "_SMALL_M_MIN_SIZE", 1)
        monkeypatch.setattr(matmul, "_ROWS_PER_TASK", 3)


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize(("shape", "axis"), SUMS + LONG, ids=str)
@pytest.mark.parametrize("name", ["sum", "mean"])
def test_sum(name, shape, axis, keepdims):
    if name == "mean" and 0 in shape:
        return
    check(name, numbers(shape), axis=axis, keepdims=keepdims, **SUM)


def test_sum_keeps_a_long_sum_exact():
    """A sum of a million numbers near 1 stays within some rounding errors of the true one."""
    x = numbers((1 << 20,)) + np.float32(1)
    (out,) = run_kernel("sum", [x], {})
    assert abs(out - x.astype("float64").sum()) < 1e-6 * x.size


@pytest.mark.parametrize("name", ["sum"])
def test_sums_of_integers_and_double(name):
    check(name, np.arange(5000, dtype="int32").reshape(10, 500), axis=1)
    check(name, numbers((10, 500), "float64"), axis=1, rtol=1e-13, atol=1e-12)  # float64 rounding over 500 terms


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("name", ["sum", "argmax"])
def test_numbers_that_are_not_finite_are_seen(name, axis, bad):
    x = numbers((40, 70))
    x[3, 5] = bad
    if name.startswith("arg"):
        check(name, x, axis=axis or 0)
    else:
        check(name, x, axis=axis, **SUM)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_argmax_takes_the_first_and_cumsum_either_end(axis):
    x = np.round(numbers((5, 9)))
    check("argmax", x, axis=axis)
    check("cumsum", x, axis=axis)
    check("cumsum", x, axis=axis, reverse=True)


@pytest.mark.parametrize(
    ("old", "new"),
    [((3, 1), (3, 4)), ((), (2, 3)), ((3,), (2, 3)), ((1, 5), (7, 5)), ((2, 3), (2, 3)), ((1,), (0,))],
    ids=str,
)
def test_broadcast_to(old, new):
    check("broadcast_to", numbers(old), shape=new)


# (a, b) as they lie after the swaps
PRODUCTS = [((1, 1), (1, 1)), ((3, 5), (5, 7)), ((1, 13), (13, 1)), ((0, 3), (3, 4)), ((3, 0), (0, 4)),
            ((2, 3, 5), (5, 7)),
            ((4, 3, 5), (4, 5, 7)), ((2, 1, 3, 5), (3, 5, 2)), ((3, 5), (6, 5, 2)), ((2, 3, 4, 5), (2, 3, 5, 6)),
            ((5, 1, 3, 2), (1, 4, 2, 3)), ((33, 65), (65, 17))]  # fmt: skip


@pytest.mark.parametrize("flip_a", [False, True])
@pytest.mark.parametrize("flip_b", [False, True])
@pytest.mark.parametrize(("a", "b"), PRODUCTS, ids=str)
def test_matmul(a, b, flip_a, flip_b):
    left, right = numbers(a), numbers(b, seed=1)
    left = np.ascontiguousarray(left.swapaxes(-1, -2)) if flip_a else left
    right = np.ascontiguousarray(right.swapaxes(-1, -2)) if flip_b else right
    # The order of the additions is BLAS'; at most 65 terms of size 1. BLAS' own threads may change its order.
    check("matmul", left, right, transpose_a=flip_a, transpose_b=flip_b, rtol=1e-5, atol=2e-5, threads_agree=False)


def test_matmul_of_odd_numbers():
    x = numbers((8, 8))
    x[2, 3], x[4, 4] = np.nan, np.inf
    check("matmul", x, np.eye(8, dtype="float32")[:, :5].copy() + 1, rtol=1e-5, atol=1e-5, threads_agree=False)
    check("matmul", np.arange(6, dtype="int32").reshape(2, 3), np.arange(12, dtype="int32").reshape(3, 4))
