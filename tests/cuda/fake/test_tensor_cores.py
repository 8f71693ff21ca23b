"""Which graphs must run on tensor cores."""

from __future__ import annotations

import pytest

from prototorch.cuda.cudnn.graph_desc import GraphDesc, tensor_desc
from prototorch.cuda.cudnn.tensor_cores import needs_tensor_cores
from prototorch.spec import Spec


def convolution(x, w, dtype="bfloat16", kind="conv"):
    y = (x[0], w[0], *x[2:])
    names = {"conv": (("x", x), ("w", w), ("y", y)), "conv_weight_grad": (("x", x), ("g", y), ("dw", w))}[kind]
    return GraphDesc(kind, tuple((n, tensor_desc(Spec(s, dtype))) for n, s in names), (names[-1][0],))


@pytest.mark.parametrize(
    ("desc", "expected"),
    [
        (convolution((256, 64, 56, 56), (64, 64, 3, 3)), True),
        (convolution((256, 64, 56, 56), (64, 64, 3, 3), kind="conv_weight_grad"), True),
        (convolution((256, 384, 13, 13), (256, 192, 3, 3)), True),
        (convolution((256, 3, 224, 224), (64, 3, 7, 7)), False),
        (convolution((256, 96, 56, 56), (96, 1, 3, 3)), False),
        (convolution((1, 16, 8, 8), (16, 16, 3, 3)), False),
        (convolution((256, 64, 56, 56), (64, 64, 3, 3), "float32"), False),
        (GraphDesc("matmul", (("a", tensor_desc(Spec((1, 4096, 4096), "float16"))),), ()), False),
    ],
    ids=["conv", "weight grad", "groups", "three channels", "depthwise", "small", "float32", "product"],
)
def test_large_convolutions_of_16_bit_values_with_enough_channels(desc, expected):
    assert needs_tensor_cores(desc) is expected


def test_operations_of_a_graph():
    assert convolution((2, 8, 4, 4), (16, 8, 3, 3)).flops == 2 * (2 * 16 * 4 * 4) * (8 * 3 * 3)
    assert convolution((2, 8, 4, 4), (16, 8, 3, 3), kind="conv_weight_grad").flops == 2 * (2 * 16 * 4 * 4) * (8 * 3 * 3)
    product = {"a": (3, 4, 5), "b": (3, 5, 6), "y": (3, 4, 6)}
    desc = GraphDesc("matmul", tuple((n, tensor_desc(Spec(s, "float32"))) for n, s in product.items()), ("y",))
    assert desc.flops == 2 * 3 * 4 * 5 * 6
