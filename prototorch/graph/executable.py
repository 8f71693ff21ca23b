"""From a plan of graph values to the executable plan that a backend runs: values become buffers."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from prototorch.engine.backends.executable_plan import (
    Buffer,
    ExecutablePlan,
    ExecutableStep,
    PersistentTensor,
    ValueGuard,
)
from prototorch.graph.ir import Node, Value
from prototorch.graph.plan import Plan

__all__ = ["make_executable"]


def make_executable(plan: Plan) -> ExecutablePlan:
    """The executable plan of a plan."""
    buffers = {value: _buffer(value, plan) for value in plan.allocations}
    steps = tuple(
        ExecutableStep(
            step.node.op,
            tuple(buffers[v] for v in step.inputs),
            tuple(buffers[v] for v in step.outputs),
            step.node.attrs,
            step.node.phase,
            step.node.scope,
            step.node.loop.trip_count if step.node.loop else 1,
        )
        for step in plan.steps
    )
    return ExecutablePlan(
        steps=steps,
        schedule=tuple(plan.schedule()),
        inputs={name: v.spec for name, v in plan.inputs.items()},
        outputs={name: buffers[v] for name, v in plan.outputs.items()},
        states={name: v.spec for name, v in plan.states.items()},
        state_copies=tuple((name, buffers[v]) for name, v in plan.state_copies),
        written_states=plan.written_states(),
        guarded_states=plan.guarded_states,
        has_bounded_updates=plan.has_bounded_updates,
        arena_bytes=plan.arena_bytes,
        persistent_bytes=plan.persistent_bytes,
        persistent_tensors=tuple(_persistent_tensors(plan)),
        setup_steps=plan.setup_steps,
        dependencies=plan.dependencies,
        value_guard=_value_guard(plan, buffers),
    )


def _value_guard(plan: Plan, buffers: Mapping[Value, Buffer]) -> ValueGuard | None:
    count = plan.outside_count
    if count is None:
        return None
    step = next(i for i, s in enumerate(plan.steps) if count in s.outputs)
    return ValueGuard(step, buffers[count], tuple((check, buffers[value]) for check, value in plan.value_checks))


def _buffer(value: Value, plan: Plan) -> Buffer:
    place = plan.allocations[value]
    constant = None if place.kind != "constant" or place.value is None else place.value.array
    return Buffer(place.kind, value.spec, place.offset, place.name, constant, place.stride)


def _persistent_tensors(plan: Plan) -> list[PersistentTensor]:
    """The persistent outputs of the setup steps, each with a key of the computation that gives it."""
    origins: dict[Value, tuple[Hashable, frozenset[str]]] = {}

    def computation(value: Value) -> tuple[Hashable, frozenset[str]]:
        place = plan.allocations[value]
        if place.kind == "state":
            return ("state", place.name, value.spec), frozenset((place.name,))
        if value.kind == "constant":
            return ("constant", value.spec, np.asarray(value.array).tobytes()), frozenset()
        if value not in origins:  # a view of a value that is known
            assert value.producer is not None
            key, names = computation(value.producer.inputs[0])
            origins[value] = ("view", value.spec, key), names
        return origins[value]

    tensors: list[PersistentTensor] = []
    for step in plan.steps[: plan.setup_steps]:
        operands = [computation(v) for v in step.inputs]
        states = frozenset[str]().union(*(names for _, names in operands))
        head = step.node.op.name, _attrs_key(step.node), tuple(key for key, _ in operands)
        for i, value in enumerate(step.outputs):
            key = (*head, i, value.spec)
            origins[value] = key, states
            place = plan.allocations[value]
            if place.kind == "persistent":
                tensors.append(PersistentTensor(place.offset, value.spec.nbytes, key, tuple(sorted(states))))
    return tensors


def _attrs_key(node: Node) -> tuple[tuple[str, Any], ...]:
    """A node's attributes; of a prepacked operand with a named layout the layout alone, whatever op uses it."""
    return tuple(sorted((k, v) for k, v in node.attrs.items() if k != "use" or node.attrs.get("form") is None))
