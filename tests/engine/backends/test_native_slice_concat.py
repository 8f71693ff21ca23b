"""Native slices, their adjoint, fills and repetitions against the plain bodies."""

import numpy as np
import pytest

native_check = pytest.importorskip("native_check", reason="no native level here", exc_type=ImportError)
check = native_check.check

CASES = {
    "channels": ((4, 33, 6, 7), (slice(None), slice(5, 20), slice(None), slice(None))),
    "places": ((4, 9, 6, 7), (slice(None), slice(None), slice(1, 5), slice(2, 7))),
    "steps": ((4, 9, 6, 7), (slice(1, 4, 2), slice(0, 9, 3), slice(None), slice(0, 7, 2))),
    "a row": ((50, 40), (slice(3, 4), slice(None))),
    "columns": ((50, 40), (slice(None), slice(10, 30))),
    "one": ((50, 40), (slice(7, 8), slice(39, 40))),
    "all": ((300, 200), (slice(None), slice(None))),
    "long": ((3, 100_000), (slice(0, 3, 2), slice(1, 99_999))),
    "three": ((5, 6, 7), (slice(0, 5), slice(2, 3), slice(None))),
}


def bounds(shape, key):
    found = [s.indices(n) for s, n in zip(key, shape, strict=True)]
    return {name: tuple(f[i] for f in found) for i, name in enumerate(("start", "stop", "step"))}


@pytest.mark.parametrize("layout", [None, "channels_last"])
@pytest.mark.parametrize("case", CASES)
def test_slices(bits, case, layout):
    shape, key = CASES[case]
    x = np.asarray(np.random.default_rng(0).normal(size=shape), "float32")
    layout = layout if len(shape) >= 3 else None
    check("slice", x, layouts=layout, **bounds(shape, key))
    check("slice_grad", np.ascontiguousarray(x[key]), layouts=layout, shape=shape, **bounds(shape, key))


@pytest.mark.parametrize("dtype", ["bool", "int64", "float64"])
def test_other_types(bits, dtype):
    x = np.asarray(np.random.default_rng(0).integers(0, 2, (20, 30)), dtype)
    check("slice", x, **bounds(x.shape, (slice(2, 19), slice(1, 28))))
    check("full", shape=(7, 9), value=1, dtype=dtype)


def test_fills(bits):
    check("full", shape=(), value=-2.5)
    check("full", shape=(3, 40_001), value=0.0)


@pytest.mark.parametrize(
    ("shape", "wanted"),
    [((), (3,)), ((5, 1), (5, 37)), ((1, 37), (5, 37)), ((37,), (4, 5, 37)), ((4, 5, 1, 1), (4, 5, 6, 7))],
)
def test_repetitions(bits, shape, wanted):
    x = np.asarray(np.random.default_rng(0).normal(size=shape), "float32")
    check("broadcast_to", x, shape=wanted)
    if len(shape) == 4:
        check("broadcast_to", x, layouts="channels_last", shape=wanted)


@pytest.mark.parametrize("layout", [None, "channels_last"])
@pytest.mark.parametrize("axis", [0, 1, -1, (1, 2), (0, 1, 2, 3)])
def test_reversed(bits, axis, layout):
    check("flip", np.asarray(np.random.default_rng(0).normal(size=(3, 5, 4, 6)), "float32"), layouts=layout, axis=axis)


@pytest.mark.parametrize("dtype", ["int32", "float32", "int64"])
def test_counted(bits, dtype):
    check("iota", size=1000, dtype=dtype)
