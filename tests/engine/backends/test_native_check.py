"""The checker of native kernels itself, with kernels that are there and one that does wrong."""

import numpy as np
import pytest

native_check = pytest.importorskip("native_check", reason="no native level here", exc_type=ImportError)


@pytest.mark.parametrize("layout", [None, "channels_last"])
@pytest.mark.parametrize("channels", [1, 3, 20, 33])
def test_an_elementwise_kernel(bits, layout, channels):
    x = np.random.default_rng(0).normal(size=(2, channels, 3, 5)).astype("float32")
    native_check.check("relu", x, layouts=layout)


def test_guards_and_layouts():
    made = native_check.Guarded(native_check.Spec((2, 3, 4), "float32", "channels_last"))
    assert made.array.shape == (2, 3, 4)
    assert np.moveaxis(made.array, 1, -1).flags.c_contiguous
    assert np.isnan(made.array).all()
    assert made.intact()
    made.raw[native_check.GUARD + native_check.ODD - 1] = 1
    assert not made.intact()
