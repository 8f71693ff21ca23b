"""Native convolutions and matrix products against the plain bodies, over awkward shapes; direct and by Winograd."""

import numpy as np
import pytest

native_check = pytest.importorskip("native_check", reason="no native level here", exc_type=ImportError)
streams = pytest.importorskip("prototorch.engine.backends.cpu.native.nontemporal", exc_type=ImportError)
check = native_check.check
LAST = "channels_last"
#: float32 sums of up to some thousand products, relative to the largest
CLOSE = 5e-6
#: the change of basis multiplies and subtracts numbers of different sizes (up to 21 to 1 for windows of 3, 85 to 1 for
#: 5)
WINOGRAD = {3: 1e-4, 5: 4e-4}

# images, channels, size, filters, kernel, strides, pads, dilation, groups
CASES = {
    "lenet": (2, 1, (12, 11), 20, (5, 5), (1, 1), ((0, 0), (0, 0)), (1, 1), 1),
    "first of alexnet": (1, 3, (31, 29), 37, (11, 11), (4, 4), ((0, 0), (2, 1)), (1, 1), 1),
    "groups": (2, 6, (9, 7), 10, (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 2),
    "resnet": (2, 16, (14, 14), 33, (3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1), 1),
    "pointwise": (3, 17, (7, 7), 50, (1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1), 1),
    "pointwise, stride 2": (1, 8, (9, 8), 5, (1, 1), (2, 2), ((0, 0), (0, 0)), (1, 1), 1),
    "dilated": (1, 4, (13, 12), 3, (3, 2), (1, 2), ((2, 3), (0, 1)), (2, 3), 1),
    "dilated and strided": (1, 2, (15, 14), 4, (3, 3), (2, 4), ((3, 2), (1, 4)), (3, 2), 1),
    "stride > kernel": (1, 3, (11, 13), 4, (2, 2), (3, 5), ((0, 0), (1, 0)), (1, 1), 1),
    "wide padding": (1, 2, (3, 4), 3, (3, 3), (1, 1), ((4, 3), (5, 2)), (1, 1), 1),
    "one row": (2, 5, (1, 40), 9, (1, 7), (1, 1), ((0, 0), (3, 3)), (1, 1), 1),
    "one column": (2, 5, (40, 1), 9, (7, 1), (1, 1), ((3, 3), (0, 0)), (1, 1), 1),
    "one place": (1, 3, (5, 4), 2, (5, 4), (1, 1), ((0, 0), (0, 0)), (1, 1), 1),
    "one dimension": (2, 3, (19,), 8, (4,), (3,), ((3, 0),), (1,), 1),
    "three dimensions": (1, 2, (5, 6, 7), 5, (2, 3, 3), (1, 2, 1), ((1, 0), (1, 1), (1, 1)), (1, 1, 2), 1),
    "crowded": (1, 1024, (2, 20), 16, (1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1), 1),
    "crowded, padded": (1, 1024, (2, 18), 8, (2, 3), (1, 1), ((1, 0), (1, 1)), (1, 1), 1),
    "crowded, stride 2": (2, 512, (3, 40), 9, (1, 1), (2, 2), ((0, 0), (0, 0)), (1, 1), 1),
    "many filters": (1, 20, (6, 6), 130, (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
}


def arrays(case):
    n, channels, size, filters, kernel, strides, pads, dilation, groups = case
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, channels, *size)).astype("float32")
    w = rng.normal(size=(filters, channels // groups, *kernel)).astype("float32")
    out = [
        (s + sum(p) - d * (k - 1) - 1) // t + 1
        for s, p, d, k, t in zip(size, pads, dilation, kernel, strides, strict=True)
    ]
    dy = rng.normal(size=(n, filters, *out)).astype("float32")
    return x, w, dy, {"strides": strides, "pads": pads, "dilation": dilation, "groups": groups}


@pytest.mark.parametrize("name", CASES)
def test_convolution_and_its_gradients(bits, name):
    x, w, dy, attrs = arrays(CASES[name])
    check("conv", x, w, layouts=[LAST, None], atol=CLOSE, **attrs)
    check("conv_input_grad", dy, w, layouts=[LAST, None], atol=CLOSE, size=x.shape[2:], **attrs)
    check("conv_weight_grad", x, dy, layouts=[LAST, LAST], out_layouts=[None], atol=CLOSE, kernel=w.shape[2:], **attrs)


WINOGRAD_CASES = {
    "near": (20, 32, (15, 13), 40, 3, (1, 1), (1, 1), 1),
    "far": (16, 96, (9, 10), 224, 3, (1, 1), (1, 1), 1),
    "far, unpadded": (12, 160, (13, 13), 176, 3, (0, 0), (0, 0), 1),
    "groups": (16, 64, (12, 12), 96, 3, (2, 2), (1, 0), 2),
    "five": (16, 20, (12, 12), 50, 5, (0, 0), (2, 1), 1),
    "five, groups": (8, 64, (11, 9), 64, 5, (2, 2), (2, 2), 2),
}


@pytest.mark.parametrize("name", WINOGRAD_CASES)
def test_winograd(bits, name):
    n, channels, size, filters, side, low, high, groups = WINOGRAD_CASES[name]
    pads = tuple(zip(low, high, strict=True))
    case = (n, channels, size, filters, (side, side), (1, 1), pads, (1, 1), groups)
    x, w, dy, attrs = arrays(case)
    close = WINOGRAD[side]
    check("conv", x, w, layouts=[LAST, None], atol=close, level="winograd", **attrs)
    check("conv_input_grad", dy, w, layouts=[LAST, None], atol=close, level="winograd", size=size, **attrs)
    weights = native_check.specs_of((x, dy), [LAST, LAST])
    out = native_check.outputs_of("conv_weight_grad", weights, {**attrs, "kernel": (side, side)}, [None])
    if (
        native_check.prepared("conv_weight_grad", weights, out, {**attrs, "kernel": (side, side)}, "winograd")
        is not None
    ):
        check(
            "conv_weight_grad",
            x,
            dy,
            layouts=[LAST, LAST],
            out_layouts=[None],
            atol=close,
            level="winograd",
            kernel=(side, side),
            **attrs,
        )


@pytest.mark.parametrize("level", ["native", "winograd"])
def test_a_convolution_with_bias_residual_and_activation(bits, level):
    x, w, dy, attrs = arrays((16, 32, (13, 12), 40, (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1))
    bias = np.random.default_rng(1).normal(size=(40, 1, 1)).astype("float32")
    program = (
        ("conv", (("in", 0), ("in", 1)), tuple(sorted(attrs.items()))),
        ("add", (("node", 0, 0), ("in", 2)), ()),
        ("add", (("node", 1, 0), ("in", 3)), ()),
        ("relu", (("node", 2, 0),), ()),
    )
    check("fused", x, w, bias, dy, layouts=[LAST, None, None, LAST], atol=WINOGRAD[3], level=level, program=program,
          outputs=(("node", 3, 0), ("node", 2, 0)), inplace=((0, 3),))  # fmt: skip


# a, b, transpose_a, transpose_b
PRODUCTS = {
    "one": ((1, 1), (1, 1), False, False),
    "row": ((1, 70), (70, 33), False, False),
    "dense": ((33, 65), (65, 50), False, False),
    "deep": ((17, 1100), (1100, 20), False, False),
    "several rows of matrices": ((3, 5, 7), (7, 9), False, False),
    "batch": ((3, 5, 70), (3, 70, 9), False, False),
    "batch, a turned": ((3, 70, 5), (3, 70, 9), True, False),
    "weights' gradient": ((64, 33), (64, 50), True, False),
    "inputs' gradient": ((65, 300), (50, 300), False, True),
    "batch, b turned": ((3, 65, 30), (3, 33, 30), False, True),
    "many rows": ((700, 20), (20, 40), False, False),
    "many columns": ((3, 9), (9, 900), False, False),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_matrix_products(bits, name):
    shape_a, shape_b, transpose_a, transpose_b = PRODUCTS[name]
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=shape).astype("float32") for shape in (shape_a, shape_b))
    check("matmul", a, b, atol=CLOSE, transpose_a=transpose_a, transpose_b=transpose_b)


def test_a_product_with_bias_and_activation_and_one_with_an_update(bits):
    rng = np.random.default_rng(0)
    x, w, bias, g = (rng.normal(size=s).astype("float32") for s in ((20, 300), (300, 50), (50,), (20, 50)))
    program = (
        ("matmul", (("in", 0), ("in", 1)), ()),
        ("add", (("node", 0, 0), ("in", 2)), ()),
        ("gelu", (("node", 1, 0),), ()),
    )
    check("fused", x, w, bias, atol=CLOSE, program=program, outputs=(("node", 2, 0),), inplace=())
    rate, step, slot = np.float32(0.1).reshape(()), np.array(1), rng.normal(size=w.shape).astype("float32")
    program = (
        ("matmul", (("in", 0), ("in", 1)), (("transpose_a", True),)),
        ("momentum_update", (("in", 2), ("node", 0, 0), ("in", 3), ("in", 4), ("in", 5)), (("momentum", 0.9),)),
    )
    check("fused", x, g, w, rate, step, slot, layouts=[None] * 6, out_layouts=[None] * 2, atol=CLOSE, program=program,
          outputs=(("node", 1, 0), ("node", 1, 1)), inplace=((0, 2), (1, 5)))  # fmt: skip


@pytest.mark.parametrize("level", ["native", "winograd"])
@pytest.mark.parametrize("odd", [0, 8])
def test_results_past_the_caches(bits, monkeypatch, odd, level):
    monkeypatch.setattr(streams, "MIN_BYTES", 0)
    monkeypatch.setattr(native_check, "ODD", odd)  # arrays that begin at cache lines, and others
    for stride in (1, 2) if level == "native" else (1,):
        x, w, dy, attrs = arrays((16, 32, (13, 12), 64, (3, 3), (stride, stride), ((1, 1), (1, 1)), (1, 1), 1))
        own = {"layouts": [LAST, None], "atol": WINOGRAD[3], "level": level}
        check("conv", x, w, **own, **attrs)
        check("conv_input_grad", dy, w, size=x.shape[2:], **own, **attrs)
