"""A plan as a person reads it: a line for each step, with the kernel that runs it and the memory that it writes.

The text depends on the plan alone and on nothing of the machine, so that plans can be saved and compared.

    12 fwd conv2d_2  conv + add + relu  native/conv  #11 ./kernel ./bias -> 2x50x8x8 @18432+25600

is step 12, of the forward pass and the layer conv2d_2: a fused group of three ops, run by a kernel of the family "conv"
at the level "native". It reads what step 11 wrote (``#11.1`` would be the second output of that step) and the layer's
own weights, and writes 25600 bytes of the arena from byte 18432 on; ``over #11`` means the memory of an input that
nobody reads any more, ``in ./kernel`` that a state is updated in place. ``rec`` instead of the phase marks a step of
the forward pass that is computed again (``compile { memory: low }``); ``x8`` behind the ops marks a step of a loop,
which with its neighbours runs for each of 8 slices of the batch. ``set`` marks the setup steps, which run again only
when weights have changed; they write memory that is persistent between runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from prototorch.engine.backends.core import Backend
from prototorch.engine.backends.watching import find_watch
from prototorch.graph.executable import make_executable
from prototorch.graph.ir import SETUP, Value
from prototorch.graph.liveness import Step
from prototorch.graph.plan import Plan
from prototorch.ops.core import Op
from prototorch.ops.operators import OPS
from prototorch.ops.prepack import apply_prepacked
from prototorch.spec import Spec

__all__ = [
    "PHASE_LABELS",
    "PlanDescription",
    "PlannedStep",
    "StepOutput",
    "describe_plan",
    "format_constant",
    "format_spec",
    "member_ops",
    "shorten_state_name",
]

PHASE_LABELS = {"forward": "fwd", "backward": "bwd", "update": "upd", SETUP: "set"}
_REMATERIALIZED = "rec"
_LAYOUTS = {"channels_last": "cl"}
_DTYPES = {"float": "f", "bfloat": "bf", "int": "i", "uint": "u"}
_MAX_LISTED = 8  # inputs and outputs of a step that are listed one by one


@dataclass(frozen=True)
class StepOutput:
    """An output of a step: its spec, and its allocation: "arena", "persistent" or "state" (with the name of the state),
    offset and bytes. ``alias_of`` is the input whose memory it takes."""

    shape: tuple[int, ...]
    dtype: str
    layout: str | None
    allocation: str
    offset: int
    nbytes: int
    state: str = ""
    alias_of: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The object that ``show --plan --json`` writes of it."""
        return {
            "shape": self.shape, "dtype": self.dtype, "layout": self.layout, "place": self.allocation,
            "offset": self.offset, "nbytes": self.nbytes, "state": self.state, "over": self.alias_of,
        }  # fmt: skip


@dataclass(frozen=True)
class PlannedStep:
    """A step of a plan. ``members`` are the ops of a fused group, else the one op; ``layers`` the layers they are
    of; ``level`` and ``kernel`` the kernel that runs it. ``is_rematerialized``: it computes again what the forward pass
    did not save. ``trip_count``: it runs for each of so many slices of the batch, with the other steps of its loop."""

    number: int
    phase: str
    layer: str
    layers: tuple[str, ...]
    op: str
    members: tuple[str, ...]
    level: str
    kernel: str
    reads: tuple[str, ...]
    writes: tuple[StepOutput, ...]
    is_rematerialized: bool = False
    trip_count: int = 1

    def as_dict(self) -> dict[str, Any]:
        """The object that ``show --plan --json`` writes of it."""
        return {
            "number": self.number, "phase": self.phase, "layer": self.layer, "layers": self.layers, "op": self.op,
            "members": self.members, "level": self.level, "kernel": self.kernel, "reads": self.reads,
            "writes": [w.as_dict() for w in self.writes], "again": self.is_rematerialized, "times": self.trip_count,
        }  # fmt: skip


