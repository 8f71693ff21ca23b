"""Native depthwise convolutions and their gradients against the plain bodies, over awkward shapes."""

import numpy as np
import pytest

native_check = pytest.importorskip("native_check", reason="no native level here", exc_type=ImportError)
streams = pytest.importorskip("prototorch.engine.backends.cpu.native.nontemporal", exc_type=ImportError)
check = native_check.check
LAST = native_check.CHANNELS_LAST

# size, kernel, strides, pads, dilation
CASES = {
    "mobilenet": ((12, 18), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1)),
    "mobilenet, stride 2": ((13, 23), (3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1)),
    "same, stride 2": ((8, 16), (3, 3), (2, 2), ((0, 1), (0, 1)), (1, 1)),
    "not padded": ((6, 9), (3, 2), (1, 1), ((0, 0), (0, 0)), (1, 1)),
    "efficientnet": ((9, 21), (5, 5), (1, 1), ((2, 2), (2, 2)), (1, 1)),
    "convnext": ((8, 20), (7, 7), (1, 1), ((3, 3), (3, 3)), (1, 1)),
    "wide": ((5, 30), (3, 13), (1, 1), ((1, 1), (6, 6)), (1, 1)),
    "dilated": ((9, 19), (3, 3), (1, 1), ((2, 2), (2, 2)), (2, 2)),
    "far": ((9, 40), (3, 3), (1, 1), ((18, 18), (18, 18)), (18, 18)),
    "asymmetric": ((7, 9), (3, 2), (2, 3), ((2, 1), (0, 1)), (1, 2)),
    "stride > kernel": ((11, 13), (2, 3), (5, 4), ((0, 0), (1, 0)), (1, 1)),
    "one place": ((5, 4), (1, 1), (2, 1), ((0, 0), (0, 0)), (1, 1)),
    "whole": ((7, 7), (7, 7), (1, 1), ((0, 0), (0, 0)), (1, 1)),
    "pads beyond": ((3, 2), (3, 3), (1, 1), ((4, 3), (4, 5)), (1, 1)),
    "one dimension": ((17,), (3,), (2,), ((1, 0),), (1,)),
    "three dimensions": ((5, 6, 11), (2, 3, 3), (1, 2, 2), ((1, 0), (1, 1), (0, 1)), (1, 1, 1)),
    "dilated in depth": ((6, 4, 9), (3, 2, 3), (2, 1, 1), ((2, 1), (0, 0), (1, 1)), (2, 1, 1)),
}
# float32 sums of at most 169 numbers; the weights' gradient sums up to 1000
SUMS = {"atol": 1e-5}


def prepared(case, channels, many=1, images=2):
    size, kernel, strides, pads, dilation = CASES[case]
    rng = np.random.default_rng(0)
    x = np.asarray(rng.normal(size=(images, channels, *size)), "float32")
    w = np.asarray(rng.normal(size=(channels * many, 1, *kernel)), "float32")
    return x, w, {"strides": strides, "pads": pads, "dilation": dilation, "groups": channels}


def taken_by(name, ins, outs, attrs):
    return native_check.prepared(name, ins, outs, attrs).family


@pytest.mark.parametrize(("channels", "many"), [(3, 1), (20, 1), (33, 1), (5, 2), (16, 3)])
@pytest.mark.parametrize("case", CASES)
def test_depthwise(bits, case, channels, many):
    x, w, attrs = prepared(case, channels, many)
    (y,) = check("conv", x, w, layouts=(LAST, None), out_layouts=(LAST,), **SUMS, **attrs)
    g = np.ascontiguousarray(y)
    check("conv_input_grad", g, w, layouts=(LAST, None), out_layouts=(LAST,), size=x.shape[2:], **SUMS, **attrs)
    check("conv_weight_grad", x, g, layouts=(LAST, LAST), out_layouts=(None,), kernel=w.shape[2:], **SUMS, **attrs)


@pytest.mark.parametrize("name", ["conv", "conv_input_grad", "conv_weight_grad"])
def test_depthwise_kernels_are_asked_first(name):
    x, w, attrs = prepared("mobilenet", 20)
    if name == "conv_weight_grad":
        arrays, layouts, attrs = (x, x), (LAST, LAST), {**attrs, "kernel": (3, 3)}
    else:
        arrays, layouts = (x, w), (LAST, None)
        attrs = attrs if name == "conv" else {**attrs, "size": x.shape[2:]}
    ins = native_check.specs_of(arrays, layouts)
    outs = native_check.outputs_of(name, ins, attrs, (None,) if name == "conv_weight_grad" else (LAST,))
    assert taken_by(name, ins, outs, attrs).startswith("depthwise")


@pytest.mark.parametrize("odd", [0, 8])
def test_results_past_the_caches(bits, monkeypatch, odd):
    monkeypatch.setattr(streams, "MIN_BYTES", 0)
    monkeypatch.setattr(native_check, "ODD", odd)  # arrays that begin at cache lines, and others
    for case in ("mobilenet", "mobilenet, stride 2"):
        x, w, attrs = prepared(case, 32)
        (y,) = check("conv", x, w, layouts=(LAST, None), out_layouts=(LAST,), **SUMS, **attrs)
        g = np.ascontiguousarray(y)
        check("conv_input_grad", g, w, layouts=(LAST, None), out_layouts=(LAST,), size=x.shape[2:], **SUMS, **attrs)


def test_images_that_are_asked_for_ahead():
    rng = np.random.default_rng(0)
    x = np.asarray(rng.normal(size=(1, 20, 60, 64)), "float32")
    w = np.asarray(rng.normal(size=(20, 1, 3, 3)), "float32")
    attrs = {"strides": (1, 1), "pads": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": 20}
    (y,) = check("conv", x, w, layouts=(LAST, None), out_layouts=(LAST,), **SUMS, **attrs)
    g = np.ascontiguousarray(y)
    check("conv_weight_grad", x, g, layouts=(LAST, LAST), out_layouts=(None,), kernel=(3, 3), **SUMS, **attrs)
