"""Where the time of a step goes: layer by layer, and step by step of its plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from prototorch.checking import default_batch_size, resolve_phase
from prototorch.graph.cost import Cost, estimate_cost
from prototorch.graph.net import Net
from prototorch.graph.plan import Plan
from prototorch.graph.plan_printer import PlanDescription, PlannedStep, describe_plan
from prototorch.measure.machine import Peaks, measure_peaks
from prototorch.model import Model
from prototorch.runtime.plan_timing import PlanTiming, StepTime, time_plan
from prototorch.train.memory_estimate import bytes_by_layer, bytes_by_purpose
from prototorch.train.step_inputs import PREDICT
from prototorch.train.summary import step_specs
from prototorch.train.synthetic_batch import make_synthetic_batch

PHASES = ("forward", "backward", "update")


@dataclass
class ProfileEntry:
    """A layer, or one step of the plan. Seconds by phase; ``memory`` are bytes of what it computes in the forward pass,
    and of its weights with the optimiser's slots; ``within``: the layer whose steps do its forward pass as well."""

    name: str
    kind: str
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PHASES, 0.0))
    cost: Cost = field(default_factory=Cost)
    memory: int = 0
    fused_into: str = ""

    @property
    def total(self) -> float:
        """Seconds of all phases."""
        return sum(self.seconds.values())

    def rates(self, machine: Peaks) -> dict[str, float]:
        """Operations and bytes a second, and the share of the time that this machine would need at least."""
        time = self.total
        if not time:
            return {"flops_per_second": 0.0, "bytes_per_second": 0.0, "of_peak": 0.0}
        return {
            "flops_per_second": self.cost.flops / time,
            "bytes_per_second": self.cost.nbytes / time,
            "of_peak": self.cost.seconds(machine.flops, machine.bandwidth) / time,
        }


@dataclass
class Profile:
    """A measured step. ``whole`` are the seconds of the step as it runs in earnest, ``once`` those of what follows from
    the weights alone and is computed again only when they have changed; ``layers`` in the net's order, without that,
    ``steps`` in the plan's."""

    title: str
    batch: int
    rounds: int
    step_seconds: float
    setup_seconds: float
    machine: Peaks
    layers: list[ProfileEntry]
    steps: list[tuple[PlannedStep, ProfileEntry]]
    memory: dict[str, int]

    def total(self) -> ProfileEntry:
        """All parts as one."""
        made = ProfileEntry("total", "")
        for part in self.layers:
            _accumulate(made, part.seconds, part.cost, part.memory)
        return made

    def as_dict(self) -> dict[str, Any]:
        """For JSON: times in seconds, sizes in bytes."""

        def told(part: ProfileEntry) -> dict[str, Any]:
            return {"name": part.name, "kind": part.kind, "seconds": part.seconds, **asdict(part.cost),
                    "memory": part.memory, "within": part.fused_into, **part.rates(self.machine)}  # fmt: skip

        return {
            "title": self.title,
            "batch": self.batch,
            "rounds": self.rounds,
            "seconds": self.step_seconds,
            "once": self.setup_seconds,
            "samples_per_second": self.batch / self.step_seconds,
            "machine": asdict(self.machine),
            "layers": [told(p) for p in self.layers],
            "total": told(self.total()),
            "steps": [
                {**s.as_dict(), "seconds": p.total, **asdict(p.cost), **p.rates(self.machine)} for s, p in self.steps
            ],
            "memory": self.memory,
        }


def profile_step(
    model: Model, phase: str | None = None, batch: int | None = None, rounds: int | None = None
) -> Profile:
    """Run a step of a model on random inputs and measure it.

    phase: "train" (the default of a model with a loss), "test" or "predict". batch: the fit block's where it is left
    out, else 32. rounds: how often; as often as fits in two seconds where it is left out. The model's weights are made
    where there are none; the learning rate is 0, so training steps leave them as they are.
    """
    phase, batch = resolve_phase(model, phase), batch or default_batch_size(model)
    program = model.trainer.plan_cache
    specs = step_specs(model.net, batch)
    executor = program.executor(phase, specs)
    plan = program.bound_plan(phase, specs)
    timing = time_plan(executor, make_synthetic_batch(program, executor.plan, specs), rounds)
    if phase != PREDICT:
        program.metrics.reset(phase)
    what = {"train": "training step", "test": "evaluation step", "predict": "prediction"}[phase]
    title = f"{model.net.name}: {what}, batch {batch}, {program.backend.name}"
    described = describe_plan(plan, program.backend, title)
    return build_profile(model.net, plan, described, timing, batch, measure_peaks(program.backend))


