"""Native copies into another order, against the plain bodies."""

import numpy as np
import pytest

native_check = pytest.importorskip("native_check", reason="no native level here", exc_type=ImportError)
check = native_check.check

RANDOM = np.random.default_rng(0)
TYPES = ["float32", "int32", "uint8", "float64", "bool"]


def numbers(shape, dtype="float32"):
    return RANDOM.integers(0, 2 if dtype == "bool" else 200, shape).astype(dtype)


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5, 16, 20, 33, 96])
@pytest.mark.parametrize("places", [(1,), (7,), (4, 4), (16, 9), (5, 13, 3), (11, 100)])
def test_reorder(bits, channels, places):
    x = numbers((2, channels, *places))
    check("reorder", x, layout="channels_last")
    check("reorder", x, layouts="channels_last", layout=None)


@pytest.mark.parametrize("dtype", TYPES)
def test_reorder_of_types(bits, dtype):
    x = numbers((3, 20, 7, 6), dtype)
    check("reorder", x, layout="channels_last")
    check("reorder", x, layouts="channels_last", layout=None)


@pytest.mark.parametrize("channels", [3, 70])
def test_reorder_in_many_pieces(bits, channels):
    x = numbers((5, channels, 50, 70))
    check("reorder", x, layout="channels_last", threads=(1, 2, 3))
    check("reorder", x, layouts="channels_last", layout=None, threads=(1, 2, 3))


@pytest.mark.parametrize("dtype", ["float32", "uint8"])
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 1, 3), (3, 2, 1, 0), (0, 1, 3, 2), (2, 3, 0, 1), (1, 0, 3, 2)])
def test_transpose(bits, order, dtype):
    check("transpose", numbers((3, 20, 5, 33), dtype), order=order)
    check("transpose", numbers((17, 1, 18, 2), dtype), order=order)


@pytest.mark.parametrize("layouts", [None, "channels_last"])
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_concat(bits, layouts, axis):
    parts = []
    for n in (1, 3, 20, 33):
        shape = [2, 5, 3, 7]
        shape[axis] = n
        parts.append(numbers(shape))
    check("concat", *parts, layouts=layouts, axis=axis)
    check("concat", parts[1].astype("uint8"), parts[2].astype("uint8"), layouts=layouts, axis=axis)


@pytest.mark.parametrize("layouts", [None, "channels_last"])
@pytest.mark.parametrize("pads", [((0, 0), (0, 0), (1, 2), (3, 0)), ((0, 1), (2, 3), (0, 0), (0, 0)), ((0, 0),) * 4])
def test_pad(bits, layouts, pads):
    check("pad", numbers((2, 20, 5, 9)), layouts=layouts, pads=pads)
