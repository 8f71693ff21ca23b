"""Convolution kernels against the plain bodies, over awkward shapes."""

import numpy as np
import pytest

from prototorch.engine.backends.cpu.numpy import conv, conv_weight_grad, depthwise_conv
from tests.engine.backends.kernel_check import check, outputs_of, run_kernel

# x, w, strides, pads, dilation, groups
CASES = {
    "usual": ((2, 3, 9, 9), (4, 3, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    "alexnet's first": ((3, 3, 23, 23), (5, 3, 11, 11), (4, 4), ((0, 0), (0, 0)), (1, 1), 1),
    "groups": ((5, 4, 7, 6), (6, 2, 5, 3), (1, 1), ((2, 2), (1, 1)), (1, 1), 2),
    "pointwise": ((3, 5, 7, 3), (7, 5, 1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1), 1),
    "pointwise, groups": ((3, 6, 4, 3), (9, 2, 1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1), 3),
    "pointwise, strides": ((3, 5, 7, 8), (7, 5, 1, 1), (2, 3), ((0, 0), (0, 0)), (1, 1), 1),
    "pointwise, padded": ((2, 2, 3, 3), (3, 2, 1, 1), (1, 1), ((1, 0), (0, 2)), (1, 1), 1),
    "asymmetric pads": ((2, 3, 8, 5), (4, 3, 4, 2), (1, 1), ((1, 2), (0, 1)), (1, 1), 1),
    "pads beyond the kernel": ((2, 3, 4, 4), (2, 3, 2, 2), (1, 1), ((3, 2), (2, 4)), (1, 1), 1),
    "stride > kernel": ((2, 3, 11, 13), (4, 3, 2, 3), (4, 5), ((0, 0), (1, 0)), (1, 1), 1),
    "windows that leave elements over": ((2, 3, 10, 9), (4, 3, 3, 3), (3, 4), ((1, 0), (0, 0)), (1, 1), 1),
    "dilation": ((2, 3, 11, 12), (4, 3, 3, 2), (1, 1), ((2, 2), (0, 3)), (2, 3), 1),
    "dilation, strides": ((2, 3, 11, 12), (4, 3, 3, 2), (2, 1), ((1, 2), (0, 3)), (2, 3), 1),
    "kernel = input": ((3, 2, 5, 4), (6, 2, 5, 4), (1, 1), ((0, 0), (0, 0)), (1, 1), 1),
    "prime channels": ((7, 13, 5, 5), (11, 13, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    "one image": ((1, 3, 6, 6), (2, 3, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    "one element": ((1, 1, 1, 1), (1, 1, 1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1), 1),
    "depthwise": ((3, 5, 7, 9), (5, 1, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 5),
    "depthwise, strides": ((3, 5, 7, 9), (5, 1, 3, 2), (2, 3), ((1, 0), (0, 0)), (1, 2), 5),
    "depthwise, bare": ((2, 3, 7, 9), (3, 1, 3, 3), (1, 1), ((0, 0), (0, 0)), (1, 1), 3),
    "depthwise, multiplier": ((2, 3, 7, 9), (6, 1, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 3),
    "one dimension": ((3, 4, 17), (5, 4, 3), (2,), ((2, 0),), (2,), 1),
    "three dimensions": ((2, 3, 5, 6, 4), (4, 3, 2, 3, 2), (1, 2, 1), ((1, 0), (1, 1), (0, 1)), (1, 1, 2), 1),
    "depthwise, one dimension": ((3, 4, 17), (4, 1, 3), (1,), ((1, 1),), (1,), 4),
    "no image": ((0, 3, 6, 6), (2, 3, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    "no image, depthwise": ((0, 3, 6, 6), (3, 1, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 3),
    "no filter": ((2, 3, 6, 6), (0, 3, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    "no channel": ((2, 0, 6, 6), (3, 0, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
}

# The plain body adds in another order: at most some thousand float32 roundings (6e-8 each) of terms of size 1.
NEAR = {"rtol": 2e-5, "atol": 1e-4}


@pytest.fixture(params=["usual blocks", "small blocks"], autouse=True)
def blocks(request, monkeypatch):
    """Everything once more one image, and few channels, at a time."""
    if request.param == "small blocks":
        monkeypatch.setattr(conv, "_BLOCK_BYTES", 1)
        monkeypatch.setattr(conv_weight_grad, "_MAX_BLOCK_BYTES", 1)
        monkeypatch.setattr(depthwise_conv, "_BLOCK_ELEMENTS", 1)


def numbers(shape, seed=0, dtype="float32"):
    return np.asarray(np.random.default_rng(seed).normal(size=shape), dtype)


def prepared(case, dtype="float32"):
    x, w, strides, pads, dilation, groups = CASES[case]
    attrs = {"strides": strides, "pads": pads, "dilation": dilation, "groups": groups}
    x, w = numbers(x, 0, dtype), numbers(w, 1, dtype)
    g = numbers(outputs_of("conv", [x, w], attrs)[0].shape, 2, dtype)
    return x, w, g, attrs


@pytest.mark.parametrize("case", CASES)
def test_conv(case):
    x, w, _, attrs = prepared(case)
    check("conv", x, w, **attrs, **NEAR, threads_agree=len(x) > 1)


@pytest.mark.parametrize("case", CASES)
def test_conv_input_grad(case):
    x, w, g, attrs = prepared(case)
    check("conv_input_grad", g, w, size=x.shape[2:], **attrs, **NEAR, threads_agree=len(x) > 1)


@pytest.mark.parametrize("case", CASES)
def test_conv_weight_grad(case):
    x, w, g, attrs = prepared(case)
    check("conv_weight_grad", x, g, kernel=w.shape[2:], **attrs, **NEAR, threads_agree=len(x) > 4)


@pytest.mark.parametrize("worth", [0, 1e9])
@pytest.mark.parametrize("case", CASES)
def test_both_ways_to_the_input_grad(case, worth, monkeypatch):
    monkeypatch.setattr(conv, "_MAX_PRODUCT_GROWTH", worth)
    x, w, g, attrs = prepared(case)
    check("conv_input_grad", g, w, size=x.shape[2:], **attrs, **NEAR, threads_agree=len(x) > 1)


@pytest.mark.parametrize("largest", [1, 600])
@pytest.mark.parametrize("case", CASES)
def test_parts_of_an_image(case, largest, monkeypatch):
    monkeypatch.setattr(conv, "_MAX_COLUMN_BYTES", largest)
    monkeypatch.setattr(conv_weight_grad, "_MAX_COLUMN_BYTES", largest)
    x, w, g, attrs = prepared(case)
    check("conv", x, w, **attrs, **NEAR, threads_agree=len(x) > 1)
    check("conv_weight_grad", x, g, kernel=w.shape[2:], **attrs, **NEAR, threads_agree=len(x) > 4)


def test_in_double():
    x, w, g, attrs = prepared("groups", "float64")
    near = {"rtol": 1e-12, "atol": 1e-12}  # float64 rounding
    check("conv", x, w, **attrs, **near)
    check("conv_input_grad", g, w, size=x.shape[2:], **attrs, **near)
    check("conv_weight_grad", x, g, kernel=w.shape[2:], **attrs, **near)


@pytest.mark.parametrize("case", ["usual", "groups", "depthwise", "depthwise, strides", "stride > kernel"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_number_that_is_not_finite_is_seen_where_it_reaches(case, bad):
    """Zeros of the padding meet only weights, so what is finite in the plain body is finite here."""
    x, w, g, attrs = prepared(case)
    x[1, 0, 2, 2] = bad
    g[0, 1, 1, 0] = bad
    check("conv", x, w, **attrs, **NEAR)
    check("conv_input_grad", g, w, size=x.shape[2:], **attrs, **NEAR)
    check("conv_weight_grad", x, g, kernel=w.shape[2:], **attrs, **NEAR, threads_agree=False)


def test_the_adjoints_are_adjoint():
    """<conv(x, w), g> = <x, input grad> = <w, weight grad>, in float64."""
    x, w, g, attrs = prepared("windows that leave elements over", "float64")
    y = run_kernel("conv", [x, w], attrs)[0]
    dx = run_kernel("conv_input_grad", [g, w], {**attrs, "size": x.shape[2:]})[0]
    dw = run_kernel("conv_weight_grad", [x, g], {**attrs, "kernel": w.shape[2:]})[0]
    np.testing.assert_allclose([(x * dx).sum(), (w * dw).sum()], (y * g).sum(), rtol=1e-12)
