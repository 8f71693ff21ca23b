"""A plan as a person reads it: a line a step, with the kernel that runs it and the memory that it writes.

The text says what the plan says and nothing of the machine, so that plans can be kept and compared.

    12 fwd conv2d_2  conv + add + relu  native/conv  #11 ./kernel ./bias -> 2x50x8x8 @18432+25600

is step 12, of the forward pass, said by the layer conv2d_2: a fused group of three ops, run by a kernel of the family
"conv" at the level "native". It reads what step 11 wrote (``#11.1`` would be the second output of that step) and the
layer's own weights, and writes 25600 bytes of the arena from byte 18432 on; ``over #11`` says that this is the memory
of an input that nobody reads any more, ``in ./kernel`` that a state is written in its place. ``rec`` instead of the
phase marks a step of the forward pass that is computed again (``compile { memory: low }``); ``x8`` behind the ops marks
a step of a loop, which with its neighbours runs for each of 8 slices of the batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from prototorch.backends.core import Backend
from prototorch.graph.ir import Value
from prototorch.graph.liveness import Step
from prototorch.graph.plan import Plan
from prototorch.spec import Spec

_PHASES = {"forward": "fwd", "backward": "bwd", "update": "upd", "setup": "one"}
_REMATERIALIZED = "rec"
_LAYOUTS = {"channels_last": "cl"}
_DTYPES = {"float": "f", "bfloat": "bf", "int": "i", "uint": "u"}
_MAX_LISTED = 8  # inputs and outputs of a step that are listed one by one


@dataclass(frozen=True)
class StepOutput:
    """An output of a step. ``place``: "arena", "kept" or "state"; ``over``: the input whose memory it takes; bytes."""

    shape: tuple[int, ...]
    dtype: str
    layout: str | None
    place: str
    offset: int
    nbytes: int
    state: str = ""
    over: str = ""


@dataclass(frozen=True)
class PlannedStep:
    """A step of a plan. ``member_ops`` are the ops of a fused group, else the one op; ``layers`` whose they are;
    ``again``: it computes once more what the forward pass did not keep; ``times``: it runs for each of so many slices
    of the batch, with the other steps of its loop."""

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
    again: bool = False
    times: int = 1


@dataclass(frozen=True)
class PlanDescription:
    """A whole plan. ``title`` says of what; sizes are bytes; ``outputs`` and ``copies`` map names to what they are;
    ``saved`` are the bytes by which the arena is smaller because some steps are computed again."""

    title: str
    steps: tuple[PlannedStep, ...]
    arena: int
    states: int
    inputs: int
    outputs: dict[str, str] = field(default_factory=dict)
    copies: dict[str, str] = field(default_factory=dict)
    kept: int = 0
    saved: int = 0

    def counts(self) -> dict[str, dict[str, int]]:
        """How many steps there are by phase, by level, and how many are fused groups."""
        return {
            "phase": dict(Counter(s.phase for s in self.steps)),
            "level": dict(Counter(s.level for s in self.steps)),
            "fused": {"groups": sum(len(s.members) > 1 for s in self.steps),
                      "members": sum(len(s.members) for s in self.steps if len(s.members) > 1)},
        }  # fmt: skip

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "totals": self.counts()}

    def lines(self, offsets: bool = True) -> Iterator[str]:
        """The text, line by line; without ``offsets`` a change in one place leaves most other lines as they are."""
        yield self.title
        for step in self.steps:
            yield _format_step(step, offsets)
        for name, source in self.outputs.items():
            yield f"output {name} = {source}"
        for name, source in self.copies.items():
            yield f"copied at the end: {source} to {name}"
        found = self.counts()
        yield f"{len(self.steps)} steps: {_format_counts(found['phase'])}; kernels: {_format_counts(found['level'])}"
        if found["fused"]["groups"]:
            yield f"{found['fused']['members']} ops are fused into {found['fused']['groups']} of these steps"
        again = sum(s.again for s in self.steps)
        if again:
            yield f"{again} steps are computed again, which saves {self.saved:,} bytes"
        kept = f"kept {self.kept:,}, " if self.kept else ""
        yield f"bytes: arena {self.arena:,}, {kept}states {self.states:,}, inputs {self.inputs:,}"

    def __str__(self) -> str:
        return "\n".join(self.lines())


def describe_plan(plan: Plan, backend: Backend, title: str) -> PlanDescription:
    """What a plan does on a backend. Kernels are chosen, but nothing is run and no array is made."""
    names = _ValueNames(plan)
    return PlanDescription(
        title,
        tuple(_describe_step(i, step, plan, backend, names) for i, step in enumerate(plan.steps, 1)),
        plan.arena_bytes,
        sum(v.spec.nbytes for v in plan.states.values()),
        sum(v.spec.nbytes for v in plan.inputs.values()),
        {name: names.of(v) for name, v in plan.outputs.items()},
        {name: names.of(v) for name, v in plan.state_copies},
        plan.persistent_bytes,
        plan.saved_bytes,
    )


class _ValueNames:
    """What each value of a plan is called."""

    def __init__(self, plan: Plan):
        self.made: dict[Value, str] = {}
        for i, step in enumerate(plan.steps, 1):
            for k, v in enumerate(step.outputs):
                self.made[v] = f"#{i}.{k}" if k else f"#{i}"

    def of(self, value: Value, layer: str = "") -> str:
        """The name; a layer's own states are said shorter."""
        while value not in self.made and value.producer is not None and value.producer.op.is_view:
            value = value.producer.inputs[0]
        if value in self.made:
            return self.made[value]
        if value.kind == "constant":
            return f"{value.array.item():.6g}" if value.array.size == 1 else f"constant {format_spec(value.spec)}"
        return shorten_state_name(value.name, layer)


