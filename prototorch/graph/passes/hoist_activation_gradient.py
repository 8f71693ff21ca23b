"""The derivative of an activation is applied where its gradient is small.

Through a maximum pooling a gradient is the pooled one, put where each window's largest element was. The derivative of
the activation before it is needed there alone, where the activation's value is the pooled value itself: so the
derivative is applied before the gradient is spread out, the activation's full output need not be saved for it, and sums
over all pixels are taken before as well. In the same way the output of a dropout tells the derivative wherever the
dropout passes anything.
"""

from __future__ import annotations

from prototorch.graph.ir import Graph, Node, Value
from prototorch.graph.passes.context import PassContext
from prototorch.ops.activation import ActivationGrad
from prototorch.ops.pool import max_pool, max_pool_grad
from prototorch.ops.random import dropout
from prototorch.ops.reduce import normalize_axes, sum_

__all__ = ["hoist_activation_gradient"]


def hoist_activation_gradient(graph: Graph, context: PassContext) -> bool:
    """Exchange such gradients with the pooling's, and let the others read the smaller or the later value."""
    nodes = graph.nodes
    dropout_outputs: dict[tuple[object, ...], Value] = {}
    for node in nodes:
        if node.op is dropout:
            dropout_outputs.setdefault(_dropout_key(node, node.inputs[0]), node.outputs[0])
    changed = False
    for node in nodes:
        source = node.inputs[0].producer if node.inputs else None
        if source is None:
            continue
        op = node.op if isinstance(node.op, ActivationGrad) else None
        reads_output, reads_sign = (False, False) if op is None else (op.reads_output, op.reads_sign)
        if reads_output and source.op is max_pool_grad and _is_gradient_of_pool(source, node):
            if graph.has_single_use(node.inputs[0]):
                _exchange(graph, source, node)
                changed = True
        elif reads_sign and source.op is dropout:
            output = dropout_outputs.get(_dropout_key(source, node.inputs[1]))
            if output is not None:
                graph.set_inputs(node, (node.inputs[0], output))
                changed = True
        elif node.op is sum_ and source.op is max_pool_grad:
            ndim = node.inputs[0].ndim
            if set(range(2, ndim)) <= set(normalize_axes(node.attrs.get("axis"), ndim)):
                graph.set_inputs(node, (source.inputs[0],))
                changed = True
    return changed


def _dropout_key(node: Node, x: Value) -> tuple[object, ...]:
    """The mask of a dropout, and what it is applied to."""
    return x, node.inputs[1], tuple(sorted(node.attrs.items()))


def _is_gradient_of_pool(pool_grad: Node, gradient: Node) -> bool:
    """Whether a gradient is spread out by the pooling of the very value that the activation's gradient reads."""
    pool = pool_grad.inputs[1].producer
    attrs = {k: v for k, v in pool_grad.attrs.items() if k != "size"}
    return pool is not None and pool.op is max_pool and pool.inputs[0] is gradient.inputs[1] and pool.attrs == attrs


def _exchange(graph: Graph, pool_grad: Node, gradient: Node) -> None:
    """gradient(spread(g), y) becomes spread(gradient(g, pooled y)); each takes the place of the other."""
    g, index = pool_grad.inputs
    assert index.producer is not None
    small = Value(graph, g.spec)
    inputs = (small, index)
    graph.replace_node(
        gradient, Node(pool_grad.op, inputs, pool_grad.attrs, gradient.outputs, pool_grad.scope, pool_grad.phase)
    )
    inputs = (g, index.producer.outputs[0])
    graph.replace_node(pool_grad, Node(gradient.op, inputs, gradient.attrs, (small,), gradient.scope, gradient.phase))
