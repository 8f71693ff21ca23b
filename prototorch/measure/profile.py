"""Where the time of a step goes: layer by layer, and step by step of its plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from prototorch.graph.cost import Cost, estimate_cost
from prototorch.graph.net import Net
from prototorch.graph.plan import Plan
from prototorch.graph.plan_printer import PlanDescription, PlannedStep, describe_plan
from prototorch.measure.machine import Peaks, measure_peaks
from prototorch.model.diagnose import default_batch_size, resolve_phase
from prototorch.model.model import Model
from prototorch.runtime.plan_timing import PlanTiming, StepTime, time_plan
from prototorch.train.memory_estimate import bytes_by_layer, bytes_by_purpose
from prototorch.train.step_inputs import PREDICT, kind_of, step_of
from prototorch.train.summary import step_specs
from prototorch.train.synthetic_batch import make_synthetic_batch

__all__ = ["PHASES", "Profile", "ProfileEntry", "build_profile", "find_owner", "profile_step"]

PHASES = ("forward", "backward", "update")


@dataclass
class ProfileEntry:
    """A layer, or one step of the plan. Seconds by phase; ``memory`` are the bytes of what it computes in the forward
    pass, and of its weights with the optimiser's slots; ``fused_into``: the layer whose steps run its forward pass."""

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
        """Operations and bytes per second, and the least time that this machine needs (its roofline) over the time."""
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
    """A measured step. ``step_seconds`` is the time of a whole step, ``setup_seconds`` that of the setup steps, which
    run again only when weights have changed; ``layers`` are in the order of the net, without setup, ``steps`` in the
    order of the plan."""

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
        """The sum of all layers."""
        total = ProfileEntry("total", "")
        for entry in self.layers:
            _accumulate(total, entry.seconds, entry.cost, entry.memory)
        return total

    def as_dict(self) -> dict[str, Any]:
        """For JSON: times in seconds, sizes in bytes."""

        def describe(entry: ProfileEntry) -> dict[str, Any]:
            return {
                "name": entry.name,
                "kind": entry.kind,
                "seconds": entry.seconds,
                **asdict(entry.cost),
                "memory": entry.memory,
                "within": entry.fused_into,
                **entry.rates(self.machine),
            }

        return {
            "title": self.title,
            "batch": self.batch,
            "rounds": self.rounds,
            "seconds": self.step_seconds,
            "once": self.setup_seconds,
            "samples_per_second": self.batch / self.step_seconds,
            "machine": asdict(self.machine),
            "layers": [describe(entry) for entry in self.layers],
            "total": describe(self.total()),
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
    out, else 32. rounds: how often; as often as fits in two seconds where it is left out. The model's weights are
    initialized where there are none; the learning rate is 0, so that training steps do not change them.
    """
    phase, batch = resolve_phase(model, phase), batch or default_batch_size(model)
    plans = model.trainer.plan_cache
    specs = step_specs(model.net, batch)
    executor = plans.executor(phase, specs)
    plan = plans.bound_plan(phase, specs)
    timing = time_plan(executor, make_synthetic_batch(plans, executor.plan, specs), rounds)
    if phase != PREDICT:
        plans.metrics.reset(kind_of(phase))
    what = {"train": "training step", "test": "evaluation step", "predict": "prediction"}[kind_of(phase)]
    what += f" {step_of(phase)!r}" if step_of(phase) else ""
    title = f"{model.net.name}: {what}, batch {batch}, {plans.backend.name}"
    description = describe_plan(plan, plans.backend, title)
    return build_profile(model.net, plan, description, timing, batch, measure_peaks(plans.backend))


def build_profile(
    net: Net, plan: Plan, description: PlanDescription, timing: PlanTiming, batch: int, machine: Peaks
) -> Profile:
    """The times of a plan's steps, summed up by layer."""
    memory = bytes_by_layer(net, plan)
    layers = {n.name: ProfileEntry(n.name, type(n.layer).__name__, memory=sum(memory[n.name])) for n in net.nodes}
    owners = _layers_by_scope(net)
    fused_into: dict[str, str] = {}
    steps: list[tuple[PlannedStep, ProfileEntry]] = []
    setup_seconds = 0.0
    for step, step_timing, cost in _match_steps(plan, description, timing):
        seconds = {step_timing.phase if step_timing.phase in PHASES else PHASES[0]: step_timing.seconds}
        entry = ProfileEntry(step.op, step.kernel)
        _accumulate(entry, seconds, cost)
        steps.append((step, entry))
        if 0 < step.number <= timing.setup_steps:
            setup_seconds += step_timing.seconds
            continue
        name = find_owner(step_timing.scope, step_timing.phase, owners)
        _accumulate(layers.setdefault(name, ProfileEntry(name, "")), seconds, cost)
        if step_timing.phase == "forward":
            for other in step.layers:
                fused_into.setdefault(find_owner(other, step_timing.phase, owners), name)
    for entry in layers.values():
        if not entry.seconds["forward"]:
            entry.fused_into = fused_into.get(entry.name, "")
    return Profile(
        description.title,
        batch,
        timing.rounds,
        timing.seconds,
        setup_seconds,
        machine,
        list(layers.values()),
        steps,
        bytes_by_purpose(plan),
    )


def _match_steps(
    plan: Plan, description: PlanDescription, timing: PlanTiming
) -> Iterator[tuple[PlannedStep, StepTime, Cost]]:
    """Each step that was timed with its description and its cost. A device has steps of its own (number 0): the check
    of the loss, and updates of many weights in one, which cost what their steps would."""
    remaining: dict[tuple[str, str, str], list[tuple[PlannedStep, Cost]]] = {}
    for step, step_description in zip(plan.steps, description.steps, strict=True):
        node = step.node
        cost = estimate_cost(node.op, node.input_specs, node.output_specs, node.attrs)
        key = node.op.name, node.scope, node.phase
        remaining.setdefault(key, []).append((step_description, sum([cost] * (step_description.trip_count - 1), cost)))
    matches: list[tuple[PlannedStep | None, StepTime, Cost]] = []
    for step_timing in timing.steps:
        candidates = remaining.get((step_timing.op, step_timing.scope, step_timing.phase))
        match = candidates.pop(0) if candidates else (None, Cost())
        matches.append((match[0], step_timing, match[1]))
    rest = sum((cost for candidates in remaining.values() for _, cost in candidates), Cost())
    for planned_step, step_timing, cost in matches:
        if planned_step is not None:
            yield planned_step, step_timing, cost
            continue
        device_step = PlannedStep(
            0, step_timing.phase, step_timing.scope, (), step_timing.op, (step_timing.op,), "device", "", (), ()
        )
        yield device_step, step_timing, rest if step_timing.op == "updates" else cost
        rest = Cost() if step_timing.op == "updates" else rest


def _layers_by_scope(net: Net) -> dict[str, str]:
    """The layer of each scope: by its name, and by the prefix of its weights; the first layer owns shared weights."""
    by_weights = {node.weights_key: node.name for node in reversed(net.nodes)}
    return {**by_weights, **{node.name: node.name for node in net.nodes}}


def find_owner(scope: str, phase: str, owners: Mapping[str, str]) -> str:
    """The row of the table that a step belongs to: of a layer, a loss or a metric, else of the rest of a phase."""
    name = scope
    while name:
        if name in owners:
            return owners[name]
        name = name.rpartition("/")[0]
    return scope or {"update": "optimizer", "forward": "totals"}.get(phase, phase)


def _accumulate(entry: ProfileEntry, seconds: Mapping[str, float], cost: Cost, memory: int = 0) -> None:
    for phase, time in seconds.items():
        entry.seconds[phase] = entry.seconds.get(phase, 0.0) + time
    entry.cost += cost
    entry.memory += memory
