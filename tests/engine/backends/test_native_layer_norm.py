"""Native layer normalisation against the plain bodies in float64."""

import numpy as np
import pytest

native_check = pytest.importorskip("native_check", reason="no native level here", exc_type=ImportError)
check = native_check.check

RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize(("shape", "axis"), [
    ((5, 3), -1), ((2, 7, 20), -1), ((3, 33), (1,)), ((4, 96), -1), ((2, 3, 5, 7), (1, 2, 3)), ((600, 70), -1),
    ((2, 9000), -1), ((7, 128), 1),
])  # fmt: skip
@pytest.mark.parametrize("mean", [0.5, 1e3])
def test_layer_norm(bits, shape, axis, mean):
    x = (RANDOM.normal(size=shape) * 2 + mean).astype("float32")
    axis_shape = shape[1:] if isinstance(axis, tuple) else shape[-1:]
    gamma, beta = (RANDOM.normal(size=axis_shape).astype("float32") for _ in range(2))
    g = RANDOM.normal(size=shape).astype("float32")
    # the mean itself is rounded to 6e-8 of 1e3: 3e-5 of the deviation
    loose = 1e-4 if mean > 1 else 3e-6
    check("layer_norm", x, gamma, beta, rtol=1e-5, atol=loose, axis=axis, eps=1e-3)
    check("layer_norm_grad", g, x, gamma, rtol=1e-5, atol=loose, threads=(1, 2, 3), axis=axis, eps=1e-3)


@pytest.mark.parametrize("shape", [(2, 7, 20), (3, 33, 5, 6), (2, 96, 3, 2, 3)])
def test_the_channels_of_pictures(bits, shape):
    x, g = (RANDOM.normal(size=shape).astype("float32") for _ in range(2))
    gamma, beta = (RANDOM.normal(size=shape[1]).astype("float32") for _ in range(2))
    last = "channels_last"
    attrs = {"axis": (1,), "eps": 1e-3, "rtol": 1e-5, "atol": 3e-6}
    check("layer_norm", x, gamma, beta, layouts=[last, None, None], out_layouts=[last], **attrs)
    check("layer_norm_grad", g, x, gamma, layouts=[last, last, None], out_layouts=[last, None, None], **attrs)
