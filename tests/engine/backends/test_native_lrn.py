"""Native local response normalisation against the plain bodies in float64."""

import numpy as np
import pytest

native_check = pytest.importorskip("native_check", reason="no native level here", exc_type=ImportError)
check = native_check.check

CHANNELS = [1, 3, 20, 33, 96]
RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize("layouts", [None, "channels_last"])
@pytest.mark.parametrize("channels", CHANNELS)
@pytest.mark.parametrize(("size", "beta"), [(5, 0.75), (1, 0.5), (3, 1.0), (9, 0.6)])
def test_lrn(bits, layouts, channels, size, beta):
    x = RANDOM.normal(size=(2, channels, 3, 7)).astype("float32") * 3
    attrs = {"size": size, "alpha": 0.3, "beta": beta, "k": 1.5}
    # a sum of up to 9 squares, and a power: exp(beta * log) loses a few units where beta * log is a few
    _, base = check("lrn", x, layouts=layouts, rtol=2e-6, **attrs)
    g = RANDOM.normal(size=x.shape).astype("float32")
    check("lrn_grad", g, x, np.ascontiguousarray(base), layouts=layouts, rtol=1e-5, atol=2e-6, **attrs)


@pytest.mark.parametrize("layouts", [None, "channels_last"])
def test_lrn_in_many_pieces(layouts):
    x = RANDOM.normal(size=(3, 40, 17, 19)).astype("float32")
    attrs = {"size": 5, "alpha": 1e-4, "beta": 0.75, "k": 1.0}
    _, base = check("lrn", x, layouts=layouts, threads=(1, 2, 3), rtol=2e-6, **attrs)
    check("lrn_grad", x + 1, x, np.ascontiguousarray(base), layouts=layouts, rtol=1e-5, atol=2e-6, **attrs)


def test_two_dimensions():
    x = RANDOM.normal(size=(7, 33)).astype("float32")
    check("lrn", x, rtol=2e-6, size=5, alpha=1e-1, beta=0.75, k=2.0)
