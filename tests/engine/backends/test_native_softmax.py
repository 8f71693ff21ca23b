"""Native softmax and the losses on it against the plain bodies."""

import numpy as np
import pytest

native_check = pytest.importorskip("native_check", reason="no native level here", exc_type=ImportError)
check = native_check.check

SHAPES = [(1, 1), (3, 10), (7, 16), (5, 17), (2, 3, 33), (64, 130), (700, 64), (4,)]
# exp is right to 2 units in the last place, a sum of n numbers over 4 ... 16 lanes to n / 8 of them at worst
TOLERANCE = {"rtol": 1e-5, "atol": 1e-6}


def numbers(*shape, scale=3.0, seed=0):
    return np.asarray(np.random.default_rng(seed).normal(size=shape, scale=scale), "float32")


@pytest.mark.parametrize("shape", SHAPES)
def test_softmax_and_its_gradient(bits, shape):
    x = numbers(*shape)
    (y,) = check("softmax", x, **TOLERANCE)
    check("softmax_grad", numbers(*shape, seed=1), np.array(y), **TOLERANCE)
    check("log_softmax", x, **TOLERANCE)


@pytest.mark.parametrize("labels", ["int32", "int64", "uint8"])
@pytest.mark.parametrize("shape", SHAPES[:-1])
def test_cross_entropy(bits, shape, labels):
    x, chosen = numbers(*shape), np.random.default_rng(2).integers(0, shape[-1], shape[:-1]).astype(labels)
    check("sparse_softmax_cross_entropy", x, chosen, **TOLERANCE)
    check("sparse_softmax_cross_entropy_grad", numbers(*shape[:-1], seed=3), x, chosen, **TOLERANCE)


def test_no_overflow_and_nan_where_numpy_has_it(bits):
    check("softmax", numbers(5, 100, scale=300.0), **TOLERANCE)
    x = numbers(4, 5)
    x[1, 2], x[2, 3], x[3, 1] = np.inf, -np.inf, np.nan
    check("softmax", x, **TOLERANCE)
    check("log_softmax", x, **TOLERANCE)


def test_a_label_that_is_no_class_gives_nan_and_reads_no_other_memory(bits):
    x, labels = numbers(5, 5), np.array([0, 5, -1, -6, 2**40])
    check("sparse_softmax_cross_entropy", x, labels, **TOLERANCE)
    check("sparse_softmax_cross_entropy_grad", numbers(5), x, labels, **TOLERANCE)  # no one is hot


@pytest.mark.parametrize("layout", [None, "channels_last"])
@pytest.mark.parametrize("shape", [(2, 3, 5, 7), (3, 21, 9, 33), (2, 130, 4), (1, 2, 1, 700), (5, 17, 3, 2, 3)])
def test_along_any_axis(bits, shape, layout):
    x = numbers(*shape)
    x[0, 1] *= 100
    for axis in range(len(shape)):
        (y,) = check("softmax", x, layouts=layout, axis=axis, **TOLERANCE)
        check("softmax_grad", numbers(*shape, seed=1), np.array(y), layouts=layout, axis=axis - len(shape), **TOLERANCE)
        check("log_softmax", x, layouts=layout, axis=axis, **TOLERANCE)
    x.reshape(-1)[[0, x.size // 2, -1]] = np.inf, np.nan, -np.inf
    check("softmax", x, layouts=layout, axis=1, **TOLERANCE)
    check("log_softmax", x, layouts=layout, axis=1, **TOLERANCE)
