"""Where the time of a step goes: layer by layer, and step by step of its plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from prototorch.engine.timing import Piece, Timing, timed
from prototorch.graph.cost import Cost, cost
from prototorch.graph.describe import Description, PlannedStep, describe
from prototorch.graph.net import Net
from prototorch.graph.plan import Plan
from prototorch.inspect import batch_of, phase_of
from prototorch.measure.machine import Peaks, peaks
from prototorch.model import Model
from prototorch.train.memory import by_layer, by_purpose
from prototorch.train.program import PREDICT
from prototorch.train.rehearsal import rehearsal
from prototorch.train.summary import step_specs

PHASES = ("forward", "backward", "update")


@dataclass
class Part:
    """A layer, or one step of the plan. Seconds by phase; ``memory`` are bytes of what it computes in the forward pass,
    and of its weights with the optimiser's slots; ``within``: the layer whose steps do its forward pass as well."""

    name: str
    kind: str
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PHASES, 0.0))
    cost: Cost = field(default_factory=Cost)
    memory: int = 0
    within: str = ""

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
    whole: float
    once: float
    machine: Peaks
    layers: list[Part]
    steps: list[tuple[PlannedStep, Part]]
    memory: dict[str, int]

    def total(self) -> Part:
        """All parts as one."""
        made = Part("total", "")
        for part in self.layers:
            _into(made, part.seconds, part.cost, part.memory)
        return made

    def as_dict(self) -> dict[str, Any]:
        """For JSON: times in seconds, sizes in bytes."""

        def told(part: Part) -> dict[str, Any]:
            return {"name": part.name, "kind": part.kind, "seconds": part.seconds, **asdict(part.cost),
                    "memory": part.memory, "within": part.within, **part.rates(self.machine)}  # fmt: skip

        return {
            "title": self.title, "batch": self.batch, "rounds": self.rounds, "seconds": self.whole,
            "once": self.once, "samples_per_second": self.batch / self.whole, "machine": asdict(self.machine),
            "layers": [told(p) for p in self.layers], "total": told(self.total()),
            "steps": [{**asdict(s), "seconds": p.total, **asdict(p.cost), **p.rates(self.machine)}
                      for s, p in self.steps],
            "memory": self.memory,
        }  # fmt: skip


def profiled(model: Model, phase: str | None = None, batch: int | None = None, rounds: int | None = None) -> Profile:
    """Run a step of a model on random inputs and measure it.

    phase: "train" (the default of a model with a loss), "test" or "predict". batch: the fit block's where it is left
    out, else 32. rounds: how often; as often as fits in two seconds where it is left out. The model's weights are made
    where there are none; the learning rate is 0, so training steps leave them as they are.
    """
    phase, batch = phase_of(model, phase), batch or batch_of(model)
    program = model.trainer.program
    specs = step_specs(model.net, batch)
    runner = program.runner(phase, specs)
    timing = timed(runner, rehearsal(program, runner.plan, specs), rounds)
    if phase != PREDICT:
        program.reset(phase)
    what = {"train": "training step", "test": "evaluation step", "predict": "prediction"}[phase]
    title = f"{model.net.name}: {what}, batch {batch}, {program.backend.name}"
    described = describe(runner.plan, program.backend, title)
    return profile_of(model.net, runner.plan, described, timing, batch, peaks(program.backend))


def profile_of(net: Net, plan: Plan, described: Description, timing: Timing, batch: int, machine: Peaks) -> Profile:
    """Times of a plan's pieces put together by layer."""
    memory = by_layer(net, plan)
    layers = {n.name: Part(n.name, type(n.layer).__name__, memory=sum(memory[n.name])) for n in net.nodes}
    owners = _owners(net)
    within: dict[str, str] = {}
    steps: list[tuple[PlannedStep, Part]] = []
    once = 0.0
    for told, piece, spent in _matched(plan, described, timing):
        times = {piece.phase if piece.phase in PHASES else PHASES[0]: piece.seconds}
        alone = Part(told.op, told.kernel)
        _into(alone, times, spent)
        steps.append((told, alone))
        if 0 < told.number <= timing.once:
            once += piece.seconds
            continue
        name = owner_of(piece.scope, piece.phase, owners)
        _into(layers.setdefault(name, Part(name, "")), times, spent)
        if piece.phase == "forward":
            for other in told.layers:
                within.setdefault(owner_of(other, piece.phase, owners), name)
    for part in layers.values():
        if not part.seconds["forward"]:
            part.within = within.get(part.name, "")
    return Profile(described.title, batch, timing.rounds, timing.whole, once, machine, list(layers.values()), steps,
                   by_purpose(plan))  # fmt: skip


def _matched(plan: Plan, described: Description, timing: Timing) -> Iterator[tuple[PlannedStep, Piece, Cost]]:
    """Each piece that was timed with the step of the plan that it is, and its cost. A device has pieces of its own
    (number 0): the check of the loss, and updates of many weights in one, which cost what their steps would."""
    waiting: dict[tuple[str, str, str], list[tuple[PlannedStep, Cost]]] = {}
    for step, told in zip(plan.steps, described.steps, strict=True):
        ins, outs = tuple(v.spec for v in step.inputs), tuple(v.spec for v in step.outputs)
        key = step.node.op.name, step.node.scope, step.node.phase
        once = cost(step.node.op, ins, outs, step.node.attrs)
        waiting.setdefault(key, []).append((told, sum([once] * (told.times - 1), once)))
    found: list[tuple[PlannedStep | None, Piece, Cost]] = []
    for piece in timing.pieces:
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


def _owners(net: Net) -> dict[str, str]:
    """Layer by scope: its name, and the names in front of its weights'. The first one owns weights that are shared."""
    made = {node.weights_key: node.name for node in reversed(net.nodes)}
    return {**made, **{node.name: node.name for node in net.nodes}}


def owner_of(scope: str, phase: str, owners: Mapping[str, str]) -> str:
    """Which line of the table a step belongs to: a layer's, a loss's or metric's, else that of the rest of a phase."""
    name = scope
    while name:
        if name in owners:
            return owners[name]
        name = name.rpartition("/")[0]
    return scope or {"update": "optimizer", "forward": "totals"}.get(phase, phase)


def _into(part: Part, seconds: Mapping[str, float], spent: Cost, memory: int = 0) -> None:
    for phase, time in seconds.items():
        part.seconds[phase] = part.seconds.get(phase, 0.0) + time
    part.cost += spent
    part.memory += memory
