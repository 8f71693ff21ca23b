"""The slope of an activation right after a batch normalisation follows from the normalisation's input: where a backend
has a kernel for both gradients together, nothing is written between them, and the activation's output is not read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prototorch.backends.core import Backend
from prototorch.graph.passes.copies import adopt
from prototorch.graph.record import Node, Value
from prototorch.ops.norm import batch_norm, batch_norm_grad
from prototorch.ops.norm_slope import FOLLOWS, batch_norm_slope_grad


def slopes_within(nodes: Sequence[Node], wanted: Iterable[Value], backend: Backend) -> list[Node]:
    """The nodes, with such gradients of normalisations said as one op. Changes the nodes."""
    held = {id(v) for v in wanted}
    readers: dict[int, int] = {}
    for node in nodes:
        for v in node.inputs:
            readers[id(v)] = readers.get(id(v), 0) + 1
    for node in nodes:
        slope = node.inputs[0].node if node.op is batch_norm_grad else None
        if slope is None or slope.op.name not in FOLLOWS:
            continue
        alone = readers[id(slope.outputs[0])] == 1 and id(slope.outputs[0]) not in held
        norm = _normalisation(slope, node)
        if not alone or norm is None:
            continue
        g, _ = slope.inputs
        _, x, gamma, mean, variance = node.inputs
        inputs = (g, x, gamma, norm.inputs[2], mean, variance)
        attrs = {**node.attrs, "slope": slope.op.name}
        specs = tuple(v.spec for v in inputs), tuple(v.spec for v in node.outputs)
        if backend.accepts(batch_norm_slope_grad, *specs, attrs):
            node.op, node.inputs, node.attrs = batch_norm_slope_grad, inputs, attrs
            adopt(node)
    return list(nodes)


def _normalisation(slope: Node, grad: Node) -> Node | None:
    """The normalisation whose output alone the activation was given, if it is the one that the gradient is of."""
    activation = slope.inputs[1].node
    if activation is None or activation.op is not FOLLOWS[slope.op.name][1]:
        return None
    norm = activation.inputs[0].node
    if norm is None or norm.op is not batch_norm or activation.inputs[0] is not norm.outputs[0]:
        return None
    _, x, gamma, mean, variance = grad.inputs
    pairs = zip((*norm.inputs[:2], *norm.outputs[1:]), (x, gamma, mean, variance), strict=True)
    return norm if all(a is b for a, b in pairs) and norm.attrs == grad.attrs else None
