"""In-place execution: which outputs are written over a state, or over an input that nobody reads afterwards."""

from __future__ import annotations

from collections.abc import Container, Mapping

from prototorch.graph.ir import Value
from prototorch.graph.liveness import Liveness

__all__ = ["update_states_in_place", "write_over_inputs"]


def update_states_in_place(
    liveness: Liveness,
    outputs: Mapping[str, Value],
    updates: Mapping[str, Value],
    states: Mapping[str, Value],
    flag: Value | None = None,
    in_updates_only: bool = False,
) -> tuple[dict[Value, str], list[tuple[str, Value]]]:
    """The storages that are written straight over a state, with its name; and for the other states (name, value) what
    must be copied into them at the end of the step. flag: what decides whether the run goes on; no state is written
    before it is known. in_updates_only: the updates may not take place; no state is written by what runs before
    them."""
    flag_step = -1 if flag is None else liveness.first_def.get(liveness.storage(flag), -1)
    read_after_run = {liveness.storage(v) for v in outputs.values()}
    in_state: dict[Value, str] = {}
    copies = []
    for name, new in updates.items():
        root, state = liveness.storage(new), states[name]
        if root is state:
            continue
        at = liveness.first_def.get(root)
        if at is not None and at > flag_step and root not in read_after_run and root not in in_state:
            step = liveness.steps[at]
            source = step.node.op.inplace_map(step.node.attrs).get(root.index) if step.node.loop is None else None
            is_late = not in_updates_only or step.node.phase == "update"
            over_state = source is not None and is_late and liveness.storage(step.inputs[source]) is state
            if over_state and liveness.last_use.get(state, -1) <= at and root.spec == state.spec:
                in_state[root] = name
                continue
        copies.append((name, new))
    return in_state, copies


def write_over_inputs(
    liveness: Liveness, in_state: Container[Value], persistent: Container[Value]
) -> dict[Value, Value]:
    """For each output that takes the memory of an input that nobody reads afterwards: the storage of that input."""
    alias: dict[Value, Value] = {}
    steps, last_use, slices = liveness.steps, liveness.last_use, liveness.slice_bytes
    for i, step in enumerate(steps):
        used: set[Value] = set()
        for out, source in step.node.op.inplace_map(step.node.attrs).items():
            value, old = step.outputs[out], liveness.storage(step.inputs[source])
            if value in slices or step.inputs[source] in slices:
                continue
            if step.node.loop is not None and steps[liveness.first_def.get(old, 0)].node.loop != step.node.loop:
                continue  # the next trip of the loop reads it again
            if value in persistent or old in persistent or value in in_state or old in in_state:
                continue
            if old.kind != "node" or old in used or last_use[old] != i or old.spec.nbytes != value.spec.nbytes:
                continue
            if sum(liveness.storage(v) is old for v in step.inputs) != 1:
                continue
            there = step.inputs[source].spec
            if there.shape == value.shape and there.layout == value.spec.layout:
                alias[value] = old
                used.add(old)
    return alias
