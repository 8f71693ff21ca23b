"""Normalizations whose gradients compute again what they would otherwise read, where a backend has kernels for that.

The derivative of an activation right after a batch normalization follows from the input of the normalization: with one
kernel for both gradients nothing is written between them, and the activation's output is not read. A local response
normalization need not save its bases, and its gradient knows the derivative of the ReLU before it.
"""

from __future__ import annotations

from prototorch.engine.backends.core import Backend
from prototorch.graph.ir import Graph, Node
from prototorch.graph.passes.context import PassContext
from prototorch.ops.activation import relu_grad
from prototorch.ops.norm import batch_norm, batch_norm_grad, lrn, lrn_grad
from prototorch.ops.norm_recompute import ACTIVATION_OF_GRAD, batch_norm_relu_grad, lrn_recompute, lrn_recompute_grad

__all__ = ["fuse_norm_activation_gradient"]


def fuse_norm_activation_gradient(graph: Graph, context: PassContext) -> bool:
    """Put one op in the place of such gradients of normalizations."""
    changed = _recompute_lrn(graph, context.kernels)
    for node in graph:
        source = node.inputs[0].producer if node.op is batch_norm_grad else None
        if source is None or source.op.name not in ACTIVATION_OF_GRAD:
            continue
        norm = _find_batch_norm(source, node)
        if norm is None or not graph.has_single_use(source.outputs[0]):
            continue
        g, _ = source.inputs
        _, x, gamma, mean, variance = node.inputs
        inputs = (g, x, gamma, norm.inputs[2], mean, variance)
        attrs = {**node.attrs, "activation_grad": source.op.name}
        new = Node(batch_norm_relu_grad, inputs, attrs, node.outputs, node.scope, node.phase)
        if context.kernels.has_kernel(new.op, new.input_specs, new.output_specs, attrs):
            graph.replace_node(node, new)
            changed = True
    return changed


def _recompute_lrn(graph: Graph, backend: Backend) -> bool:
    """Let response normalizations not save their bases."""
    changed = False
    for node in graph:
        if node.op is lrn:
            changed |= _replace_lrn(graph, node, backend)
        elif node.op is relu_grad:
            source, y = node.inputs[0].producer, node.inputs[1]
            if source is None or source.op is not lrn_recompute_grad or source.inputs[1] is not y:
                continue
            if graph.has_single_use(node.inputs[0]):
                attrs = {**source.attrs, "through_relu": True}
                new = Node(lrn_recompute_grad, source.inputs, attrs, node.outputs, node.scope, node.phase)
                graph.replace_node(node, new)
                changed = True
    return changed


def _replace_lrn(graph: Graph, node: Node, backend: Backend) -> bool:
    """Replace a response normalization and its gradients where nothing else reads its bases."""
    y, base = node.outputs
    (x,) = node.inputs
    grads = [user for user in base.users if user.op is lrn_grad and user.inputs[2] is base]
    if graph.is_result(base) or sum(base.users.values()) != len(grads):
        return False
    if not all(g.inputs[1] is x and g.attrs == node.attrs for g in grads):
        return False
    if not (
        backend.has_kernel(lrn_recompute, (x.spec,), (x.spec,), node.attrs)
        and backend.has_kernel(lrn_recompute_grad, (x.spec, x.spec), (x.spec,), node.attrs)
    ):
        return False
    for g in grads:
        graph.replace_node(g, Node(lrn_recompute_grad, g.inputs[:2], g.attrs, g.outputs, g.scope, g.phase))
    graph.replace_node(node, Node(lrn_recompute, node.inputs, node.attrs, (y,), node.scope, node.phase))
    return True


def _find_batch_norm(activation_grad: Node, grad: Node) -> Node | None:
    """The normalization whose output alone the activation reads, if it is the one that the gradient is of."""
    activation = activation_grad.inputs[1].producer
    if activation is None or activation.op is not ACTIVATION_OF_GRAD[activation_grad.op.name][1]:
        return None
    norm = activation.inputs[0].producer
    if norm is None or norm.op is not batch_norm or activation.inputs[0] is not norm.outputs[0]:
        return None
    _, x, gamma, mean, variance = grad.inputs
    pairs = zip((*norm.inputs[:2], *norm.outputs[1:]), (x, gamma, mean, variance), strict=True)
    return norm if all(a is b for a, b in pairs) and norm.attrs == grad.attrs else None
