"""The IR: a graph of nodes (ops as they are applied) that read and define values (arrays known by their specs).

A graph is also the recording interpreter: calling an op on its values adds a node, nothing is computed. Passes rewrite
a `clone` of the recorded graph by the methods below, which keep three things true: a value knows its `producer` and its
`users`, the nodes are in an order in which each reads only what is defined before it, and the results (outputs and
state updates) follow a value that is replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import numpy as np

from prototorch.errors import ShapeError
from prototorch.graph.mixed_precision import Autocast
from prototorch.ops.core import Op, use_interpreter
from prototorch.ops.lazy_array import LazyArray
from prototorch.ops.operators import OPS, OperatorMixin, SpecProperties
from prototorch.spec import Spec

__all__ = ["PHASE_ORDER", "SETUP", "BatchLoop", "Graph", "Node", "Value"]

#: the phase of nodes that depend on states alone: they run again only when one of these states has changed
SETUP = "setup"
#: the phases in the order in which a step runs them; forward and backward nodes may alternate
PHASE_ORDER = {SETUP: 0, "forward": 1, "backward": 1, "update": 2}


class Value(SpecProperties, OperatorMixin):
    """One array of a graph, known by its spec.

    ``kind`` says where it comes from: "input" (given at each run), "state" (persistent between runs: weights, optimiser
    slots, running statistics), "constant" (its ``array`` is known; ``stored_array`` may be a LazyArray), or "node":
    output number ``index`` of its ``producer``. ``users`` are the nodes that read it, each with the number of times it
    does.
    """

    __slots__ = ("index", "interpreter", "kind", "name", "producer", "spec", "stored_array", "users")

    def __init__(self, graph: Graph, spec: Spec, kind: str = "node", name: str = "", array: Any = None):
        self.interpreter, self.spec, self.kind, self.name, self.stored_array = graph, spec, kind, name, array
        self.producer: Node | None = None
        self.index = 0
        self.users: dict[Node, int] = {}

    @property
    def array(self) -> Any:
        """The elements of a constant, computed now where they are not known yet; None for other kinds."""
        array = self.stored_array
        return np.asarray(array) if isinstance(array, LazyArray) else array

    def __repr__(self) -> str:
        source = self.name or (self.producer.op.name if self.producer else self.kind)
        return f"<{self.kind} {source}: {self.spec}>"


class BatchLoop(NamedTuple):
    """Neighbouring nodes that run once for each of ``trip_count`` slices of a batch (see passes/batch_tiling.py)."""

    loop_id: int
    trip_count: int


@dataclass(slots=True, eq=False)
class Node:
    """One op as it is applied.

    ``scope`` is the name of the layer it belongs to, ``phase`` the part of the step: "setup", "forward", "backward" or
    "update". A fused group of ops has the scopes of all of them in ``scopes``. ``is_rematerialized``: it computes again
    what the forward pass has computed (see passes/rematerialization.py). ``loop``: it runs for slices of the batch.
    """

    op: Op
    inputs: tuple[Value, ...]
    attrs: dict[str, Any]
    outputs: tuple[Value, ...]
    scope: str
    phase: str
    scopes: tuple[str, ...] = ()
    is_rematerialized: bool = False
    loop: BatchLoop | None = None
    previous: Node | None = field(default=None, repr=False)
    next: Node | None = field(default=None, repr=False)
    is_erased: bool = field(default=False, repr=False)

    @property
    def member_ops(self) -> tuple[Op, ...]:
        """The ops of a fused group; of another node its own op."""
        return (
            tuple(cast(Op, OPS[line[0]]) for line in self.attrs["program"]) if "program" in self.attrs else (self.op,)
        )

    @property
    def input_specs(self) -> tuple[Spec, ...]:
        """The spec of each input, in their order."""
        return tuple(v.spec for v in self.inputs)

    @property
    def output_specs(self) -> tuple[Spec, ...]:
        """The spec of each output, in their order."""
        return tuple(v.spec for v in self.outputs)


class _GraphSetting:
    """A context in which a field of a graph has another value; as a generator it would take three times as long."""

    __slots__ = ("field", "graph", "outer", "value")

    def __init__(self, graph: Graph, field: str, value: Any):
        self.graph, self.field, self.value = graph, field, value

    def __enter__(self) -> None:
        self.outer = getattr(self.graph, self.field)
        setattr(self.graph, self.field, self.value)

    def __exit__(self, *exc: object) -> None:
        setattr(self.graph, self.field, self.outer)


class Graph:
    """Nodes in program order (a doubly linked list), the inputs and states they read, and the results.

    ``outputs`` are the values to be read after a run, by name; ``updates`` the new values of states, by the name of the
    state. A graph that is only recorded has no results yet: `clone` takes them.
    """

    value_class: type[Value] = Value  # of what is recorded

    def __init__(self) -> None:
        self.inputs: dict[str, Value] = {}
        self.states: dict[str, Value] = {}
        self.outputs: dict[str, Value] = {}
        self.updates: dict[str, Value] = {}
        self._results: dict[Value, list[tuple[dict[str, Value], str]]] = {}
        self._first: Node | None = None
        self._last: Node | None = None
        self._size = 0
        self._insert_before: Node | None = None  # where `apply` records: None is the end
        self._scope = ""
        self._phase = "forward"
        self._autocast: Autocast | None = None

    # ------------------------------------------------------------------ recording

    def input(self, name: str, spec: Spec) -> Value:
        """A value that is given at each run."""
        value = self.inputs[name] = self.value_class(self, spec, "input", name)
        return value

    def state(self, name: str, spec: Spec) -> Value:
        """A value that is persistent between runs; the same one whenever the name is asked for again."""
        value = self.states.get(name)
        if value is None:
            value = self.states[name] = Value(self, spec, "state", name)
        elif value.spec != spec:
            raise ShapeError(f"{name} is shared, but has shape {list(value.shape)} here and {list(spec.shape)} there")
        return value

    def constant(self, array: Any) -> Value:
        """A value that is known now."""
        array = array if isinstance(array, LazyArray) else np.asarray(array)
        return self.value_class(self, Spec(tuple(array.shape), str(array.dtype)), "constant", array=array)

    def apply(self, op: Op, inputs: Sequence[Value], attrs: dict[str, Any]) -> Any:
        """Record one op. Raises what its `infer_spec` raises."""
        if self._autocast is not None:
            inputs, attrs = self._autocast.cast_inputs(self, op, inputs, attrs)
        specs = op.infer_spec(*(v.spec for v in inputs), **attrs)
        several = isinstance(specs, tuple)
        outputs = tuple(self.value_class(self, s) for s in (specs if several else (specs,)))
        self._insert(Node(op, tuple(inputs), attrs, outputs, self._scope, self._phase), self._insert_before)
        return outputs if several else outputs[0]

    def collect(self, work: Callable[[], Any]) -> tuple[Any, list[Node]]:
        """Do the work; its result, and the nodes it has recorded, which also stay in the graph."""
        before = self._insert_before
        mark = before.previous if before is not None else self._last
        result = work()
        node = mark.next if mark is not None else self._first
        recorded = []
        while node is not None and node is not before:
            recorded.append(node)
            node = node.next
        return result, recorded

    def autocast(self, autocast: Autocast | None) -> AbstractContextManager[None]:
        """Values recorded inside are stored in a low-precision type where `Autocast` decides so."""
        return self._setting("_autocast", autocast)

    def scope(self, name: str) -> AbstractContextManager[None]:
        """Nodes recorded inside belong to the layer of this name."""
        return self._setting("_scope", name)

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Nodes recorded inside belong to this part of the step: "forward", "backward" or "update"."""
        return self._setting("_phase", name)

    @contextmanager
    def insertion_point(self, node: Node) -> Iterator[None]:
        """Ops applied inside are recorded just before a node, with its scope and phase."""
        at_node = self._setting("_insert_before", node)
        with use_interpreter(self), at_node, self.scope(node.scope), self.phase(node.phase):
            yield

    def _setting(self, field: str, value: Any) -> AbstractContextManager[None]:
        return _GraphSetting(self, field, value)

    # ------------------------------------------------------------------ reading

    def __iter__(self) -> Iterator[Node]:
        """The nodes in program order; the graph may be changed meanwhile: nodes inserted behind the current one are
        visited, erased ones are not."""
        node = self._first
        while node is not None:
            if not node.is_erased:
                yield node
            node = node.next

    @property
    def num_nodes(self) -> int:
        """The number of nodes."""
        return self._size

    @property
    def nodes(self) -> list[Node]:
        """The nodes in program order, as a new list."""
        return list(self)

    def is_result(self, value: Value) -> bool:
        """Whether a value is an output or the new value of a state."""
        return value in self._results

    @property
    def results(self) -> list[Value]:
        """The outputs and updates, each value once."""
        return list(self._results)

    def has_single_use(self, value: Value) -> bool:
        """Whether one operand of one node is all that reads a value."""
        users = value.users
        return len(users) == 1 and next(iter(users.values())) == 1 and value not in self._results

    # ------------------------------------------------------------------ rewriting

    def set_results(self, outputs: Mapping[str, Value], updates: Mapping[str, Value]) -> None:
        """Say which values are read after a run, and which are the new values of states."""
        self.outputs, self.updates, self._results = dict(outputs), dict(updates), {}
        for results in (self.outputs, self.updates):
            for name, value in results.items():
                self._results.setdefault(value, []).append((results, name))

    def append(self, node: Node) -> None:
        """Add a node at the end."""
        self._insert(node, None)

    def insert_before(self, anchor: Node, node: Node) -> None:
        """Add a node just before another."""
        self._insert(node, anchor)

    def insert_after(self, anchor: Node, node: Node) -> None:
        """Add a node just after another."""
        self._insert(node, anchor.next)

    def move_before(self, anchor: Node, node: Node) -> None:
        """Move a node of this graph just before another."""
        self._unlink(node)
        self._link(node, anchor)

    def erase(self, node: Node) -> None:
        """Remove a node whose outputs nobody reads."""
        self._drop_uses(node)
        self._unlink(node)
        node.is_erased = True

    def replace_node(self, old: Node, new: Node) -> None:
        """Put a new node in the place of an old one. Outputs of the old one that are outputs of the new one too keep
        their users; others must have none."""
        self._insert(new, old)
        self.erase(old)

    def set_inputs(self, node: Node, inputs: Sequence[Value]) -> None:
        """Let a node read other values."""
        self._drop_uses(node)
        node.inputs = tuple(inputs)
        for v in node.inputs:
            v.users[node] = v.users.get(node, 0) + 1

    def replace_all_uses(self, old: Value, new: Value) -> None:
        """Let everything that reads a value, the results included, read another."""
        for user in tuple(old.users):
            self.set_inputs(user, [new if v is old else v for v in user.inputs])
        self.replace_result(old, new)

    def replace_result(self, old: Value, new: Value) -> None:
        """Let the outputs and updates that are a value be another; nodes go on reading the old one."""
        for results, name in self._results.pop(old, ()):
            results[name] = new
            self._results.setdefault(new, []).append((results, name))

    def rebuild(self, nodes: Iterable[Node]) -> None:
        """Let these be the nodes, in this order; users and producers are found anew."""
        for node in self:
            for v in node.inputs:
                v.users.clear()
            node.is_erased = True
        self._first = self._last = None
        self._size = 0
        for node in nodes:
            node.is_erased = False
            self._insert(node, None)

    def erase_dead_nodes(self) -> bool:
        """Remove the nodes that no result depends on; whether there were any."""
        size = self._size
        node = self._last
        while node is not None:
            previous = node.previous
            if not any(v.users or v in self._results for v in node.outputs):
                self.erase(node)
            node = previous
        return self._size != size

    def clone(self, outputs: Mapping[str, Value] | None = None, updates: Mapping[str, Value] | None = None) -> Graph:
        """A copy for these results (by default its own): new values, and the nodes that the results depend on.

        Attributes are shared: no pass may change an ``attrs`` dict in place.
        """
        outputs = self.outputs if outputs is None else outputs
        updates = self.updates if updates is None else updates
        copy = Graph()
        copies = {value: copy.input(name, value.spec) for name, value in self.inputs.items()}
        copies.update((value, copy.state(name, value.spec)) for name, value in self.states.items())

        def copy_of(value: Value) -> Value:
            if value not in copies:  # a constant
                copies[value] = Value(copy, value.spec, value.kind, value.name, value.stored_array)
            return copies[value]

        for node in self._live_nodes({*outputs.values(), *updates.values()}):
            inputs = tuple([copies.get(v) or copy_of(v) for v in node.inputs])
            defined = tuple([Value(copy, v.spec, "node", v.name) for v in node.outputs])
            copies.update(zip(node.outputs, defined, strict=True))
            copy.append(
                Node(
                    node.op,
                    inputs,
                    node.attrs,
                    defined,
                    node.scope,
                    node.phase,
                    node.scopes,
                    node.is_rematerialized,
                    node.loop,
                )
            )
        copy.set_results({n: copy_of(v) for n, v in outputs.items()}, {n: copy_of(v) for n, v in updates.items()})
        return copy

    def _live_nodes(self, live: set[Value]) -> list[Node]:
        live_nodes = []
        node = self._last
        while node is not None:
            if not live.isdisjoint(node.outputs):
                live.update(node.inputs)
                live_nodes.append(node)
            node = node.previous
        return live_nodes[::-1]

    # ------------------------------------------------------------------ the linked list

    def _insert(self, node: Node, before: Node | None) -> None:
        self._link(node, before)
        for v in node.inputs:
            users = v.users
            users[node] = users.get(node, 0) + 1
        for i, v in enumerate(node.outputs):
            v.producer, v.index = node, i

    def _link(self, node: Node, before: Node | None) -> None:
        previous = self._last if before is None else before.previous
        node.previous, node.next = previous, before
        if previous is None:
            self._first = node
        else:
            previous.next = node
        if before is None:
            self._last = node
        else:
            before.previous = node
        self._size += 1

    def _unlink(self, node: Node) -> None:
        """Take a node out of the list; it still knows its neighbours, so that an iteration that is at it goes on."""
        if node.previous is None:
            self._first = node.next
        else:
            node.previous.next = node.next
        if node.next is None:
            self._last = node.previous
        else:
            node.next.previous = node.previous
        self._size -= 1

    @staticmethod
    def _drop_uses(node: Node) -> None:
        for v in node.inputs:
            if v.users.get(node, 0) > 1:
                v.users[node] -= 1
            else:
                v.users.pop(node, None)
