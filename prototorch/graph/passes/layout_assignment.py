"""Layout assignment: which values of a graph lie in memory as channels_last.

Ops that the backend says prefer it (convolutions, pooling) get their activations so; elementwise ops that follow go
along where an input already lies so; before all others the values are put back. Weights, states, inputs and results of
the graph keep the default layout. This runs before fusion, which then finds the ops of a group in one layout already.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from prototorch.engine.backends.capabilities import LayoutSupport
from prototorch.engine.backends.core import Backend
from prototorch.graph.ir import Graph, Node, Value
from prototorch.graph.passes.context import PassContext
from prototorch.ops.layout import (
    CHANNELS_LAST,
    channels_to_first,
    channels_to_last,
    layouts_coincide,
    relabel,
    reorder,
    transpose_view,
)
from prototorch.ops.shape import transpose
from prototorch.spec import Spec

__all__ = ["assign_layouts"]

#: how many ops after one that broadcasts a small value (the gradient of a mean) are asked which layout they will be in
_LOOKAHEAD = 3


def assign_layouts(graph: Graph, context: PassContext) -> bool:
    """Insert `reorder` nodes, and give the outputs of nodes their layouts."""
    assignment = _LayoutAssignment(graph, context.kernels)
    for node in graph.nodes:
        assignment.assign(node)
    return assignment.changed


class _LayoutAssignment:
    def __init__(self, graph: Graph, backend: Backend):
        self.graph, self.backend = graph, backend
        self.changed = False
        self._conversions: dict[tuple[Value, str | None], Value] = {}

    def assign(self, node: Node) -> None:
        """Let a node read its inputs in the layout that it wants, and give its outputs theirs."""
        if node.op is transpose and self._is_new_label(node):
            return
        ins, outs = self._channels_last_operands(node)
        inputs = [
            self._in_layout(v, CHANNELS_LAST if i in ins else None, node, node) for i, v in enumerate(node.inputs)
        ]
        if any(a is not b for a, b in zip(inputs, node.inputs, strict=True)):
            self.graph.set_inputs(node, inputs)
        behind = node.next
        for i in outs:
            value = node.outputs[i]
            value.spec = replace(value.spec, layout=CHANNELS_LAST)
            self.changed = True
            if self.graph.is_result(value):
                self.graph.replace_result(value, self._in_layout(value, None, node, behind))

    def _is_new_label(self, node: Node) -> bool:
        """Make a view of a transpose between [N, C, *spatial] that lies as channels_last and [N, *spatial, C]; whether
        it is one."""
        source, moved = node.inputs[0], node.outputs[0]
        order, ndim = tuple(node.attrs["order"]), source.ndim
        if ndim < 3 or self.graph.is_result(moved):
            return False
        is_to_first = order == channels_to_first(ndim) and source.spec.layout is None
        is_to_first = is_to_first and self._leads_to_preference(moved, _LOOKAHEAD)
        if not is_to_first and not (order == channels_to_last(ndim) and source.spec.layout == CHANNELS_LAST):
            return False
        view = Node(transpose_view, node.inputs, node.attrs, node.outputs, node.scope, node.phase, node.scopes)
        self.graph.replace_node(node, view)
        if is_to_first:
            moved.spec = replace(moved.spec, layout=CHANNELS_LAST)
        self.changed = True
        return True

    def _channels_last_operands(self, node: Node) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The inputs and outputs of a node that are to lie as channels_last."""
        ins = node.input_specs
        if node.op.is_view and ins[0].shape == node.outputs[0].shape:  # the same memory under another name
            return ((0,), (0,)) if ins[0].layout else ((), ())
        support = self.backend.layout_support(node.op.name)
        if support is None or (support.when is not None and not support.when(ins, node.attrs)):
            return (), ()
        laid_ins, laid_outs = _affected_operands(support, ins, node.output_specs)
        if support.policy == "prefers" or any(ins[i].layout and not layouts_coincide(ins[i].shape) for i in laid_ins):
            return laid_ins, laid_outs
        broadcasts = all(layouts_coincide(ins[i].shape) for i in laid_ins) and not all(
            layouts_coincide(node.outputs[k].shape) for k in laid_outs
        )
        if broadcasts and any(self._meets_channels_last(node.outputs[k], _LOOKAHEAD) for k in laid_outs):
            return laid_ins, laid_outs
        return (), ()

    def _meets_channels_last(self, value: Value, depth: int) -> bool:
        """Whether something that reads a value, or what is computed from it, lies as channels_last already."""
        for node in value.users:
            support = self.backend.layout_support(node.op.name)
            if support is None:
                continue
            if support.policy == "prefers" or any(v.spec.layout and not layouts_coincide(v.shape) for v in node.inputs):
                return True
            if depth and any(self._meets_channels_last(v, depth - 1) for v in node.outputs if v.shape == value.shape):
                return True
        return False

    def _leads_to_preference(self, value: Value, depth: int) -> bool:
        """Whether an op that prefers channels_last reads a value, or what ops that take the layout make of it."""
        for node in value.users:
            support = self.backend.layout_support(node.op.name)
            if support is None or (support.when is not None and not support.when(node.input_specs, node.attrs)):
                continue
            if support.policy == "prefers":
                return True
            if depth and any(self._leads_to_preference(v, depth - 1) for v in node.outputs if v.ndim == value.ndim):
                return True
        return False

    def _in_layout(self, value: Value, layout: str | None, user: Node, before: Node | None) -> Value:
        """The value in a layout: itself, or what a node before its first user makes of it."""
        if value.spec.layout == layout or value.ndim < 3:
            return value
        source = self._conversions.get((value, layout))
        if source is None:
            source = self._conversions[value, layout] = self._convert(value, layout, user, before)
            self._conversions[source, value.spec.layout] = value
        return source

    def _convert(self, value: Value, layout: str | None, user: Node, before: Node | None) -> Value:
        self.changed = True
        spec = replace(value.spec, layout=layout)
        if value.kind == "constant":
            return Value(self.graph, spec, "constant", value.name, value.stored_array)
        converted_value = Value(self.graph, spec)
        op = relabel if layouts_coincide(value.shape) else reorder
        node = Node(op, (value,), {"layout": layout}, (converted_value,), user.scope, user.phase)
        if before is None:
            self.graph.append(node)
        else:
            self.graph.insert_before(before, node)
        return converted_value


def _affected_operands(
    support: LayoutSupport, ins: Sequence[Spec], outs: Sequence[Spec]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The inputs and outputs that a layout is about: of those named, the ones of the largest rank, if that is 3 or
    more."""
    named_ins = range(len(ins)) if support.ins is None else support.ins
    named_outs = range(len(outs)) if support.outs is None else support.outs
    rank = max((ins[i].ndim for i in named_ins if i < len(ins)), default=0)
    if rank < 3:
        return (), ()
    return (
        tuple(i for i in named_ins if i < len(ins) and ins[i].ndim == rank),
        tuple(i for i in named_outs if i < len(outs) and outs[i].ndim == rank),
    )
