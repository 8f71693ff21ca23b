"""Group normalisation on native kernels and its gradient, in both layouts, against the plain bodies."""

import numpy as np
import pytest

native_check = pytest.importorskip("native_check", reason="no native level here", exc_type=ImportError)
check = native_check.check

# shape and groups: instances, one group, groups of odd sizes, more channels than an item has, one place
CASES = [((2, 6, 5, 7), 3), ((2, 6, 5, 7), 6), ((3, 20, 9), 1), ((2, 96, 3, 33), 32), ((1, 260, 4, 5), 4),
         ((5, 33, 2, 3, 4), 11), ((2, 8, 40, 41), 2), ((7, 12), 4), ((1, 1, 1, 1), 1), ((2, 192, 5, 1), 3)]  # fmt: skip


def numbers(*shape, seed=0, shift=0.0):
    return np.asarray(np.random.default_rng(seed).normal(size=shape) + shift, "float32")


@pytest.mark.parametrize("layout", [None, "channels_last"])
@pytest.mark.parametrize(("shape", "groups"), CASES)
def test_group_norm_and_its_gradient(bits, shape, groups, layout):
    layout = layout if len(shape) > 2 else None
    c = shape[1]
    x, gamma, beta, g = numbers(*shape, shift=3.0), numbers(c, seed=1), numbers(c, seed=2), numbers(*shape, seed=3)
    attrs = {"groups": groups, "eps": 1e-3}
    one, full = [layout, None, None], [layout, layout, None]
    # the distance from a mean of 3 is rounded as 3 is; sums of up to 3,000 numbers
    check("group_norm", x, gamma, beta, layouts=one, out_layouts=[layout], rtol=1e-5, atol=2e-6, **attrs)
    if x.size > 1:  # the gradient of a single number is 0, the difference of two that are not
        check("group_norm_grad", g, x, gamma, layouts=full, out_layouts=one, rtol=1e-5, atol=1e-5, **attrs)


def test_large_means_do_no_harm(bits):
    x, one, zero = numbers(2, 8, 30, 31, shift=1000.0), np.ones(8, "float32"), np.zeros(8, "float32")
    for layout in (None, "channels_last"):
        # numbers near 1000 are rounded by 3e-5 of 1, before the kernel sees them
        check(
            "group_norm", x, one, zero, layouts=[layout, None, None], out_layouts=[layout], atol=2e-5, groups=2, eps=0.0
        )
        y = x.copy()
        y[:, :, :2] = 0  # the sample that the mean is guessed from is far away from the others
        check(
            "group_norm", y, one, zero, layouts=[layout, None, None], out_layouts=[layout], atol=2e-5, groups=2, eps=0.0
        )
