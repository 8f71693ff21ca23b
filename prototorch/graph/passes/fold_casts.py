"""Numbers of 16 bits beside weights of 32: an update reads the narrow gradient itself, and the copies of the weights
that layers read are made together, in one sweep over all of them."""

from __future__ import annotations

from collections.abc import Sequence

from prototorch.backends.core import Backend
from prototorch.graph.ir import Node, Value
from prototorch.graph.passes.clone_graph import set_producer
from prototorch.ops.elementwise import cast
from prototorch.ops.fused import fused
from prototorch.ops.shape import reshape
from prototorch.ops.update import Update
from prototorch.spec import FLOAT_DTYPES, Spec


def fold_gradient_casts(nodes: Sequence[Node], backend: Backend) -> list[Node]:
    """The nodes, in which updates read what a gradient was before it was made wider, where the backend's kernel for
    the update takes that."""
    made: list[Node] = []
    for node in nodes:
        if isinstance(node.op, Update):
            before: list[Node] = []
            found = _before_cast(node.inputs[1], node, before)
            if found is not None:
                inputs = (node.inputs[0], found, *node.inputs[2:])
                specs = tuple(v.spec for v in inputs), tuple(v.spec for v in node.outputs)
                if backend.has_kernel(node.op, *specs, node.attrs):
                    made += before
                    node.inputs = inputs
        made.append(node)
    return made


def _before_cast(value: Value, user: Node, before: list[Node]) -> Value | None:
    """A value as it was before it was made wider; what must be said for that goes to ``before``."""
    node = value.node
    if node is None:
        return None
    if node.op is cast:
        source = node.inputs[0]
        narrower = source.dtype in FLOAT_DTYPES and source.spec.nbytes < value.spec.nbytes
        return source if narrower and source.kind == "node" else None
    if node.op is reshape:
        inner = _before_cast(node.inputs[0], user, before)
        if inner is None:
            return None
        made = Value(value.interpreter, Spec(value.shape, inner.dtype), "node")
        before.append(Node(reshape, (inner,), {"shape": value.shape}, (made,), user.scope, user.phase))
        set_producer(before[-1])
        return made
    return None


def group_weight_casts(nodes: Sequence[Node], backend: Backend) -> list[Node]:
    """The nodes, with the casts of states to one type in the forward pass as one node at its beginning, where the
    backend has a kernel for that."""
    groups: dict[tuple[str, str], list[Node]] = {}
    for node in nodes:
        if node.op is cast and node.phase == "forward" and _state_views(node.inputs[0]) is not None:
            groups.setdefault((node.inputs[0].dtype, node.outputs[0].dtype), []).append(node)
    first: list[Node] = []
    gone: set[int] = set()
    for (_, dtype), members in groups.items():
        lines = tuple(("cast", (("in", i),), (("dtype", dtype),)) for i in range(len(members)))
        attrs = {"program": lines, "outputs": tuple(("node", i, 0) for i in range(len(members)))}
        inputs = tuple(node.inputs[0] for node in members)
        outputs = tuple(node.outputs[0] for node in members)
        specs = tuple(v.spec for v in inputs), tuple(v.spec for v in outputs)
        if len(members) > 1 and backend.has_kernel(fused, *specs, attrs):
            for view in (view for v in inputs for view in _state_views(v) or ()):
                if id(view) not in gone:
                    first.append(view)
                    gone.add(id(view))
            first.append(Node(fused, inputs, attrs, outputs, "weights", "forward"))
            set_producer(first[-1])
            gone.update(id(node) for node in members)
    return [*first, *(node for node in nodes if id(node) not in gone)]


def _state_views(value: Value) -> list[Node] | None:
    """The nodes through which a state is seen as this value, in order; None where it is not a state's memory."""
    views: list[Node] = []
    while value.node is not None and value.node.op.is_view:
        views.append(value.node)
        value = value.node.inputs[0]
    return views[::-1] if value.kind == "state" else None
