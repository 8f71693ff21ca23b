"""Native look-ups by index and their adjoints, and the places of the largest numbers, against the plain bodies."""

import numpy as np
import pytest

native_check = pytest.importorskip("native_check", reason="no native level here", exc_type=ImportError)
check = native_check.check

TYPES = ["int32", "int64", "uint8"]
TABLES = [((5, 7), (3, 4)), ((100, 256), (32, 128)), ((50,), (7,)), ((200, 33), (1000,)), ((1, 16), (3,)),
          ((3, 700), (50,)), ((9, 2, 3), (4,))]  # fmt: skip


def numbers(*shape, seed=0):
    return np.asarray(np.random.default_rng(seed).normal(size=shape), "float32")


def places(rows, shape, dtype):
    """Indices, the first and the last of which lie outside where the type can say so."""
    found = np.random.default_rng(1).integers(0, rows, shape).astype(dtype)
    if dtype != "uint8":
        found.flat[0], found.flat[-1] = -1, rows
    return found


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("table", "shape"), TABLES)
def test_take_put_rows_and_one_hot(bits, table, shape, dtype):
    indices = places(table[0], shape, dtype)
    check("take", numbers(*table), indices)
    # sums of up to a hundred values of one index, one after another
    check("embedding_grad", numbers(*shape, *table[1:]), indices, rows=table[0], rtol=1e-5, atol=1e-5)
    check("one_hot", indices, classes=table[0])


@pytest.mark.parametrize("dtype", TYPES)
def test_along_the_last_axis(bits, dtype):
    indices = np.random.default_rng(1).integers(0, 20, (6, 5, 3)).astype(dtype)
    check("take_along_axis", numbers(6, 5, 20), indices)
    check("scatter_add_along_axis", numbers(6, 5, 3), indices, size=20, rtol=1e-6)


def test_whole_numbers_have_no_nan(bits):
    check("take", np.arange(12, dtype="int64").reshape(4, 3), np.array([0, 7, 3, -1]))


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("shape", [(3, 10), (64, 1000), (1, 1), (5, 16, 7), (2, 20, 5, 9)])
def test_places_of_the_largest(bits, shape, name):
    for axis in range(len(shape)):
        x = numbers(*shape)
        check(name, x, axis=axis)
        check(name, np.round(x), axis=axis)  # among equals the first
        check(name, np.full(shape, -np.inf, "float32"), axis=axis)
        x[np.random.default_rng(2).random(shape) < 0.05] = np.nan
        check(name, x, axis=axis)


def test_places_of_the_largest_channel(bits):
    for axis in (1, -3):
        check("argmax", numbers(2, 20, 5, 9), layouts="channels_last", axis=axis)


@pytest.mark.parametrize(("shape", "k"), [((3, 10), 1), ((64, 1000), 5), ((2, 3, 7), 7), ((1,), 1)])
def test_the_largest_few(bits, shape, k):
    x = numbers(*shape)
    check("top_k", x, k=k)
    check("top_k", np.round(x), k=k)
    x[np.random.default_rng(2).random(shape) < 0.5] = -np.inf
    check("top_k", x, k=k)
    x[np.random.default_rng(3).random(shape) < 0.5] = np.nan
    check("top_k", x, k=k)
