"""Native pooling against the plain bodies, over awkward shapes, in both layouts."""

import numpy as np
import pytest

native_check = pytest.importorskip("native_check", reason="no native level here", exc_type=ImportError)
check = native_check.check

# size, kernel, strides, pads, ceil
CASES = {
    "alexnet": ((13, 13), (3, 3), (2, 2), ((0, 0), (0, 0)), False),
    "lenet": ((8, 10), (2, 2), (2, 2), ((0, 0), (0, 0)), False),
    "resnet": ((12, 13), (3, 3), (2, 2), ((1, 1), (1, 1)), False),
    "ceil": ((14, 12), (3, 3), (2, 2), ((0, 0), (0, 0)), True),
    "stride 1, padded": ((7, 5), (3, 3), (1, 1), ((1, 1), (1, 1)), False),
    "asymmetric": ((7, 9), (3, 2), (2, 3), ((2, 1), (0, 1)), False),
    "stride > kernel": ((11, 13), (2, 3), (5, 4), ((0, 0), (1, 0)), False),
    "wide": ((9, 40), (4, 7), (3, 5), ((1, 0), (3, 3)), True),
    "one place": ((5, 4), (1, 1), (2, 1), ((0, 0), (0, 0)), False),
    "whole": ((7, 6), (7, 6), (1, 1), ((0, 0), (0, 0)), False),
    "one element": ((1, 1), (1, 1), (1, 1), ((0, 0), (0, 0)), False),
    "one dimension": ((17,), (3,), (2,), ((1, 0),), False),
    "three dimensions": ((5, 6, 7), (2, 3, 2), (1, 2, 2), ((1, 0), (1, 1), (0, 1)), True),
    "flat in depth": ((3, 6, 7), (1, 3, 3), (1, 2, 2), ((0, 0), (1, 1), (0, 0)), False),
    "long, stride 2": ((4, 91), (2, 3), (2, 2), ((0, 0), (1, 1)), False),
    "long, stride 3": ((3, 131), (1, 3), (1, 3), ((0, 0), (0, 0)), True),
    "long, stride 4": ((3, 150), (2, 5), (1, 4), ((1, 0), (2, 2)), False),
    "many places": ((20, 21), (17, 18), (2, 1), ((0, 0), (4, 0)), False),
}
PADDED = [case for case, (*_, pads, _) in CASES.items() if np.any(pads)]
CHANNELS = [1, 3, 20, 33, 96]
LAYOUTS = [None, "channels_last"]


def prepared(case, channels, images=2):
    size, kernel, strides, pads, ceil = CASES[case]
    x = np.asarray(np.random.default_rng(0).normal(size=(images, channels, *size)), "float32")
    return x, {"kernel": kernel, "strides": strides, "pads": pads, "ceil": ceil}


@pytest.mark.parametrize("layouts", LAYOUTS)
@pytest.mark.parametrize("case", CASES)
def test_max_pool_and_unpool(bits, case, layouts):
    for channels in CHANNELS if case in ("lenet", "resnet") else (20,):
        x, attrs = prepared(case, channels)
        y, number = check("max_pool", x, layouts=layouts, **attrs)
        check("max_pool", np.round(x), layouts=layouts, **attrs)  # equals: the first wins
        check("max_pool", np.full_like(x, -np.inf), layouts=layouts, **attrs)
        # float32 sums of at most 306 numbers
        g = np.ascontiguousarray(y) + 3
        check("max_pool_grad", g, np.ascontiguousarray(number), layouts=layouts, atol=1e-5, size=x.shape[2:], **attrs)


@pytest.mark.parametrize("layouts", LAYOUTS)
@pytest.mark.parametrize("case", ["alexnet", "asymmetric", "whole", "three dimensions"])
def test_max_pool_of_odd_numbers(bits, case, layouts):
    x, attrs = prepared(case, 5)
    x.reshape(-1)[::7] = np.nan
    x.reshape(-1)[3::11] = np.inf
    x.reshape(-1)[5::3] = -np.inf
    check("max_pool", x, layouts=layouts, **attrs)


@pytest.mark.parametrize("layouts", LAYOUTS)
@pytest.mark.parametrize(("case", "include_pad"), [(c, False) for c in CASES] + [(c, True) for c in PADDED])
def test_avg_pool_and_unpool(bits, case, layouts, include_pad):
    for channels in CHANNELS if case == "resnet" else (20,):
        x, attrs = prepared(case, channels)
        attrs["include_pad"] = include_pad
        # float32 sums of at most 306 numbers
        (y,) = check("avg_pool", x, layouts=layouts, rtol=1e-5, atol=1e-6, **attrs)
        g = np.ascontiguousarray(y) + 3
        check("avg_pool_grad", g, layouts=layouts, rtol=1e-5, atol=1e-6, size=x.shape[2:], **attrs)


@pytest.mark.parametrize("layouts", LAYOUTS)
def test_many_pieces(bits, layouts):
    x, attrs = prepared("resnet", 33, images=41)
    y, number = check("max_pool", x, layouts=layouts, threads=(1, 2, 3), **attrs)
    check("max_pool_grad", y.copy(), number.copy(), layouts=layouts, atol=1e-6, size=x.shape[2:], **attrs)