def shorten_state_name(name: str, layer: str) -> str:
    """A state's name, without the layer's (or the weight's) where it is its own: ``./kernel``, ``:momentum``."""
    if layer and f":{layer}:" in name:
        return name[name.index(f":{layer}:") + len(layer) + 1 :]
    if layer and f":{layer}/" in name:
        return name.replace(f":{layer}/", ":./", 1)
    key = layer.rsplit("/", 1)[0] if name == layer else layer
    return f".{name[len(key) :]}" if key and name.startswith(f"{key}/") else name


def member_ops(op: str, attrs: dict[str, Any]) -> tuple[str, ...]:
    """The ops that a step stands for."""
    if op == "apply_prepacked":
        return member_ops(attrs["use"].op, dict(attrs["use"].attrs))
    return tuple(part[0] for part in attrs["program"]) if "program" in attrs else (op,)


def _describe_step(number: int, step: Step, plan: Plan, backend: Backend, names: _ValueNames) -> PlannedStep:
    node = step.node
    choice = backend.choose_kernel(
        node.op, tuple(v.spec for v in step.inputs), tuple(v.spec for v in step.outputs), node.attrs
    )
    return PlannedStep(
        number,
        node.phase,
        node.scope,
        node.scopes or (node.scope,),
        node.op.name,
        member_ops(node.op.name, node.attrs),
        choice.level,
        choice.family,
        tuple(names.of(v, node.scope) for v in step.inputs),
        tuple(_describe_output(v, step, plan, names) for v in step.outputs),
        node.is_rematerialized,
        node.loop.trip_count if node.loop else 1,
    )


def _describe_output(value: Value, step: Step, plan: Plan, names: _ValueNames) -> StepOutput:
    spec, place = value.spec, plan.allocations[value]
    over = ""
    if place.kind == "arena":
        for v in step.inputs:
            theirs = plan.allocations[v]
            if theirs.kind == "arena" and theirs.offset == place.offset and v.spec.size:
                over = names.of(v)
                break
    state = shorten_state_name(place.name, step.node.scope) if place.kind == "state" else ""
    return StepOutput(spec.shape, spec.dtype, spec.layout, place.kind, place.offset, spec.nbytes, state, over)


def format_spec(spec: Spec | StepOutput) -> str:
    """A shape with its type and layout where they are not the usual ones: ``2x50x8x8``, ``2:i32``, ``2x50x8x8:cl`` for
    channels last."""
    shape = "x".join(map(str, spec.shape)) or "1"
    kind = "" if spec.dtype == "float32" else f":{_short_dtype(spec.dtype)}"
    return f"{shape}{kind}{f':{_LAYOUTS.get(spec.layout, spec.layout)}' if spec.layout else ''}"


def _short_dtype(dtype: str) -> str:
    stem = dtype.rstrip("0123456789")
    return _DTYPES.get(stem, stem) + dtype[len(stem) :]


def _format_allocation(w: StepOutput, offsets: bool) -> str:
    if w.place == "state":
        return f"in {w.state}"
    at = f"@{w.offset if offsets else ''}+{w.nbytes}"
    return f"kept {at}" if w.place == "persistent" else at + (f" over {w.over}" if w.over else "")


def _format_step(step: PlannedStep, offsets: bool) -> str:
    kernel = f"{step.level}/{step.kernel}" if step.kernel else step.level
    reads = _join_shortened(step.reads, " ")
    writes = _join_shortened([f"{format_spec(w)} {_format_allocation(w, offsets)}" for w in step.writes], ", ")
    phase = _REMATERIALIZED if step.again else _PHASES.get(step.phase, step.phase)
    said = " + ".join(step.members) + (f" x{step.times}" if step.times > 1 else "")
    head = f"{step.number:4} {phase} {step.layer or '-':20} {said:20} {kernel:18}"
    return f"{head} {reads} -> {writes}" if reads else f"{head} -> {writes}"


def _join_shortened(items: list[str] | tuple[str, ...], between: str) -> str:
    if len(items) <= _MAX_LISTED:
        return between.join(items)
    return between.join(items[: _MAX_LISTED // 2]) + f"{between}... ({len(items)} in all)"


def _format_counts(counted: dict[str, int]) -> str:
    return ", ".join(f"{name} {n}" for name, n in counted.items())
