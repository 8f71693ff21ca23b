"""A factor and a shift for each channel right behind a batch normalization become its gamma and beta.

A normalization without gamma and beta and a `Scale` layer are then one op with one gradient, as a normalization that
has them. (In predictions also behind one that has; exact in real arithmetic, in float32 the last digits may differ.)
"""

from __future__ import annotations

from prototorch.graph.ir import Graph, Node, Value
from prototorch.graph.passes.context import PassContext
from prototorch.ops.elementwise import add, full, multiply
from prototorch.ops.norm import batch_norm, batch_norm_grad, batch_norm_inference
from prototorch.ops.scale_shift import scale_shift, scale_shift_grad

__all__ = ["fold_scale_shift"]


def fold_scale_shift(graph: Graph, context: PassContext) -> bool:
    """Fold each factor and shift that alone reads a normalization's output; its gradient may read that, too."""
    changed = False
    for node in graph:
        norm = node.inputs[0].producer if node.op is scale_shift else None
        if norm is None or norm.op not in (batch_norm, batch_norm_inference) or not _is_per_channel(norm, node):
            continue
        if norm.op is batch_norm_inference and graph.has_single_use(norm.outputs[0]):
            changed = _fold_inference(graph, norm, node)
        elif norm.op is batch_norm:
            changed |= _fold_training(graph, norm, node)
    return changed


def _is_per_channel(norm: Node, node: Node) -> bool:
    """Whether the factors are along the normalization's channels, known before it runs, and of its dtype."""
    x, scale = node.inputs[:2]
    if x is not norm.outputs[0]:
        return False
    axis = norm.attrs.get("axis", 1) % x.ndim
    same = all(v.producer is None and v.dtype == norm.inputs[1].dtype for v in node.inputs[1:])
    return scale.ndim == 1 and node.attrs["axis"] == axis and same


def _is_filled(value: Value, number: float) -> bool:
    """Whether a value is an array of one number."""
    node = value.producer
    return node is not None and node.op is full and node.attrs["value"] == number


def _fold_inference(graph: Graph, norm: Node, node: Node) -> bool:
    x, gamma, beta, mean, variance = norm.inputs
    scale, *shift = node.inputs[1:]
    with graph.insertion_point(node):
        new_gamma = scale if _is_filled(gamma, 1) else multiply(gamma, scale)
        new_beta = beta if _is_filled(beta, 0) else multiply(beta, scale)
        for value in shift:
            new_beta = value if _is_filled(beta, 0) else add(new_beta, value)
        y = batch_norm_inference(x, new_gamma, new_beta, mean, variance, **norm.attrs)
    graph.replace_all_uses(node.outputs[0], y)
    graph.erase(node)
    return True


def _fold_training(graph: Graph, norm: Node, node: Node) -> bool:
    """The normalization, and with it the gradients of both, if there are gradients."""
    x, gamma, beta = norm.inputs
    y = norm.outputs[0]
    if not (_is_filled(gamma, 1) and _is_filled(beta, 0)) or graph.is_result(y):
        return False
    grads = [user for user in y.users if user is not node]
    if sum(y.users.values()) != 1 + len(grads) or len(grads) > 1:
        return False
    scale, *shift = node.inputs[1:]
    if grads and not _fold_gradient(graph, norm, grads[0], scale):
        return False
    outputs = (node.outputs[0], *norm.outputs[1:])
    graph.erase(node)
    graph.replace_node(
        norm, Node(norm.op, (x, scale, *(shift or (beta,))), norm.attrs, outputs, norm.scope, norm.phase)
    )
    return True


def _fold_gradient(graph: Graph, norm: Node, grad: Node, scale: Value) -> bool:
    """Put one gradient in the place of those of the factor and of the normalization; False where they are not that."""
    if grad.op is not scale_shift_grad or grad.inputs[1] is not norm.outputs[0] or grad.inputs[2] is not scale:
        return False
    dy, dscale, dshift = grad.outputs
    behind = next(iter(dy.users), None)
    if behind is not None and (not graph.has_single_use(dy) or not _is_gradient_of(graph, behind, norm, dy)):
        return False
    if graph.is_result(dy):
        return False
    g, (mean, variance) = grad.inputs[0], norm.outputs[1:]
    with graph.insertion_point(grad):
        dx, dgamma, dbeta = batch_norm_grad(g, norm.inputs[0], scale, mean, variance, **norm.attrs)
    if behind is not None:
        graph.replace_all_uses(behind.outputs[0], dx)
        graph.erase(behind)
    graph.replace_all_uses(dscale, dgamma)
    graph.replace_all_uses(dshift, dbeta)
    graph.erase(grad)
    return True


def _is_gradient_of(graph: Graph, node: Node, norm: Node, g: Value) -> bool:
    """Whether a node is the gradient of a normalization for the gradient g, of which only that of x is read."""
    if node.op is not batch_norm_grad or node.attrs != norm.attrs:
        return False
    expected = (g, *norm.inputs[:2], *norm.outputs[1:])
    unread = not any(v.users or graph.is_result(v) for v in node.outputs[1:])
    return unread and all(a is b for a, b in zip(node.inputs, expected, strict=True))
