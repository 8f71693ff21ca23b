"""Layout: which values of a plan lie in memory as channels_last.

Ops that the backend says prefer it (convolutions, pooling) get their activations so; those that follow (elementwise
ops) go along where an input already lies so; before all others the values are put back. Weights, states, inputs and
outputs of the graph stay plain. This runs before fusion, which then finds the ops of a group in one layout already,
and never has to look into a group to change one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from prototorch.backends.capabilities import LayoutSupport
from prototorch.backends.core import Backend
from prototorch.graph.ir import Node, Value
from prototorch.graph.passes.clone_graph import set_producer
from prototorch.ops.layout import CHANNELS_LAST, layouts_coincide, relabel, reorder
from prototorch.spec import Spec

#: How many ops after one that spreads out a small value (a mean's gradient) are asked which layout they will be in.
_LOOKAHEAD = 3


def assign_layouts(nodes: Sequence[Node], outputs: Mapping[str, Value], updates: Mapping[str, Value],
             backend: Backend) -> tuple[list[Node], dict[int, Value]]:  # fmt: skip
    """The nodes with `reorder` nodes among them, and for each wanted value that has a layout the plain one (by id).

    Changes the specs of the nodes' outputs and what they read.
    """
    readers: dict[int, list[Node]] = {}
    for node in nodes:
        for v in node.inputs:
            readers.setdefault(id(v), []).append(node)
    pass_ = _LayoutAssignment(backend, {id(v) for v in (*outputs.values(), *updates.values())}, readers)
    for node in nodes:
        pass_.take(node)
    return pass_.nodes, pass_.stands


class _LayoutAssignment:
    def __init__(self, backend: Backend, wanted: set[int], readers: Mapping[int, Sequence[Node]]):
        self.backend, self.wanted, self.readers = backend, wanted, readers
        self.nodes: list[Node] = []
        self.stands: dict[int, Value] = {}
        self._turned: dict[tuple[int, str | None], Value] = {}

    def take(self, node: Node) -> None:
        """Add a node, after those that bring its inputs where it wants them."""
        laid_ins, laid_outs = self._places(node)
        node.inputs = tuple(
            self._turn(v, CHANNELS_LAST if i in laid_ins else None, node) for i, v in enumerate(node.inputs)
        )
        self.nodes.append(node)
        for i in laid_outs:
            value = node.outputs[i]
            value.spec = replace(value.spec, layout=CHANNELS_LAST)
            if id(value) in self.wanted:
                self.stands[id(value)] = self._turn(value, None, node)

    def _places(self, node: Node) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The inputs and outputs of a node that are to lie as channels_last."""
        ins = tuple(v.spec for v in node.inputs)
        if node.op.is_view and ins[0].shape == node.outputs[0].shape:  # the same memory under another name
            return ((0,), (0,)) if ins[0].layout else ((), ())
        layout = self.backend.layout_support(node.op.name)
        if layout is None or (layout.when is not None and not layout.when(ins, node.attrs)):
            return (), ()
        laid_ins, laid_outs = _affected_operands(layout, ins, tuple(v.spec for v in node.outputs))
        if layout.policy == "prefers" or any(ins[i].layout and not layouts_coincide(ins[i].shape) for i in laid_ins):
            return laid_ins, laid_outs
        spread = all(layouts_coincide(ins[i].shape) for i in laid_ins) and not all(
            layouts_coincide(node.outputs[k].shape) for k in laid_outs
        )
        if spread and any(self._drawn(node.outputs[k], _LOOKAHEAD) for k in laid_outs):
            return laid_ins, laid_outs
        return (), ()

    def _drawn(self, value: Value, ahead: int) -> bool:
        """Whether something that reads a value, or what is made of it, lies as channels_last already."""
        for node in self.readers.get(id(value), ()):
            layout = self.backend.layout_support(node.op.name)
            if layout is None:
                continue
            if layout.policy == "prefers" or any(v.spec.layout and not layouts_coincide(v.shape) for v in node.inputs):
                return True
            if ahead and any(self._drawn(v, ahead - 1) for v in node.outputs if v.shape == value.shape):
                return True
        return False

    def _turn(self, value: Value, layout: str | None, user: Node) -> Value:
        """The value in a layout: itself, or what a node before its first user makes of it."""
        if value.spec.layout == layout or value.ndim < 3:
            return value
        source = self._turned.get((id(value), layout))
        if source is None:
            source = self._turned[id(value), layout] = self._made(value, layout, user)
            self._turned[id(source), value.spec.layout] = value
        return source

    def _made(self, value: Value, layout: str | None, user: Node) -> Value:
        spec = replace(value.spec, layout=layout)
        if value.kind == "constant":
            return Value(value.interpreter, spec, "constant", value.name, value.array)
        made = Value(value.interpreter, spec, "node")
        op = relabel if layouts_coincide(value.shape) else reorder
        self.nodes.append(Node(op, (value,), {"layout": layout}, (made,), user.scope, user.phase))
        set_producer(self.nodes[-1])
        return made


def _affected_operands(
    layout: LayoutSupport, ins: Sequence[Spec], outs: Sequence[Spec]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The inputs and outputs that a layout is about: of those named, the ones of the largest rank, if that is 3 or
    more."""
    some = range(len(ins)) if layout.ins is None else layout.ins
    others = range(len(outs)) if layout.outs is None else layout.outs
    rank = max((ins[i].ndim for i in some if i < len(ins)), default=0)
    if rank < 3:
        return (), ()
    return (
        tuple(i for i in some if i < len(ins) and ins[i].ndim == rank),
        tuple(i for i in others if i < len(outs) and outs[i].ndim == rank),
    )
