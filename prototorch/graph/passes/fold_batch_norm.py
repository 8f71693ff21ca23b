"""Batch normalization with known statistics right after a convolution is folded into the weights of the convolution.

conv(x, w) * scale + shift = conv(x, w * scale) + shift: over the images there run only a convolution and a bias, and
the small products are of the weights alone. (Exact in real arithmetic; in float32 the last digits may differ.)
"""

from __future__ import annotations

import numpy as np

from prototorch.graph.ir import Graph, Node, Value
from prototorch.graph.passes.context import PassContext
from prototorch.ops.conv import conv
from prototorch.ops.core import Op
from prototorch.ops.elementwise import add, cast, multiply, rsqrt, subtract
from prototorch.ops.norm import batch_norm_inference
from prototorch.ops.shape import reshape

__all__ = ["fold_batch_norm"]


def fold_batch_norm(graph: Graph, context: PassContext) -> bool:
    """Fold each normalization that alone reads a convolution (or that plus a bias)."""
    changed = False
    for node in graph.nodes:
        if node.op is not batch_norm_inference or node.attrs.get("axis", 1) != 1:
            continue
        addition = _only_source(graph, node.inputs[0], add)
        bias = None if addition is None else _channel_bias(addition)
        convolved = node.inputs[0] if bias is None or addition is None else addition.inputs[0]
        convolution = _only_source(graph, convolved, conv)
        if convolution is not None:
            graph.replace_all_uses(node.outputs[0], _fold(graph, convolution, bias, node))
            graph.erase(node)
            changed = True
    return changed


def _only_source(graph: Graph, value: Value, op: Op) -> Node | None:
    """The node that defines a value for one reader alone, if it applies this op."""
    node = value.producer
    return node if node is not None and node.op is op and graph.has_single_use(value) else None


def _channel_bias(node: Node) -> Value | None:
    """What an addition adds to each channel, [1, C, 1, ...] or [C, 1, ...], if it is that."""
    x, b = node.inputs
    expected = tuple(n if i == 1 else 1 for i, n in enumerate(x.shape))
    per_channel = b.shape in (expected, expected[1:])
    return b if per_channel and x.shape == node.outputs[0].shape else None


def _fold(graph: Graph, convolution: Node, bias: Value | None, norm: Node) -> Value:
    """The output of the convolution with the normalization in its weights."""

    def as_dtype(value: Value, dtype: str) -> Value:
        return value if value.dtype == dtype else cast(value, dtype=dtype)

    x, w = convolution.inputs
    _, gamma, beta, mean, variance = norm.inputs
    wide = variance.dtype  # of the statistics: float32 also where images and weights have fewer bits
    channels = (1, -1, *(1,) * (x.ndim - 2))
    with graph.insertion_point(norm):
        eps = graph.constant(np.asarray(norm.attrs["eps"], wide))
        scale = multiply(rsqrt(add(variance, eps)), gamma)
        shift = reshape(subtract(beta, multiply(mean, scale)), shape=channels)
        if bias is not None:
            shift = add(multiply(as_dtype(bias, wide), reshape(scale, shape=channels)), shift)
        scaled_weights = multiply(as_dtype(w, wide), reshape(scale, shape=(-1, *(1,) * (w.ndim - 1))))
        scaled_weights, shift = as_dtype(scaled_weights, w.dtype), as_dtype(shift, x.dtype)
        with graph.scope(convolution.scope):
            y = conv(x, scaled_weights, **convolution.attrs)
        return add(y, shift)
