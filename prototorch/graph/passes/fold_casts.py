"""Casts between values of 16 bits and weights of 32: an update reads the low-precision gradient itself, and the copies
of the weights that layers read are made together, in one sweep over all of them."""

from __future__ import annotations

from prototorch.graph.ir import Graph, Node, Value
from prototorch.graph.passes.context import PassContext
from prototorch.ops.elementwise import cast
from prototorch.ops.fused import fused
from prototorch.ops.shape import reshape
from prototorch.ops.update import Update
from prototorch.spec import FLOAT_DTYPES, Spec

__all__ = ["fold_gradient_casts", "group_weight_casts"]


def fold_gradient_casts(graph: Graph, context: PassContext) -> bool:
    """Let updates read a gradient before it is cast to more bits, where the backend's kernel for the update takes
    that."""
    changed = False
    for node in graph:
        if not isinstance(node.op, Update):
            continue
        needed: list[Node] = []
        narrow = _before_cast(graph, node.inputs[1], node, needed)
        if narrow is None:
            continue
        inputs = (node.inputs[0], narrow, *node.inputs[2:])
        if context.kernels.has_kernel(node.op, tuple(v.spec for v in inputs), node.output_specs, node.attrs):
            for new in needed:
                graph.insert_before(node, new)
            graph.set_inputs(node, inputs)
            changed = True
    return changed


def _before_cast(graph: Graph, value: Value, user: Node, needed: list[Node]) -> Value | None:
    """A value as it was before it was cast to more bits; nodes that must be inserted for that go to ``needed``."""
    node = value.producer
    if node is None:
        return None
    if node.op is cast:
        source = node.inputs[0]
        narrower = source.dtype in FLOAT_DTYPES and source.spec.nbytes < value.spec.nbytes
        return source if narrower and source.kind == "node" else None
    if node.op is reshape:
        inner = _before_cast(graph, node.inputs[0], user, needed)
        if inner is None:
            return None
        reshaped = Value(graph, Spec(value.shape, inner.dtype))
        needed.append(Node(reshape, (inner,), {"shape": value.shape}, (reshaped,), user.scope, user.phase))
        return reshaped
    return None


def group_weight_casts(graph: Graph, context: PassContext) -> bool:
    """Fuse the forward pass's casts of states from one dtype to another into one node at its beginning, where the
    backend has a kernel for that."""
    groups: dict[tuple[str, str], list[Node]] = {}
    for node in graph:
        if node.op is cast and node.phase == "forward" and _state_views(node.inputs[0]) is not None:
            groups.setdefault((node.inputs[0].dtype, node.outputs[0].dtype), []).append(node)
    first: list[Node] = []
    views: dict[Node, None] = {}
    members: set[Node] = set()
    for (_, dtype), casts in groups.items():
        lines = tuple((cast.name, (("in", i),), (("dtype", dtype),)) for i in range(len(casts)))
        attrs = {"program": lines, "outputs": tuple(("node", i, 0) for i in range(len(casts)))}
        inputs = tuple(node.inputs[0] for node in casts)
        outputs = tuple(node.outputs[0] for node in casts)
        group = Node(fused, inputs, attrs, outputs, "weights", "forward")
        if len(casts) > 1 and context.kernels.has_kernel(fused, group.input_specs, group.output_specs, attrs):
            for view in (view for v in inputs for view in _state_views(v) or ()):
                if view not in views:
                    views[view] = None
                    first.append(view)
            first.append(group)
            members.update(casts)
    if not first:
        return False
    moved = {*views, *members}
    graph.rebuild([*first, *(node for node in graph.nodes if node not in moved)])
    return True


def _state_views(value: Value) -> list[Node] | None:
    """The nodes through which a state is viewed as this value, in order; None where it is not a state's memory."""
    views: list[Node] = []
    while value.producer is not None and value.producer.op.is_view:
        views.append(value.producer)
        value = value.producer.inputs[0]
    return views[::-1] if value.kind == "state" else None
