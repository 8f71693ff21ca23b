"""Native random numbers and dropout: the very bits of the plain bodies, however many there are."""

import numpy as np
import pytest

from prototorch.ops.operators import OPS

native_check = pytest.importorskip("native_check", reason="no native level here", exc_type=ImportError)
KEY = np.array([12_345_678_901_234_567, 42], np.uint64)
SIZES = [1, 3, 16, 17, 1000, 8193, 50_001]


def same_bits(name, *arrays, **attrs):
    """Native against plain in the type asked for, on one thread and on two."""
    ins = native_check.specs_of(arrays, None)
    outs = native_check.outputs_of(name, ins, attrs, None)
    want = OPS[name].reference(np, *arrays, **attrs)
    native_check.check(name, *arrays, rtol=1e-6, **attrs)
    (got,) = native_check.run_native(name, arrays, ins, outs, attrs)
    assert got.dtype == want.dtype
    assert got.tobytes() == np.ascontiguousarray(want).tobytes()


@pytest.mark.parametrize("size", SIZES)
def test_the_same_bits_as_the_plain_body(bits, size):
    x = np.asarray(np.random.default_rng(0).normal(size=size), "float32")
    for rate in (0.0, 0.1, 0.5, 0.999_999_9):
        same_bits("dropout", x, KEY, rate=rate, site=2**63 + 5)
    same_bits("random_bits", KEY, site=7, shape=(size,))
    same_bits("random_uniform", KEY, site=1, shape=(size,))
    same_bits("random_uniform", KEY, site=1, shape=(size,), low=-0.3, high=0.7, dtype="float64")


def test_uniform_numbers_between_bounds(bits):
    for low, high in ((-0.3, 0.7), (1.0, 1.0001)):
        same_bits("random_uniform", KEY, site=1, shape=(5000,), low=low, high=high)


def test_one_draw_for_several_elements(bits):
    x = np.asarray(np.random.default_rng(0).normal(size=(4, 5, 6, 7)), "float32")
    same_bits("dropout", x, KEY, rate=0.3, site=1, noise_shape=(4, 5, 1, 1))
    same_bits("dropout", x[0], KEY, rate=0.3, site=1, noise_shape=(5, 1, 7))
