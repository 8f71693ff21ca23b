"""Normalisations whose gradients compute again what they would otherwise read, where a backend has kernels for that.

The slope of an activation right after a batch normalisation follows from the normalisation's input: with one kernel for
both gradients nothing is written between them, and the activation's output is not read. A local response normalisation
need not hand its bases on, and its gradient knows the slope of the ReLU before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prototorch.backends.core import Backend
from prototorch.graph.passes.copies import adopt
from prototorch.graph.record import Node, Value
from prototorch.ops.activation import relu_grad
from prototorch.ops.norm import batch_norm, batch_norm_grad, lrn, lrn_grad
from prototorch.ops.norm_slope import FOLLOWS, batch_norm_slope_grad, lrn_alone, lrn_alone_grad


def slopes_within(nodes: Sequence[Node], wanted: Iterable[Value], backend: Backend) -> list[Node]:
    """The nodes, with such gradients of normalisations said as one op. Changes the nodes."""
    held = {id(v) for v in wanted}
    readers: dict[int, int] = {}
    for node in nodes:
        for v in node.inputs:
            readers[id(v)] = readers.get(id(v), 0) + 1
    _lrn_alone(nodes, held, readers, backend)
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


def _lrn_alone(nodes: Sequence[Node], held: set[int], readers: dict[int, int], backend: Backend) -> None:
    """Let response normalisations keep their bases to themselves."""
    grads: dict[int, list[Node]] = {}
    for node in nodes:
        if node.op is lrn_grad:
            grads.setdefault(id(node.inputs[2]), []).append(node)
    for node in nodes:
        if node.op is lrn:
            base, (x,) = node.outputs[1], node.inputs
            own = grads.get(id(base), [])
            known = readers.get(id(base), 0) == len(own) and id(base) not in held
            known = known and all(g.inputs[1] is x and g.attrs == node.attrs for g in own)
            if not (known and backend.accepts(lrn_alone, (x.spec,), (x.spec,), node.attrs)
                    and backend.accepts(lrn_alone_grad, (x.spec, x.spec), (x.spec,), node.attrs)):  # fmt: skip
                continue
            node.op, node.outputs = lrn_alone, node.outputs[:1]
            for g in own:
                g.op, g.inputs = lrn_alone_grad, g.inputs[:2]
        elif node.op is relu_grad:
            before, x = node.inputs[0].node, node.inputs[1]
            alone = readers[id(node.inputs[0])] == 1 and id(node.inputs[0]) not in held
            if before is not None and before.op is lrn_alone_grad and alone and before.inputs[1] is x:
                node.op, node.inputs, node.attrs = lrn_alone_grad, before.inputs, {**before.attrs, "slope": True}


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