@dataclass(frozen=True)
class PlanDescription:
    """A whole plan. Sizes are bytes; ``outputs`` and ``state_copies`` map names to the values they are read from;
    ``saved_bytes``: by how much rematerialization makes the arena smaller; ``guard``: how the run knows that what it
    trains stays finite, "" for a plan that trains nothing."""

    title: str
    steps: tuple[PlannedStep, ...]
    arena_bytes: int
    state_bytes: int
    input_bytes: int
    outputs: dict[str, str] = field(default_factory=dict)
    state_copies: dict[str, str] = field(default_factory=dict)
    persistent_bytes: int = 0
    saved_bytes: int = 0
    guard: str = ""

    def count_steps(self) -> dict[str, dict[str, int]]:
        """How many steps there are by phase, by level, and how many are fused groups."""
        return {
            "phase": dict(Counter(s.phase for s in self.steps)),
            "level": dict(Counter(s.level for s in self.steps)),
            "fused": {"groups": sum(len(s.members) > 1 for s in self.steps),
                      "members": sum(len(s.members) for s in self.steps if len(s.members) > 1)},
        }  # fmt: skip

    def as_dict(self) -> dict[str, Any]:
        """The object that ``show --plan --json`` writes of it."""
        return {
            "title": self.title, "steps": [s.as_dict() for s in self.steps], "arena": self.arena_bytes,
            "states": self.state_bytes, "inputs": self.input_bytes, "outputs": self.outputs,
            "copies": self.state_copies, "kept": self.persistent_bytes, "saved": self.saved_bytes, "guard": self.guard,
            "totals": self.count_steps(),
        }  # fmt: skip

    def lines(self, offsets: bool = True) -> Iterator[str]:
        """The text, line by line; without ``offsets`` a change of one step leaves most other lines as they are."""
        yield self.title
        for step in self.steps:
            yield _format_step(step, offsets)
        for name, source in self.outputs.items():
            yield f"output {name} = {source}"
        for name, source in self.state_copies.items():
            yield f"copied at the end: {source} to {name}"
        if self.guard:
            yield f"guard: {self.guard}"
        counts = self.count_steps()
        yield f"{len(self.steps)} steps: {_format_counts(counts['phase'])}; kernels: {_format_counts(counts['level'])}"
        if counts["fused"]["groups"]:
            yield f"{counts['fused']['members']} ops are fused into {counts['fused']['groups']} of these steps"
        rematerialized = sum(s.is_rematerialized for s in self.steps)
        if rematerialized:
            yield f"{rematerialized} steps are computed again, which saves {self.saved_bytes:,} bytes"
        persistent = f"persistent {self.persistent_bytes:,}, " if self.persistent_bytes else ""
        yield f"bytes: arena {self.arena_bytes:,}, {persistent}states {self.state_bytes:,}, inputs {self.input_bytes:,}"

    def __str__(self) -> str:
        return "\n".join(self.lines())


def describe_plan(plan: Plan, backend: Backend, title: str) -> PlanDescription:
    """A plan as a backend would run it. Kernels are chosen, but nothing is run and no array is created."""
    names = _ValueNames(plan)
    return PlanDescription(
        title,
        tuple(_describe_step(i, step, plan, backend, names) for i, step in enumerate(plan.steps, 1)),
        plan.arena_bytes,
        sum(v.spec.nbytes for v in plan.states.values()),
        sum(v.spec.nbytes for v in plan.inputs.values()),
        {name: names.name(v) for name, v in plan.outputs.items()},
        {name: names.name(v) for name, v in plan.state_copies},
        plan.persistent_bytes,
        plan.saved_bytes,
        _describe_guard(plan, backend),
    )


def _describe_guard(plan: Plan, backend: Backend) -> str:
    """How the executor keeps what the plan trains finite, see `engine/backends/watching.py`."""
    watch = find_watch(make_executable(plan))
    if watch is None:
        return ""
    if backend.has_device_memory:
        nbytes = sum(b.spec.nbytes for b in watch.operands)
        return f"one launch reads the {len(watch.operands)} arrays that the updates read, {nbytes:,} bytes"
    values, states = (sum(map(len, outputs.values())) for outputs in (watch.values, watch.states))
    names = ", ".join(sorted(b.name for b in watch.operands if b.memory == "input"))
    by_kernels = f"the kernels of {values} values and {states} new states find the largest that they write"
    return f"{by_kernels}; read for it: {names or 'nothing'}"


class _ValueNames:
    """The names of a plan's values in its text."""

    def __init__(self, plan: Plan):
        self._outputs: dict[Value, str] = {}
        for i, step in enumerate(plan.steps, 1):
            for k, v in enumerate(step.outputs):
                self._outputs[v] = f"#{i}.{k}" if k else f"#{i}"

    def name(self, value: Value, layer: str = "") -> str:
        """The name; the states of the layer itself have shorter ones."""
        while value not in self._outputs and value.producer is not None and value.producer.op.is_view:
            value = value.producer.inputs[0]
        if value in self._outputs:
            return self._outputs[value]
        return format_constant(value) if value.kind == "constant" else shorten_state_name(value.name, layer)


