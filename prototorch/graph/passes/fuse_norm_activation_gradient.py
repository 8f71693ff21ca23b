"""Normalisations whose gradients compute again what they would otherwise read, where a backend has kernels for that.

The slope of an activation right after a batch normalisation follows from the normalisation's input: with one kernel for
both gradients nothing is written between them, and the activation's output is not read. A local response normalisation
need not hand its bases on, and its gradient knows the slope of the ReLU before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prototorch.backends.core import Backend
from prototorch.graph.ir import Node, Value
from prototorch.graph.passes.clone_graph import set_producer
from prototorch.ops.activation import relu_grad
from prototorch.ops.norm import batch_norm, batch_norm_grad, lrn, lrn_grad
from prototorch.ops.norm_recompute import ACTIVATION_OF_GRAD, batch_norm_relu_grad, lrn_recompute, lrn_recompute_grad


def fuse_norm_activation_gradient(nodes: Sequence[Node], live_out: Iterable[Value], backend: Backend) -> list[Node]:
    """The nodes, with such gradients of normalisations said as one op. Changes the nodes."""
    held = {id(v) for v in live_out}
    readers: dict[int, int] = {}
    for node in nodes:
        for v in node.inputs:
            readers[id(v)] = readers.get(id(v), 0) + 1
    _recompute_lrn(nodes, held, readers, backend)
    for node in nodes:
        slope = node.inputs[0].node if node.op is batch_norm_grad else None
        if slope is None or slope.op.name not in ACTIVATION_OF_GRAD:
            continue
        alone = readers[id(slope.outputs[0])] == 1 and id(slope.outputs[0]) not in held
        norm = _find_batch_norm(slope, node)
        if not alone or norm is None:
            continue
        g, _ = slope.inputs
        _, x, gamma, mean, variance = node.inputs
        inputs = (g, x, gamma, norm.inputs[2], mean, variance)
        attrs = {**node.attrs, "activation_grad": slope.op.name}
        specs = tuple(v.spec for v in inputs), tuple(v.spec for v in node.outputs)
        if backend.has_kernel(batch_norm_relu_grad, *specs, attrs):
            node.op, node.inputs, node.attrs = batch_norm_relu_grad, inputs, attrs
            set_producer(node)
    return list(nodes)


def _recompute_lrn(nodes: Sequence[Node], held: set[int], readers: dict[int, int], backend: Backend) -> None:
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
            if not (known and backend.has_kernel(lrn_recompute, (x.spec,), (x.spec,), node.attrs)
                    and backend.has_kernel(lrn_recompute_grad, (x.spec, x.spec), (x.spec,), node.attrs)):  # fmt: skip
                continue
            node.op, node.outputs = lrn_recompute, node.outputs[:1]
            for g in own:
                g.op, g.inputs = lrn_recompute_grad, g.inputs[:2]
        elif node.op is relu_grad:
            before, x = node.inputs[0].node, node.inputs[1]
            alone = readers[id(node.inputs[0])] == 1 and id(node.inputs[0]) not in held
            if before is not None and before.op is lrn_recompute_grad and alone and before.inputs[1] is x:
                node.op, node.inputs, node.attrs = (
                    lrn_recompute_grad,
                    before.inputs,
                    {**before.attrs, "through_relu": True},
                )


def _find_batch_norm(slope: Node, grad: Node) -> Node | None:
    """The normalisation whose output alone the activation was given, if it is the one that the gradient is of."""
    activation = slope.inputs[1].node
    if activation is None or activation.op is not ACTIVATION_OF_GRAD[slope.op.name][1]:
        return None
    norm = activation.inputs[0].node
    if norm is None or norm.op is not batch_norm or activation.inputs[0] is not norm.outputs[0]:
        return None
    _, x, gamma, mean, variance = grad.inputs
    pairs = zip((*norm.inputs[:2], *norm.outputs[1:]), (x, gamma, mean, variance), strict=True)
    return norm if all(a is b for a, b in pairs) and norm.attrs == grad.attrs else None