def build_profile(
    net: Net, plan: Plan, described: PlanDescription, timing: PlanTiming, batch: int, machine: Peaks
) -> Profile:
    """Times of a plan's pieces put together by layer."""
    memory = bytes_by_layer(net, plan)
    layers = {n.name: ProfileEntry(n.name, type(n.layer).__name__, memory=sum(memory[n.name])) for n in net.nodes}
    owners = _layers_by_scope(net)
    within: dict[str, str] = {}
    steps: list[tuple[PlannedStep, ProfileEntry]] = []
    once = 0.0
    for told, piece, spent in _match_pieces(plan, described, timing):
        times = {piece.phase if piece.phase in PHASES else PHASES[0]: piece.seconds}
        alone = ProfileEntry(told.op, told.kernel)
        _accumulate(alone, times, spent)
        steps.append((told, alone))
        if 0 < told.number <= timing.setup_steps:
            once += piece.seconds
            continue
        name = find_owner(piece.scope, piece.phase, owners)
        _accumulate(layers.setdefault(name, ProfileEntry(name, "")), times, spent)
        if piece.phase == "forward":
            for other in told.layers:
                within.setdefault(find_owner(other, piece.phase, owners), name)
    for part in layers.values():
        if not part.seconds["forward"]:
            part.fused_into = within.get(part.name, "")
    return Profile(described.title, batch, timing.rounds, timing.seconds, once, machine, list(layers.values()), steps,
                   bytes_by_purpose(plan))  # fmt: skip


def _match_pieces(
    plan: Plan, described: PlanDescription, timing: PlanTiming
) -> Iterator[tuple[PlannedStep, StepTime, Cost]]:
    """Each piece that was timed with the step of the plan that it is, and its cost. A device has pieces of its own
    (number 0): the check of the loss, and updates of many weights in one, which cost what their steps would."""
    waiting: dict[tuple[str, str, str], list[tuple[PlannedStep, Cost]]] = {}
    for step, told in zip(plan.steps, described.steps, strict=True):
        ins, outs = tuple(v.spec for v in step.inputs), tuple(v.spec for v in step.outputs)
        key = step.node.op.name, step.node.scope, step.node.phase
        once = estimate_cost(step.node.op, ins, outs, step.node.attrs)
        waiting.setdefault(key, []).append((told, sum([once] * (told.trip_count - 1), once)))
    found: list[tuple[PlannedStep | None, StepTime, Cost]] = []
    for piece in timing.steps:
        steps = waiting.get((piece.op, piece.scope, piece.phase))
        told_cost = steps.pop(0) if steps else (None, Cost())
        found.append((told_cost[0], piece, told_cost[1]))
    rest = sum((spent for steps in waiting.values() for _, spent in steps), Cost())
    for known, piece, spent in found:
        if known is not None:
            yield known, piece, spent
            continue
        own = PlannedStep(0, piece.phase, piece.scope, (), piece.op, (piece.op,), "device", "", (), ())
        yield own, piece, rest if piece.op == "updates" else spent
        rest = Cost() if piece.op == "updates" else rest


def _layers_by_scope(net: Net) -> dict[str, str]:
    """Layer by scope: its name, and the names in front of its weights'. The first one owns weights that are shared."""
    made = {node.weights_key: node.name for node in reversed(net.nodes)}
    return {**made, **{node.name: node.name for node in net.nodes}}


def find_owner(scope: str, phase: str, owners: Mapping[str, str]) -> str:
    """Which line of the table a step belongs to: a layer's, a loss's or metric's, else that of the rest of a phase."""
    name = scope
    while name:
        if name in owners:
            return owners[name]
        name = name.rpartition("/")[0]
    return scope or {"update": "optimizer", "forward": "totals"}.get(phase, phase)


def _accumulate(part: ProfileEntry, seconds: Mapping[str, float], spent: Cost, memory: int = 0) -> None:
    for phase, time in seconds.items():
        part.seconds[phase] = part.seconds.get(phase, 0.0) + time
    part.cost += spent
    part.memory += memory
