"""Pictures turned and shifted on native kernels, and the adjoint."""

import numpy as np
import pytest

native_check = pytest.importorskip("native_check", reason="no native level here", exc_type=ImportError)
check = native_check.check

SHAPES = [(2, 3, 5, 7), (5, 1, 28, 28), (1, 4, 1, 1), (3, 17, 6, 20)]


def given(shape):
    rng = np.random.default_rng(0)
    matrices = rng.normal(size=(shape[0], 2, 3)) + np.array([[1, 0, 0], [0, 1, 0]])
    matrices[-1] = [[1, 0, -40], [0, 1, 33.5]]  # far beyond the borders
    return rng.normal(size=shape).astype("float32"), matrices.astype("float32")


@pytest.mark.parametrize("interpolation", ["bilinear", "nearest"])
@pytest.mark.parametrize("fill_mode", ["reflect", "nearest", "wrap", "constant"])
@pytest.mark.parametrize("shape", SHAPES)
def test_affine_maps(bits, shape, fill_mode, interpolation):
    x, matrices = given(shape)
    attrs = {"fill_mode": fill_mode, "interpolation": interpolation, "fill_value": 0.0}
    check("affine_sample", x, matrices, rtol=1e-5, atol=1e-6, **{**attrs, "fill_value": 2.5})
    # a pixel at the border may be given the shares of a whole picture
    check("affine_sample_grad", x, matrices, rtol=1e-5, atol=1e-5, **attrs)


@pytest.mark.parametrize("fill_mode", ["reflect", "nearest", "wrap", "constant"])
def test_a_map_that_is_no_number_reads_and_writes_inside(bits, fill_mode):
    x, matrices = given((3, 2, 5, 7))
    matrices[0], matrices[1], matrices[2] = np.nan, np.inf, 1e30
    for name in ("affine_sample", "affine_sample_grad"):
        ins = native_check.specs_of([x, matrices], None)
        native_check.run_native(name, [x, matrices], ins, ins[:1], {"fill_mode": fill_mode})
