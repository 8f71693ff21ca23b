"""Summaries of nets: layers, shapes, parameters, and the memory of a step, known before anything runs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from prototorch.graph.net import Net
from prototorch.graph.probe import PROBE_SIZES, probe_specs, trace_net
from prototorch.graph.trace import trace
from prototorch.spec import Spec
from prototorch.train.memory_estimate import SCRATCH, bytes_by_purpose, format_bytes
from prototorch.train.plan_cache import PlanCache
from prototorch.train.step_inputs import PREDICT

__all__ = ["LayerSummary", "Summary", "memory_by_purpose", "step_specs", "summarize"]


@dataclass
class LayerSummary:
    """A layer in a summary. Shapes are without the batch dimension; None is a size that only the data determine."""

    name: str
    kind: str
    output: tuple[int | None, ...]
    params: int
    reads: tuple[str, ...]


@dataclass
class Summary:
    """The result of `summarize`. trainable, non_trainable: elements of weights; memory: bytes by purpose of a step at
    a batch size."""

    name: str
    rows: list[LayerSummary]
    trainable: int
    non_trainable: int
    batch: int | None = None
    memory: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The object that ``summary --json`` writes: names, counts of elements, bytes."""
        return {
            "name": self.name,
            "layers": [vars(r) for r in self.rows],
            "parameters": self.trainable + self.non_trainable,
            "trainable": self.trainable,
            "batch": self.batch,
            "memory": self.memory,
        }

    def __str__(self) -> str:
        cells = [("layer", "type", "output", "parameters", "reads")]
        for r in self.rows:
            shape = "[" + ", ".join("none" if n is None else str(n) for n in r.output) + "]"
            cells.append((r.name, r.kind, shape, f"{r.params:,}" if r.params else "", ", ".join(r.reads)))
        widths = [max(len(c[i]) for c in cells) for i in range(5)]
        lines = [
            "  ".join(
                c.rjust(w) if i == 3 else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in cells
        ]
        lines.insert(1, "-" * max(map(len, lines)))
        lines += [
            "",
            f"{self.name}: {self.trainable + self.non_trainable:,} parameters, {self.trainable:,} of them trained",
        ]
        if self.memory:
            more = "" if SCRATCH in self.memory else " (kernels' scratch memory comes on top)"
            lines.append(f"memory of a training step at batch size {self.batch}{more}:")
            lines += [f"  {k:28} {format_bytes(v):>10}" for k, v in self.memory.items()]
        lines += [f"note: {note}" for note in self.notes]
        return "\n".join(lines)


def summarize(net: Net, plan_cache: PlanCache | None = None, batch: int | None = None) -> Summary:
    """Layers, shapes and parameters; with plans and a batch size also the memory of a training step (or of a
    prediction, where there is no loss), known from the plan: nothing runs."""
    one, two = trace_net(net, 1), None
    if any(net.unknown_sizes()):
        two = trace(net, probe_specs(net, 1, PROBE_SIZES[-1]), False)
    rows: list[LayerSummary] = []
    sizes: Counter[str] = Counter()  # elements of the weights of each layer
    for weight in one.weights.values():
        sizes[weight.layer] += weight.spec.size
    for node in net.nodes:
        shape: tuple[int | None, ...] = one.values[node.tops[0]].shape[1:]
        if two is not None:
            other = two.values[node.tops[0]].shape[1:]
            shape = tuple(a if a == b else None for a, b in zip(shape, other, strict=True))
        rows.append(LayerSummary(node.name, type(node.layer).__name__, shape, sizes[node.name], node.bottoms))
    selected = one.weights if plan_cache is None else plan_cache.step_graphs.trained_weights.select(one)
    trainable = sum(w.spec.size for w in selected.values() if w.trainable)
    total = sum(w.spec.size for w in one.weights.values())
    result = Summary(net.name, rows, trainable, total - trainable, batch, notes=(*net.notes, *net.warnings))
    if batch is not None and plan_cache is not None:
        result.memory = memory_by_purpose(plan_cache, batch)
    return result


def memory_by_purpose(plan_cache: PlanCache, batch: int) -> dict[str, int]:
    """Bytes of a step by purpose, from its plan; for unknown sizes see `step_specs`."""
    phases = plan_cache.training_phases if plan_cache.loss_terms else (PREDICT,)
    specs = step_specs(plan_cache.net, batch)
    plan = max((plan_cache.plan(phase, specs, create=False) for phase in phases), key=lambda plan: plan.arena_bytes)
    return bytes_by_purpose(plan, plan_cache.backend.input_copies, plan_cache.backend.scratch_bytes(plan.signatures()))


def step_specs(net: Net, batch: int) -> dict[str, Spec]:
    """Input specs that every layer accepts; unknown sizes are the first of 32, 64, 128, 224 and 256 that will do."""
    graph = trace_net(net, batch).graph
    return {node.name: graph.inputs[node.name].spec for node in net.inputs}
