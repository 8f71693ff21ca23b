"""Running sums, fixed places along an axis, and borders, on native kernels."""

import numpy as np
import pytest

native_check = pytest.importorskip("native_check", reason="no native level here", exc_type=ImportError)
check = native_check.check

SHAPES = [(3, 5), (2, 3, 7, 9), (1, 1), (130, 17), (2, 40, 33, 3), (5, 1000), (7, 3, 700), (70_001,)]
LAST = "channels_last"


def numbers(*shape, dtype="float32"):
    rng = np.random.default_rng(0)
    if dtype.startswith("int"):
        return rng.integers(-99, 99, shape).astype(dtype)
    return rng.normal(size=shape).astype(dtype)


def layouts_of(shape):
    return (None, LAST) if len(shape) >= 3 else (None,)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_running_sums(bits, shape, reverse):
    for axis in range(-1, len(shape) - 1):
        for layout in layouts_of(shape):
            # sums of up to 70,000 numbers, whose rounding grows with their number
            check("cumsum", numbers(*shape), layouts=layout, axis=axis, reverse=reverse, rtol=1e-4, atol=2e-6)
    for dtype in ("int32", "int64"):
        check("cumsum", numbers(*shape, dtype=dtype), axis=-1, reverse=reverse)
    check("cumsum", numbers(*shape, dtype="float64"), axis=0, reverse=reverse, rtol=1e-9, atol=1e-14)


def test_running_sums_keep_what_is_not_a_number_to_themselves(bits):
    x = numbers(4, 50)
    x[1, 20], x[2, 30] = np.nan, np.inf
    for reverse in (False, True):
        check("cumsum", x, axis=1, reverse=reverse, rtol=1e-4, atol=1e-5)
        check("cumsum", x, axis=0, reverse=reverse, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", SHAPES)
def test_gather_and_scatter(bits, shape):
    rng = np.random.default_rng(1)
    for axis in range(len(shape)):
        n = shape[axis]
        for places in (range(n), [0] * 3, [n - 1, *range(n), 0], rng.integers(0, n, min(n, 50) + 2), [n // 2]):
            indices = tuple(int(p) for p in places)
            given = numbers(*shape[:axis], len(indices), *shape[axis + 1 :])
            for layout in layouts_of(shape):
                check("static_gather", numbers(*shape), layouts=layout, indices=indices, axis=axis)
                check(
                    "static_scatter_add",
                    given,
                    layouts=layout,
                    indices=indices,
                    axis=axis - len(shape),
                    size=n,
                    rtol=1e-5,
                    atol=1e-5,
                )
    check("static_gather", numbers(*shape, dtype="int64"), indices=(0, 0), axis=-1)


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
@pytest.mark.parametrize("shape", [(2, 3, 7, 9), (3, 5), (2, 20, 4, 33), (40,), (2, 3, 4, 5, 6), (3, 17, 30)])
def test_borders(bits, shape, mode):
    rank = len(shape)
    every = tuple((1, 2) if n > 2 else (0, 1) for n in shape)
    for pads in (every, ((0, 0),) * (rank - 1) + ((3, 0),), ((2, 1),) + ((0, 0),) * (rank - 1), ((0, 0),) * rank):
        for layout in layouts_of(shape):
            if mode != "reflect" or all(max(p) < n for p, n in zip(pads, shape, strict=True) if max(p)):
                check("pad", numbers(*shape), layouts=layout, pads=pads, mode=mode, value=2.5)
        for dtype in ("int32", "int64", "uint8"):
            if mode == "edge" or mode == "constant":
                check("pad", np.abs(numbers(*shape)).astype(dtype), pads=pads, mode=mode, value=3)


@pytest.mark.parametrize("dtype", ["float32", "uint8", "int64", "float64"])
@pytest.mark.parametrize(("shape", "height", "width"), [
    ((3, 2, 5, 6), 3, 4), ((2, 3, 40, 37), 33, 37), ((1, 1, 1, 1), 1, 1), ((5, 17, 3, 70), 1, 66),
    ((70, 3, 32, 32), 28, 28),
])  # fmt: skip
def test_parts_of_pictures(bits, shape, height, width, dtype):
    """Also where places lie outside: they are moved inside."""
    rng = np.random.default_rng(2)
    top, left = (rng.integers(-3, n + 3, (shape[0], 1, 1, 1)).astype("int32") for n in shape[2:])
    for layout in (None, LAST):
        x = (rng.normal(size=shape) * 50 + 99).astype(dtype)
        check("crop", x, top, left, layouts=(layout, None, None), out_layouts=(layout,), height=height, width=width)
