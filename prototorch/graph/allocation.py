"""Allocation: where every value of a graph lies, and how much memory a step needs. Nothing is allocated here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from prototorch.engine.backends.executable_plan import GUARD
from prototorch.engine.backends.value_guard import COUNT_OUTPUT
from prototorch.graph.in_place import update_states_in_place, write_over_inputs
from prototorch.graph.ir import SETUP, Graph, Node, Value
from prototorch.graph.liveness import Liveness, Step
from prototorch.graph.memory_planner import MAX_FRAGMENTATION, align_up, assign_offsets, live_bytes

__all__ = ["Allocation", "MemoryPeak", "MemoryPlan", "memory_peak", "plan_memory"]


@dataclass(slots=True)
class Allocation:
    """Where a value lies: in the arena at an offset, in the memory that is persistent between runs, or in an input, a
    state or a constant. A slice of a whole value lies ``stride`` bytes further in each trip of its loop."""

    kind: str  # "arena", "persistent", "input", "state", "constant"
    offset: int = 0
    name: str = ""
    value: Value | None = None
    stride: int = 0


@dataclass(slots=True)
class MemoryPlan:
    """The steps of a graph with the allocation of each value; sizes are in bytes.

    ``state_copies`` are states (by name) that take a value at the end of the step; ``dependencies`` the states that the
    setup steps depend on.
    """

    steps: list[Step]
    allocations: dict[Value, Allocation]
    states: dict[str, Value]
    state_copies: list[tuple[str, Value]]
    arena_bytes: int
    persistent_bytes: int
    dependencies: tuple[str, ...]


class MemoryPeak(NamedTuple):
    """The memory of an order of nodes: the most bytes that are live at once, how many steps see that many, and the node
    of the first of them."""

    nbytes: int
    num_steps: int
    node: Node


def plan_memory(graph: Graph, max_fragmentation: float = MAX_FRAGMENTATION) -> MemoryPlan:
    """Allocate every value of a graph. ``max_fragmentation``: see `assign_offsets`."""
    return _Allocator(graph, graph.nodes).plan(max_fragmentation)


def memory_peak(nodes: Sequence[Node], graph: Graph) -> MemoryPeak:
    """How many bytes are live at once if these were the nodes of the graph, and where the most."""
    return _Allocator(graph, nodes).peak()


class _Allocator:
    def __init__(self, graph: Graph, nodes: Sequence[Node]):
        self.graph, self.nodes = graph, nodes
        self.liveness = Liveness(nodes, (*graph.outputs.values(), *graph.updates.values()))
        self.steps = self.liveness.steps
        self.persistent = self._persistent_storages()
        self.in_state, self.copies = update_states_in_place(
            self.liveness,
            graph.outputs,
            graph.updates,
            graph.states,
            graph.outputs.get(COUNT_OUTPUT),
            in_updates_only=GUARD in graph.outputs,
        )
        self.alias = write_over_inputs(self.liveness, self.in_state, self.persistent)
        self._find_buffers()

    def plan(self, max_fragmentation: float) -> MemoryPlan:
        """The allocation of every value."""
        storages = list(self.spans)
        offsets, arena_bytes = assign_offsets([self.spans[v] for v in storages], max_fragmentation)
        offset_of = dict(zip(storages, offsets, strict=True))
        persistent_offsets, persistent_bytes = {}, 0
        for value in self.persistent:
            persistent_offsets[value] = persistent_bytes
            persistent_bytes += align_up(value.spec.nbytes)
        allocations: dict[Value, Allocation] = {}
        for v in self._values():
            root = self.liveness.storage(v)
            stride = self.liveness.slice_bytes.get(v, 0)
            if root in self.in_state:
                allocations[v] = Allocation("state", name=self.in_state[root])
            elif root in persistent_offsets:
                allocations[v] = Allocation("persistent", offset=persistent_offsets[root])
            elif root.kind == "node":
                allocations[v] = Allocation("arena", offset=offset_of[self.buffer[root]], stride=stride)
            else:
                allocations[v] = Allocation(root.kind, name=root.name, value=root, stride=stride)
        states = {v.name: v for v in allocations if v.kind == "state"}
        for name in self.graph.updates:
            states.setdefault(name, self.graph.states[name])
        return MemoryPlan(
            self.steps, allocations, states, self.copies, arena_bytes, persistent_bytes, self._dependencies()
        )

    def peak(self) -> MemoryPeak:
        """The most bytes of the arena that are live at once."""
        live = live_bytes(self.spans.values())[: len(self.steps)]
        peak = max(live)
        return MemoryPeak(peak, live.count(peak), self.steps[live.index(peak)].node)

    def _values(self) -> dict[Value, None]:
        """All values of the graph that a step or a view reads or defines, and the results."""
        values: dict[Value, None] = {}
        for node in self.nodes:
            values.update(dict.fromkeys((*node.inputs, *node.outputs)))
        values.update(dict.fromkeys((*self.graph.outputs.values(), *self.graph.updates.values())))
        return values

    def _persistent_storages(self) -> dict[Value, None]:
        """The outputs of the setup steps that other steps read."""
        if not self.steps or self.steps[0].node.phase != SETUP:
            return {}
        storage = self.liveness.storage
        read = {storage(v) for step in self.steps if step.node.phase != SETUP for v in step.inputs}
        return {v: None for step in self.steps if step.node.phase == SETUP for v in step.outputs if v in read}

    def _dependencies(self) -> tuple[str, ...]:
        setup = (step for step in self.steps if step.node.phase == SETUP)
        storages = (self.liveness.storage(v) for step in setup for v in step.inputs)
        return tuple(sorted({v.name for v in storages if v.kind == "state"}))

    def _find_buffers(self) -> None:
        """The buffers of the arena: whose buffer each storage is in, and each one's first step, last step and bytes."""
        self.buffer: dict[Value, Value] = {}
        self.spans: dict[Value, tuple[int, int, int]] = {}
        first_def, last_use = self.liveness.first_def, self.liveness.last_use
        for step in self.steps:
            for v in map(self.liveness.storage, step.outputs):
                if v in self.in_state or v in self.persistent:
                    continue
                owner = self.buffer[v] = self.buffer[self.alias[v]] if v in self.alias else v
                if owner is v:
                    self.spans[v] = (first_def[v], last_use[v], v.spec.nbytes)
                else:
                    start, end, nbytes = self.spans[owner]
                    self.spans[owner] = (start, max(end, last_use[v]), nbytes)
