"""Gradients that are zero nearly everywhere are worked on while they are small.

Through a maximum pooling a gradient is the pooled one, put where each window's largest element was. The slope of the
activation before it is needed there alone, where the activation's value is the pooled value itself: so the slope is
taken before the gradient is spread out, the activation's full output need not be kept for it, and sums over all places
are taken before as well. In the same way what dropout gives tells the slope wherever dropout lets anything through.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prototorch.graph.ir import Node, Value
from prototorch.graph.passes.clone_graph import set_producer
from prototorch.ops.activation import leaky_relu_grad, relu6_grad, relu_grad
from prototorch.ops.pool import max_pool, max_pool_grad
from prototorch.ops.random import dropout
from prototorch.ops.reduce import normalize_axes, sum_

#: gradients g * slope(y), y being the activation's output
_ACTIVATION_GRADIENTS = (relu_grad, relu6_grad, leaky_relu_grad)
#: of these, those whose slope follows from the sign, which a dropout's factor leaves as it is
_SIGN_GRADIENTS = (relu_grad, leaky_relu_grad)


def hoist_activation_gradient(nodes: Sequence[Node], live_out: Iterable[Value]) -> list[Node]:
    """The nodes in another order, some with other inputs."""
    made = list(nodes)
    held = {id(v) for v in live_out}
    readers: dict[int, int] = {}
    dropped: dict[tuple[object, ...], Value] = {}
    place = {id(node): i for i, node in enumerate(made)}
    for node in made:
        for v in node.inputs:
            readers[id(v)] = readers.get(id(v), 0) + 1
        if node.op is dropout:
            dropped.setdefault(_dropout_key(node, node.inputs[0]), node.outputs[0])
    for node in nodes:
        source = node.inputs[0].node if node.inputs else None
        if source is None:
            continue
        if (
            node.op in _ACTIVATION_GRADIENTS
            and source.op is max_pool_grad
            and _is_gradient_of_pool(source, node.inputs[1])
        ):
            if readers[id(node.inputs[0])] == 1 and id(node.inputs[0]) not in held:
                i, j = place[id(source)], place[id(node)]
                made[i], made[j] = node, source
                place[id(node)], place[id(source)] = i, j
                _swap(source, node)
        elif node.op in _SIGN_GRADIENTS and source.op is dropout:
            seen = dropped.get(_dropout_key(source, node.inputs[1]))
            node.inputs = node.inputs if seen is None else (node.inputs[0], seen)
        elif node.op is sum_ and source.op is max_pool_grad:
            ndim = node.inputs[0].ndim
            if set(range(2, ndim)) <= set(normalize_axes(node.attrs.get("axis"), ndim)):
                node.inputs = (source.inputs[0],)
    return made


def _dropout_key(node: Node, x: Value) -> tuple[object, ...]:
    """A dropout's mask, and what it is applied to."""
    return id(x), id(node.inputs[1]), tuple(sorted(node.attrs.items()))


def _is_gradient_of_pool(spread: Node, y: Value) -> bool:
    """Whether a gradient is spread out by the pooling of this very value."""
    pool = spread.inputs[1].node
    attrs = {k: v for k, v in spread.attrs.items() if k != "size"}
    return pool is not None and pool.op is max_pool and pool.inputs[0] is y and pool.attrs == attrs


def _swap(spread: Node, slope: Node) -> None:
    """slope(spread(g), y) becomes spread(slope(g, pooled y))."""
    g, number = spread.inputs
    assert number.node is not None
    small = Value(g.interpreter, g.spec, "node")
    slope.inputs = (g, number.node.outputs[0])
    spread.inputs = (small, number)
    spread.outputs, slope.outputs = slope.outputs, (small,)
    set_producer(spread)
    set_producer(slope)
