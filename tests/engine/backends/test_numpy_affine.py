"""The kernel that sees pictures through affine maps: every bit of the plain body's."""

import numpy as np
import pytest

from prototorch.engine.backends.cpu.numpy import affine_sample
from tests.engine.backends.kernel_check import plain, run_kernel


def numbers(*shape, dtype="float32", seed=0):
    return np.asarray(np.random.default_rng(seed).normal(size=shape), dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("mode", ["constant", "nearest", "reflect", "wrap"])
@pytest.mark.parametrize("far", [False, True], ids=["tables", "far away"])
def test_affine_sample(monkeypatch, dtype, mode, far):
    if far:
        monkeypatch.setattr(affine_sample, "_MAX_TABLE_REACH", -1000)  # no table is made
    attrs = {"fill_mode": mode, "fill_value": 0.5}
    for shape in [(2, 2, 4, 5), (1, 1, 1, 1), (0, 1, 2, 2), (3, 1, 1, 3), (1, 3, 5, 2), (5, 3, 17, 19)]:
        for turn in (0.3, 4.0):
            maps = numbers(shape[0], 2, 3, seed=4, dtype=dtype) * turn
            maps += np.array([[1.0, 0, 0.3], [0, 1.0, -0.4]], dtype)
            given = [numbers(*shape, dtype=dtype), maps]
            (found,), (wanted,) = run_kernel("affine_sample", given, attrs), plain("affine_sample", given, attrs)
            assert found.tobytes() == wanted.tobytes()


def test_whole_places_and_none():
    """Places between no pixels, and pictures without any."""
    identity = np.array([[[1.0, 0, 0], [0, 1, 0]]], np.float32)
    x = numbers(1, 2, 6, 7)
    np.testing.assert_array_equal(run_kernel("affine_sample", [x, identity], {})[0], x)
