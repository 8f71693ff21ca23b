"""The recording interpreter: calling an op on its values adds a node to a graph. Nothing is computed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from prototorch.errors import ShapeError
from prototorch.graph.mixed_precision import Autocast
from prototorch.ops.core import Op
from prototorch.ops.operators import OperatorMixin
from prototorch.spec import Spec


class Value(OperatorMixin):
    """One array of a graph, known by its spec.

    ``kind`` says where it comes from: "input" (given at each run), "state" (kept between runs: weights, optimiser
    slots, running statistics), "constant", or "node" (computed).
    """

    __slots__ = ("array", "index", "interpreter", "kind", "name", "node", "spec")

    def __init__(self, graph: Graph, spec: Spec, kind: str, name: str = "", array: Any = None):
        self.interpreter, self.spec, self.kind, self.name, self.array = graph, spec, kind, name, array
        self.node: Node | None = None
        self.index = 0

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape, the batch dimension included."""
        return self.spec.shape

    @property
    def dtype(self) -> str:
        """The element type by NumPy's name."""
        return self.spec.dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.spec.shape)

    def __repr__(self) -> str:
        source = self.name or (self.node.op.name if self.node else self.kind)
        return f"<{self.kind} {source}: {self.spec}>"


class BatchLoop(NamedTuple):
    """Neighbouring nodes that run once for each of ``times`` slices of a batch (see graph/passes/batch_tiling.py)."""

    loop_id: int
    trip_count: int


@dataclass(slots=True, eq=False)
class Node:
    """One op as it was applied; ``scope`` is the layer it was said by, ``phase`` the part of the step it belongs to.
    A group of ops has the scopes of all of them in ``scopes``. ``again``: what the forward pass has computed before is
    computed once more (see graph/passes/rematerialization.py). ``loop``: it is said for a slice of the batch."""

    op: Op
    inputs: tuple[Value, ...]
    attrs: dict[str, Any]
    outputs: tuple[Value, ...]
    scope: str
    phase: str
    scopes: tuple[str, ...] = ()
    is_rematerialized: bool = False
    loop: BatchLoop | None = None


class Graph:
    """A list of nodes in the order in which they were said, with the inputs and states they read."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.inputs: dict[str, Value] = {}
        self.states: dict[str, Value] = {}
        self._scope = ""
        self._phase = "forward"
        self._autocast: Autocast | None = None

    def input(self, name: str, spec: Spec) -> Value:
        """A value that is given at each run."""
        value = self.inputs[name] = Value(self, spec, "input", name)
        return value

    def state(self, name: str, spec: Spec) -> Value:
        """A value that is kept between runs; the same one whenever the name is asked for again."""
        value = self.states.get(name)
        if value is None:
            value = self.states[name] = Value(self, spec, "state", name)
        elif value.spec != spec:
            raise ShapeError(f"{name} is shared, but has shape {list(value.shape)} here and {list(spec.shape)} there")
        return value

    def constant(self, array: Any) -> Value:
        """A value that is known now."""
        array = np.asarray(array)
        return Value(self, Spec(tuple(array.shape), str(array.dtype)), "constant", array=array)

    def apply(self, op: Op, inputs: Sequence[Value], attrs: dict[str, Any]) -> Any:
        """Record one op; raises what its type rule raises."""
        if self._autocast is not None:
            inputs, attrs = self._autocast.cast_inputs(self, op, inputs, attrs)
        specs = op.infer_spec(*(v.spec for v in inputs), **attrs)
        several = isinstance(specs, tuple)
        outputs = tuple(Value(self, s, "node") for s in (specs if several else (specs,)))
        node = Node(op, tuple(inputs), attrs, outputs, self._scope, self._phase)
        for i, value in enumerate(outputs):
            value.node, value.index = node, i
        self.nodes.append(node)
        return outputs if several else outputs[0]

    def collect(self, work: Any) -> tuple[Any, list[Node]]:
        """What the work records, which also stays in the graph."""
        start = len(self.nodes)
        return work(), self.nodes[start:]

    @contextmanager
    def autocast(self, autocast: Autocast | None) -> Iterator[None]:
        """Values recorded inside are stored in a narrow type where `Autocast` says so."""
        kept, self._autocast = self._autocast, autocast
        try:
            yield
        finally:
            self._autocast = kept

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """Nodes recorded inside bear this layer's name."""
        kept, self._scope = self._scope, name
        try:
            yield
        finally:
            self._scope = kept

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Nodes recorded inside belong to this part of the step: "forward", "backward" or "update"."""
        kept, self._phase = self._phase, name
        try:
            yield
        finally:
            self._phase = kept
