"""The plan: a graph made ready to run. Which steps in which order, and where each array lies.

A plan knows no arrays. The engine binds it to a backend's memory and to the model's states.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby

from prototorch.backends.core import Backend
from prototorch.backends.executable_plan import StepSpec
from prototorch.graph.ir import Graph, Node, Value
from prototorch.graph.memory_planner import MAX_FRAGMENTATION, align_up, assign_offsets, live_bytes
from prototorch.graph.passes.batch_tiling import tile_batch
from prototorch.graph.passes.clone_graph import clone_nodes, replace_values
from prototorch.graph.passes.constant_folding import fold_constants
from prototorch.graph.passes.cse import eliminate_common_subexpressions
from prototorch.graph.passes.dead_code import eliminate_dead_code
from prototorch.graph.passes.decomposition import decompose_ops
from prototorch.graph.passes.defer_state_updates import defer_state_updates
from prototorch.graph.passes.fold_batch_norm import fold_batch_norm
from prototorch.graph.passes.fold_casts import fold_gradient_casts, group_weight_casts
from prototorch.graph.passes.fuse_norm_activation_gradient import fuse_norm_activation_gradient
from prototorch.graph.passes.fusion import fuse_ops
from prototorch.graph.passes.ghost_norm import use_ghost_norm
from prototorch.graph.passes.hoist_activation_gradient import hoist_activation_gradient
from prototorch.graph.passes.hoist_crops import hoist_crops
from prototorch.graph.passes.layout_assignment import assign_layouts
from prototorch.graph.passes.prepack import prepack_weights
from prototorch.graph.passes.rematerialization import MemoryPeak, rematerialize
from prototorch.graph.passes.runtime_constant_folding import SETUP, mark_setup_nodes
from prototorch.graph.passes.save_gates import save_gates
from prototorch.ops.batch_views import concat_view, slice_view

_LOW_MEMORY_FRAGMENTATION = 0.01  # holes in an arena that is to be small


@dataclass(slots=True)
class Allocation:
    """Where a value lies: in the arena at an offset, in the memory that outlives a run, or in an input, a state or a
    constant. A slice of a whole value lies ``stride`` bytes further in each turn of its loop."""

    kind: str  # "arena", "kept", "input", "state", "constant"
    offset: int = 0
    name: str = ""
    value: Value | None = None
    stride: int = 0


@dataclass(slots=True)
class Step:
    """One call of a kernel."""

    node: Node
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]


@dataclass
class Plan:
    """Steps, places, and the memory they need (``arena``, and ``kept``, which is the plan's own between its runs).

    The first ``once`` steps need to run only where a state among ``watched`` has changed since they last did.
    """

    steps: list[Step]
    allocations: dict[int, Allocation]
    outputs: dict[str, Value]
    inputs: dict[str, Value]
    states: dict[str, Value]
    state_copies: list[tuple[str, Value]]  # states that take a value at the end of the step
    arena_bytes: int
    values: dict[int, Value] = field(default_factory=dict)
    persistent_bytes: int = 0
    setup_steps: int = 0
    dependencies: tuple[str, ...] = ()
    guarded_states: frozenset[str] = (
        frozenset()
    )  # states that a backend may leave as they are where updates do not count
    saved_bytes: int = 0  # bytes of the arena that computing some steps again saves

    def schedule(self) -> Iterator[tuple[int, int]]:
        """The steps in the order in which they run, by number, each with the turn of its loop."""
        for loop, group in groupby(range(len(self.steps)), lambda i: self.steps[i].node.loop):
            places = list(group)
            for turn in range(1 if loop is None else loop.trip_count):
                yield from ((i, turn) for i in places)

    def written_states(self) -> frozenset[str]:
        """The states that a run changes."""
        places = (self.allocations[id(v)] for step in self.steps for v in step.outputs)
        return frozenset(name for name, _ in self.state_copies) | {p.name for p in places if p.kind == "state"}

    def signatures(self) -> Iterator[StepSpec]:
        """The steps as a backend is asked about them."""
        for s in self.steps:
            yield s.node.op, tuple(v.spec for v in s.inputs), tuple(v.spec for v in s.outputs), s.node.attrs

    def phase_bytes(self, phase: str) -> int:
        """Bytes of all buffers that nodes of a phase write, before any sharing."""
        return sum(
            align_up(v.spec.nbytes)
            for s in self.steps
            if s.node.phase == phase
            for v in s.outputs
            if self.allocations[id(v)].kind == "arena"
        )


def make_plan(graph: Graph, outputs: Mapping[str, Value], updates: Mapping[str, Value] | None = None,
              backend: Backend | None = None, low_memory: bool = False) -> Plan:  # fmt: skip
    """The plan of a graph.

    ``outputs`` are the values to be read after a run, by name; ``updates`` the new values of states, by the state's
    name, which are in the state's memory when the run ends. With a ``backend`` that has kernels for it, ops are laid
    out and fused for that backend; the plan runs on others as well, but slowly. With ``low_memory`` some of what the
    backward pass needs is computed again instead of being kept. The graph itself stays as it is.
    """
    updates = dict(updates or {})
    nodes = eliminate_dead_code(graph.nodes, [*outputs.values(), *updates.values()])
    if backend is not None:
        nodes, stands = decompose_ops(graph, nodes, backend)
        outputs, updates = replace_values(outputs, stands), replace_values(updates, stands)
    nodes, stands = eliminate_common_subexpressions(nodes)
    nodes = fold_constants(nodes)
    outputs, updates = replace_values(outputs, stands), replace_values(updates, stands)
    transforms = backend is not None and backend.can_fuse
    if transforms or low_memory:
        nodes, stands = clone_nodes(nodes)
        outputs, updates = replace_values(outputs, stands), replace_values(updates, stands)
    if backend is not None and transforms:
        wanted = (*outputs.values(), *updates.values())
        nodes = use_ghost_norm(
            hoist_activation_gradient(fold_batch_norm(hoist_crops(nodes, wanted), wanted), wanted), backend
        )
        nodes = eliminate_dead_code(nodes, wanted)
        nodes = eliminate_dead_code(fold_gradient_casts(save_gates(nodes, backend), backend), wanted)
        nodes = eliminate_dead_code(fuse_norm_activation_gradient(nodes, wanted, backend), wanted)
        defer_state_updates(nodes, outputs)
        nodes, stands = assign_layouts(nodes, outputs, updates, backend)
        outputs, updates = replace_values(outputs, stands), replace_values(updates, stands)
        mark_setup_nodes(nodes, outputs, updates)
        nodes = fuse_ops(group_weight_casts(nodes, backend), outputs, updates, backend)
        if not low_memory:
            nodes = tile_batch(graph, nodes, outputs, updates, backend.cache_bytes)
            nodes = prepack_weights(nodes, updates, backend)
    if not low_memory:
        return _Planner(graph, nodes, outputs, updates).plan()

    def planner(order: list[Node]) -> _Planner:
        return _Planner(graph, order, outputs, updates, _LOW_MEMORY_FRAGMENTATION)

    before = _Planner(graph, nodes, outputs, updates).plan().arena_bytes
    wanted = (*outputs.values(), *updates.values())
    again = rematerialize(nodes, wanted, backend, lambda o: planner(o).load())
    plan = planner(again).plan()
    plan.saved_bytes = before - plan.arena_bytes
    return plan


class _Planner:
    """Lifetimes, sharing, places."""

    def __init__(self, graph: Graph, nodes: list[Node], outputs: dict[str, Value], updates: dict[str, Value],
                 holes: float = MAX_FRAGMENTATION):  # fmt: skip
        self.holes = holes
        self.graph, self.nodes, self.outputs, self.updates = graph, nodes, outputs, updates
        self.root: dict[int, Value] = {}  # a view's storage is its root's
        self.values: dict[int, Value] = {}
        self.last: dict[int, int] = {}  # by root: the last step that reads it
        self.born: dict[int, int] = {}
        self.states: dict[str, Value] = {}
        self.in_state: dict[int, str] = {}  # roots that live in a state's memory
        self.part: dict[int, int] = {}  # slices of whole values, which are their roots: their bytes
        self.kept: dict[int, int] = {}  # roots that outlive a run: their offsets

    def find(self, value: Value) -> Value:
        return self.root.get(id(value), value)

    def plan(self) -> Plan:
        steps = self._steps()
        self._lifetimes(steps)
        copies = self._updates(steps)
        kept, watched = self._once(steps)
        share = self._in_place(steps)
        places, arena = self._places(steps, share)
        return Plan(steps, places, self.outputs, dict(self.graph.inputs), self.states, copies, arena, self.values, kept,
                    sum(s.node.phase == SETUP for s in steps), watched)  # fmt: skip

    def load(self) -> MemoryPeak:
        """How many bytes are alive at once, and where the most."""
        steps = self._steps()
        self._lifetimes(steps)
        self._updates(steps)
        self._once(steps)
        _, spans = self._spans(steps, self._in_place(steps))
        found = live_bytes([(a, b, n) for a, b, n in spans.values()])[: len(steps)]
        return MemoryPeak(max(found), found.count(max(found)), steps[found.index(max(found))].node)

    def _once(self, steps: list[Step]) -> tuple[int, tuple[str, ...]]:
        """What outlives a run: its bytes, and the states it follows from."""
        own = {id(v): v for s in steps if s.node.phase == SETUP for v in s.outputs}
        read = {id(self.find(v)) for s in steps if s.node.phase != SETUP for v in s.inputs}
        total = 0
        for key in own.keys() & read:
            self.kept[key] = 0
        for key, value in own.items():
            if key in self.kept:
                self.kept[key] = total
                total += align_up(value.spec.nbytes)
        found = (self.find(v) for s in steps if s.node.phase == SETUP for v in s.inputs)
        return total, tuple(sorted({v.name for v in found if v.kind == "state"}))

    def _steps(self) -> list[Step]:
        steps = []
        for node in self.nodes:
            if node.op is concat_view:
                self.root[id(node.inputs[0])] = node.outputs[0]
                self.part[id(node.inputs[0])] = node.inputs[0].spec.nbytes
        for node in self.nodes:
            for v in (*node.inputs, *node.outputs):
                self.values[id(v)] = v
            if node.op is concat_view:
                continue
            if node.op.is_view:
                source, view = node.inputs[0], node.outputs[0]
                self.root[id(view)] = self.find(source)
                if node.op is slice_view or (id(source) in self.part and node.loop is not None):
                    self.part[id(view)] = view.spec.nbytes
                continue
            steps.append(Step(node, node.inputs, node.outputs))
        for v in (*self.outputs.values(), *self.updates.values()):
            self.values[id(v)] = v
        for v in self.values.values():
            if v.kind == "state":
                self.states[v.name] = v
        for name in self.updates:
            self.states.setdefault(name, self.graph.states[name])
        return steps

    def _lifetimes(self, steps: list[Step]) -> None:
        for i, step in enumerate(steps):
            for v in step.inputs:
                self.last[id(self.find(v))] = i
            for v in map(self.find, step.outputs):
                self.born.setdefault(id(v), i)
                self.last.setdefault(id(v), i)
        self._turns(steps)
        end = len(steps)
        for v in (*self.outputs.values(), *self.updates.values()):
            self.last[id(self.find(v))] = end

    def _turns(self, steps: list[Step]) -> None:
        """Whole values that a loop writes, and all that it reads from before, are alive through all of its turns."""
        for loop, group in groupby(range(len(steps)), lambda i: steps[i].node.loop):
            if loop is None:
                continue
            places = list(group)
            first, last = places[0], places[-1]
            for step in steps[first : last + 1]:
                for v in map(self.find, step.inputs):
                    if self.born.get(id(v), -1) < first:
                        self.last[id(v)] = max(self.last[id(v)], last)
                for v in step.outputs:
                    if id(v) in self.part:
                        root = id(self.find(v))
                        self.born[root], self.last[root] = first, max(self.last[root], last)

    def _updates(self, steps: list[Step]) -> list[tuple[str, Value]]:
        """States whose new value may be written straight over the old one; the others are copied at the end."""
        outputs = {id(self.find(v)) for v in self.outputs.values()}
        copies, taken = [], set()
        for name, new in self.updates.items():
            root, state = self.find(new), self.states[name]
            if root is state:
                continue
            at = self.born.get(id(root))
            if at is not None and steps[at].node.loop is None and id(root) not in outputs and id(root) not in taken:
                step = steps[at]
                source = step.node.op.inplace_map(step.node.attrs).get(root.index)
                over = source is not None and self.find(step.inputs[source]) is state
                if over and self.last.get(id(state), -1) <= at and root.spec == state.spec:
                    self.in_state[id(root)] = name
                    taken.add(id(root))
                    continue
            copies.append((name, new))
        return copies

    def _in_place(self, steps: list[Step]) -> dict[int, int]:
        """Outputs that may take the memory of an input that nobody reads afterwards: output id -> input root id."""
        share: dict[int, int] = {}
        for i, step in enumerate(steps):
            used: set[int] = set()
            for out, source in step.node.op.inplace_map(step.node.attrs).items():
                value, old = step.outputs[out], self.find(step.inputs[source])
                if id(value) in self.part or id(step.inputs[source]) in self.part:
                    continue
                if step.node.loop is not None and steps[self.born.get(id(old), 0)].node.loop != step.node.loop:
                    continue  # the next turn reads it again
                if id(value) in self.kept or id(old) in self.kept:
                    continue
                if id(value) in self.in_state or old.kind != "node" or id(old) in self.in_state or id(old) in used:
                    continue
                readers = [k for k, v in enumerate(step.inputs) if self.find(v) is old]
                if self.last[id(old)] == i and old.spec.nbytes == value.spec.nbytes and len(readers) == 1:
                    there = step.inputs[source].spec
                    if there.shape != value.shape or there.layout != value.spec.layout:
                        continue
                    share[id(value)] = id(old)
                    used.add(id(old))
        return share

    def _spans(self, steps: list[Step], share: dict[int, int]) -> tuple[dict[int, int], dict[int, list[int]]]:
        """The buffers of the arena: whose buffer each value is in, and each one's first step, last step and bytes."""
        owner: dict[int, int] = {}
        spans: dict[int, list[int]] = {}
        for step in steps:
            for v in map(self.find, step.outputs):
                if id(v) in self.in_state or id(v) in self.kept:
                    continue
                mine = owner[id(v)] = owner[share[id(v)]] if id(v) in share else id(v)
                if mine == id(v):
                    spans[mine] = [self.born[mine], self.last[mine], v.spec.nbytes]
                else:
                    spans[mine][1] = max(spans[mine][1], self.last[id(v)])
        return owner, spans

    def _places(self, steps: list[Step], share: dict[int, int]) -> tuple[dict[int, Allocation], int]:
        owner, spans = self._spans(steps, share)
        keys = list(spans)
        offsets, arena = assign_offsets([(a, b, n) for a, b, n in (spans[k] for k in keys)], self.holes)
        at = dict(zip(keys, offsets, strict=True))
        places: dict[int, Allocation] = {}
        for v in self.values.values():
            root = self.find(v)
            stride = self.part.get(id(v), 0)
            if id(root) in self.in_state:
                places[id(v)] = Allocation("state", name=self.in_state[id(root)])
            elif id(root) in self.kept:
                places[id(v)] = Allocation("persistent", offset=self.kept[id(root)])
            elif root.kind == "node":
                places[id(v)] = Allocation("arena", offset=at[owner[id(root)]], stride=stride)
            else:
                places[id(v)] = Allocation(root.kind, name=root.name, value=root, stride=stride)
        return places, arena
