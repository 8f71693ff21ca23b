"""Batch normalisation with known statistics right after a convolution becomes part of its weights.

conv(x, w) * scale + shift = conv(x, w * scale) + shift: what runs over all pictures is then a convolution and a bias,
and the small products are of the weights alone. (In exact arithmetic; in float32 the last places may differ.)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from prototorch.graph.ir import Node, Value
from prototorch.graph.passes.clone_graph import set_producer
from prototorch.ops.conv import conv
from prototorch.ops.core import Op
from prototorch.ops.elementwise import add, cast, multiply, rsqrt, subtract
from prototorch.ops.norm import batch_norm_inference
from prototorch.ops.shape import reshape
from prototorch.spec import Spec


def fold_batch_norm(nodes: Sequence[Node], live_out: Iterable[Value]) -> list[Node]:
    """The nodes, with each convolution that nothing but such a normalisation reads in its place."""
    held = {id(v) for v in live_out}
    readers: dict[int, int] = {}
    for node in nodes:
        for v in node.inputs:
            readers[id(v)] = readers.get(id(v), 0) + 1

    def source(value: Value, op: Op) -> Node | None:
        """The node that makes a value for one reader alone, if it is of the op."""
        one = readers.get(id(value)) == 1 and id(value) not in held
        return value.node if one and value.node is not None and value.node.op is op else None

    gone: set[int] = set()
    made: list[Node] = []
    for node in nodes:
        if node.op is not batch_norm_inference or node.attrs.get("axis", 1) != 1:
            made.append(node)
            continue
        plus = source(node.inputs[0], add)
        bias = None if plus is None else _bias_of(plus)
        first = source(node.inputs[0] if bias is None or plus is None else plus.inputs[0], conv)
        if first is None:
            made.append(node)
            continue
        gone.update({id(first)} if bias is None else {id(first), id(plus)})
        made += _folded_nodes(first, bias, node)
    return [node for node in made if id(node) not in gone]


def _bias_of(node: Node) -> Value | None:
    """What an addition adds to each channel, [1, C, 1, ...], if it is that."""
    x, b = node.inputs
    per_channel = b.shape == tuple(n if i == 1 else 1 for i, n in enumerate(x.shape))
    return b if per_channel and x.shape == node.outputs[0].shape else None


def _folded_nodes(first: Node, bias: Value | None, norm: Node) -> list[Node]:
    """The convolution with the normalisation in its weights. Its last node gives the normalisation's output."""
    made: list[Node] = []

    def say(op: Op, *inputs: Value, **attrs: object) -> Value:
        spec = op.infer_spec(*(v.spec for v in inputs), **attrs)
        assert not isinstance(spec, tuple)
        value = Value(norm.outputs[0].interpreter, spec, "node")
        made.append(Node(op, inputs, dict(attrs), (value,), norm.scope, norm.phase))
        set_producer(made[-1])
        return value

    def of_type(value: Value, dtype: str) -> Value:
        return value if value.dtype == dtype else say(cast, value, dtype=dtype)

    x, w = first.inputs
    _, gamma, beta, mean, variance = norm.inputs
    wide = variance.dtype  # the statistics' type: float32 also where pictures and weights have fewer bits
    eps = Value(x.interpreter, Spec((), variance.dtype), "constant",
                array=np.asarray(norm.attrs["eps"], variance.dtype))  # fmt: skip
    scale = say(multiply, say(rsqrt, say(add, variance, eps)), gamma)
    across = (1, -1, *(1,) * (x.ndim - 2))
    shift = say(reshape, say(subtract, beta, say(multiply, mean, scale)), shape=across)
    if bias is not None:
        shift = say(add, say(multiply, of_type(bias, wide), say(reshape, scale, shape=across)), shift)
    scaled = say(multiply, of_type(w, wide), say(reshape, scale, shape=(-1, *(1,) * (w.ndim - 1))))
    scaled, shift = of_type(scaled, w.dtype), of_type(shift, x.dtype)
    say(add, say(conv, x, scaled, **first.attrs), shift)
    made[-2].scope = first.scope
    made[-1].outputs = norm.outputs
    set_producer(made[-1])
    return made