def format_constant(value: Value) -> str:
    """A constant of one element as a number, another one by its spec."""
    return f"{value.array.item():.6g}" if value.spec.size == 1 else f"constant {format_spec(value.spec)}"


def shorten_state_name(name: str, layer: str) -> str:
    """A state's name, without the layer's (or the weight's) where it is its own: ``./kernel``, ``:momentum``."""
    if layer and f":{layer}:" in name:
        return name[name.index(f":{layer}:") + len(layer) + 1 :]
    if layer and f":{layer}/" in name:
        return name.replace(f":{layer}/", ":./", 1)
    key = layer.rsplit("/", 1)[0] if name == layer else layer
    return f".{name[len(key) :]}" if key and name.startswith(f"{key}/") else name


def member_ops(op: Op, attrs: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the ops that a step applies: those of a fused group, else the one."""
    if op is apply_prepacked:
        return member_ops(cast(Op, OPS[attrs["use"].op]), dict(attrs["use"].attrs))
    return tuple(line[0] for line in attrs["program"]) if "program" in attrs else (op.name,)


def format_spec(spec: Spec | StepOutput) -> str:
    """A shape with its dtype and layout where they are not the usual ones: ``2x50x8x8``, ``2:i32``, ``2x50x8x8:cl`` for
    channels last."""
    shape = "x".join(map(str, spec.shape)) or "1"
    dtype = "" if spec.dtype == "float32" else f":{_short_dtype(spec.dtype)}"
    return f"{shape}{dtype}{f':{_LAYOUTS.get(spec.layout, spec.layout)}' if spec.layout else ''}"


def _describe_step(number: int, step: Step, plan: Plan, backend: Backend, names: _ValueNames) -> PlannedStep:
    node = step.node
    choice = backend.choose_kernel(node.op, node.input_specs, node.output_specs, node.attrs)
    return PlannedStep(
        number,
        node.phase,
        node.scope,
        node.scopes or (node.scope,),
        node.op.name,
        member_ops(node.op, node.attrs),
        choice.level,
        choice.family,
        tuple(names.name(v, node.scope) for v in step.inputs),
        tuple(_describe_output(v, step, plan, names) for v in step.outputs),
        node.is_rematerialized,
        node.loop.trip_count if node.loop else 1,
    )


def _describe_output(value: Value, step: Step, plan: Plan, names: _ValueNames) -> StepOutput:
    spec, allocation = value.spec, plan.allocations[value]
    alias_of = ""
    if allocation.kind == "arena":
        for v in step.inputs:
            input_allocation = plan.allocations[v]
            if input_allocation.kind == "arena" and input_allocation.offset == allocation.offset and v.spec.size:
                alias_of = names.name(v)
                break
    state = shorten_state_name(allocation.name, step.node.scope) if allocation.kind == "state" else ""
    return StepOutput(
        spec.shape, spec.dtype, spec.layout, allocation.kind, allocation.offset, spec.nbytes, state, alias_of
    )


def _short_dtype(dtype: str) -> str:
    stem = dtype.rstrip("0123456789")
    return _DTYPES.get(stem, stem) + dtype[len(stem) :]


def _format_allocation(output: StepOutput, offsets: bool) -> str:
    if output.allocation == "state":
        return f"in {output.state}"
    at = f"@{output.offset if offsets else ''}+{output.nbytes}"
    if output.allocation == "persistent":
        return f"persistent {at}"
    return at + (f" over {output.alias_of}" if output.alias_of else "")


def _format_step(step: PlannedStep, offsets: bool) -> str:
    kernel = f"{step.level}/{step.kernel}" if step.kernel else step.level
    reads = _join_shortened(step.reads, " ")
    writes = _join_shortened([f"{format_spec(w)} {_format_allocation(w, offsets)}" for w in step.writes], ", ")
    phase = _REMATERIALIZED if step.is_rematerialized else PHASE_LABELS.get(step.phase, step.phase)
    ops = " + ".join(step.members) + (f" x{step.trip_count}" if step.trip_count > 1 else "")
    head = f"{step.number:4} {phase} {step.layer or '-':20} {ops:20} {kernel:18}"
    return f"{head} {reads} -> {writes}" if reads else f"{head} -> {writes}"


def _join_shortened(items: list[str] | tuple[str, ...], between: str) -> str:
    if len(items) <= _MAX_LISTED:
        return between.join(items)
    return between.join(items[: _MAX_LISTED // 2]) + f"{between}... ({len(items)} in all)"


def _format_counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {n}" for name, n in counts.items())
