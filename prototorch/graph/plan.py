"""The plan: a graph made ready to run. Which steps run in which order, and where each array lies.

A plan knows no arrays. An executor binds it to a backend's memory and to the model's states.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

from prototorch.engine.backends.core import Backend
from prototorch.engine.backends.executable_plan import StepSpec
from prototorch.engine.backends.value_guard import COUNT_OUTPUT, ValueCheck, raise_value_error
from prototorch.graph.allocation import Allocation, plan_memory
from prototorch.graph.ir import SETUP, Graph, Value
from prototorch.graph.liveness import Step
from prototorch.graph.memory_planner import MAX_FRAGMENTATION, align_up
from prototorch.graph.passes.context import PassContext
from prototorch.graph.pipeline import run_pipeline

__all__ = ["Plan", "make_plan"]

_LOW_MEMORY_FRAGMENTATION = 0.01  # of an arena that is to be small


@dataclass
class Plan:
    """Steps, the allocation of each value, and the memory they need: ``arena_bytes``, and ``persistent_bytes``, which
    are the plan's own between its runs.

    The first ``setup_steps`` steps need to run only where a state among ``dependencies`` has changed since they last
    did.
    """

    steps: list[Step]
    allocations: dict[Value, Allocation]
    outputs: dict[str, Value]
    inputs: dict[str, Value]
    states: dict[str, Value]
    state_copies: list[tuple[str, Value]]  # states that take a value at the end of the step
    arena_bytes: int
    persistent_bytes: int = 0
    setup_steps: int = 0
    dependencies: tuple[str, ...] = ()
    guarded_states: frozenset[str] = frozenset()  # see `ExecutablePlan`
    has_bounded_updates: bool = False
    saved_bytes: int = 0  # of the arena, by rematerialization
    outside_count: Value | None = None  # of the values outside of their bounds; None where there are none to count
    value_checks: tuple[tuple[ValueCheck, Value], ...] = ()  # of these values

    def schedule(self) -> Iterator[tuple[int, int]]:
        """The steps in the order in which they run, by number, each with the trip of its loop."""
        for loop, group in groupby(range(len(self.steps)), lambda i: self.steps[i].node.loop):
            numbers = list(group)
            for trip in range(1 if loop is None else loop.trip_count):
                yield from ((i, trip) for i in numbers)

    def written_states(self) -> frozenset[str]:
        """The states that a run changes."""
        output_allocations = (self.allocations[v] for step in self.steps for v in step.outputs)
        return frozenset(name for name, _ in self.state_copies) | {
            a.name for a in output_allocations if a.kind == "state"
        }

    def signatures(self) -> Iterator[StepSpec]:
        """The steps as a backend is asked about them: op, specs of the inputs and outputs, attributes."""
        for step in self.steps:
            yield step.node.op, step.node.input_specs, step.node.output_specs, step.node.attrs

    def phase_bytes(self, phase: str) -> int:
        """Bytes of all buffers that nodes of a phase write, before any sharing."""
        return sum(
            align_up(v.spec.nbytes)
            for step in self.steps
            if step.node.phase == phase
            for v in step.outputs
            if self.allocations[v].kind == "arena"
        )


def make_plan(
    graph: Graph,
    outputs: Mapping[str, Value],
    updates: Mapping[str, Value] | None = None,
    backend: Backend | None = None,
    low_memory: bool = False,
) -> Plan:
    """The plan of a graph, which itself stays as it is.

    ``outputs`` are the values to be read after a run, by name; ``updates`` the new values of states, by the state's
    name, which are in the state's memory when the run ends. With a ``backend`` that has kernels for it, ops are laid
    out and fused for that backend; the plan runs on others as well, but slowly. With ``low_memory`` some of what the
    backward pass needs is computed again instead of being saved.
    """
    compiled = graph.clone(outputs, updates or {})
    context = PassContext(backend, low_memory)
    run_pipeline(compiled, context)
    results = compiled.outputs
    count = results.get(COUNT_OUTPUT)
    if count is not None and count.kind == "constant":  # all indices are known
        raise_value_error((check, results[check.output].array) for check in context.value_checks)
        count = None
    memory = plan_memory(compiled, _LOW_MEMORY_FRAGMENTATION if low_memory else MAX_FRAGMENTATION)
    return Plan(
        memory.steps,
        memory.allocations,
        {name: results[name] for name in outputs},
        compiled.inputs,
        memory.states,
        memory.state_copies,
        memory.arena_bytes,
        memory.persistent_bytes,
        sum(step.node.phase == SETUP for step in memory.steps),
        memory.dependencies,
        saved_bytes=context.bytes_before_rematerialization - memory.arena_bytes if low_memory else 0,
        outside_count=count,
        value_checks=tuple((check, results[check.output]) for check in context.value_checks) if count else (),
    )
