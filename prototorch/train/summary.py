"""What a net is made of: layers, shapes, parameters, and the memory of a step, known before anything is run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from prototorch.graph.net import Net
from prototorch.graph.trace import Trace, trace
from prototorch.spec import Spec
from prototorch.text.diagnostics import Report
from prototorch.train.memory_estimate import SCRATCH, bytes_by_purpose, format_bytes
from prototorch.train.plan_cache import PlanCache
from prototorch.train.step_inputs import PREDICT, TRAIN

_PROBE_SIZES = (32, 64, 128, 224, 256)  # sizes tried for a dimension that only data tell


def probe_specs(net: Net, batch: int, size: int = 64) -> dict[str, Spec]:
    """Input specs with a size in place of each dimension that only data tell."""
    return {i.name: Spec((batch, *(size if n is None else n for n in i.shape)), i.dtype) for i in net.inputs}


def trace_net(net: Net, batch: int, report: Report | None = None, training: bool = False) -> Trace:
    """The net traced; with sizes unknown, for the first probe that every layer takes."""
    if not any(net.unknown_sizes()):
        return trace(net, probe_specs(net, batch), training, report=report)
    last: Report | None = None
    for size in _PROBE_SIZES:
        last = Report()
        found = trace(net, probe_specs(net, batch, size), training, report=last)
        if not len(last):
            return found
    assert last is not None
    if report is None:
        last.raise_if_any()
    else:
        report.diagnostics.extend(last.diagnostics)
    return found


@dataclass
class LayerSummary:
    """A layer in a summary. Shapes leave out the batch dimension; None is a size that only data tell."""

    name: str
    kind: str
    output: tuple[int | None, ...]
    params: int
    reads: tuple[str, ...]


@dataclass
class Summary:
    """What `prototorch summary` shows. ``memory_by_purpose`` are bytes by purpose, for a batch size."""

    name: str
    rows: list[LayerSummary]
    trainable: int
    fixed: int
    batch: int | None = None
    memory: dict[str, int] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "name": self.name,
            "layers": [vars(r) for r in self.rows],
            "parameters": self.trainable + self.fixed,
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
        lines += ["", f"{self.name}: {self.trainable + self.fixed:,} parameters, {self.trainable:,} of them trained"]
        if self.memory:
            more = "" if SCRATCH in self.memory else " (kernels' scratch memory comes on top)"
            lines.append(f"memory of a training step at batch size {self.batch}{more}:")
            lines += [f"  {k:28} {format_bytes(v):>10}" for k, v in self.memory.items()]
        return "\n".join(lines)


def summarize(net: Net, program: PlanCache | None = None, batch: int | None = None) -> Summary:
    """Layers, shapes and parameters; with a program and a batch size also the memory of a training step (or of a
    prediction, where there is no loss): known from the plan, nothing is run."""
    one, two = trace_net(net, 1), None
    if any(net.unknown_sizes()):
        two = trace(net, probe_specs(net, 1, _PROBE_SIZES[-1]), False)
    rows: list[LayerSummary] = []
    counted: set[str] = set()
    for node in net.nodes:
        own = [w for w in one.weights.values() if w.name.startswith(node.weights_key + "/") and w.name not in counted]
        counted.update(w.name for w in own)
        shape: tuple[int | None, ...] = one.values[node.tops[0]].shape[1:]
        if two is not None:
            other = two.values[node.tops[0]].shape[1:]
            shape = tuple(a if a == b else None for a, b in zip(shape, other, strict=True))
        rows.append(
            LayerSummary(node.name, type(node.layer).__name__, shape, sum(w.spec.size for w in own), node.bottoms)
        )
    trained = sum(w.spec.size for w in one.weights.values() if w.trainable)
    total = sum(w.spec.size for w in one.weights.values())
    made = Summary(net.name, rows, trained, total - trained, batch)
    if batch is not None and program is not None:
        made.memory = memory_by_purpose(program, batch)
    return made


def memory_by_purpose(program: PlanCache, batch: int) -> dict[str, int]:
    """Bytes of a step by purpose, from its plan; sizes that only data tell are taken to be the first that will do."""
    phase = TRAIN if program.loss_terms else PREDICT
    plan = program.plan(phase, step_specs(program.net, batch), create=False)
    return bytes_by_purpose(plan, program.backend.input_copies, program.backend.scratch_bytes(plan.signatures()))


def step_specs(net: Net, batch: int) -> dict[str, Spec]:
    """Input specs that every layer takes; sizes that only data tell are the first that will do."""
    graph = trace_net(net, batch).graph
    return {node.name: graph.inputs[node.name].spec for node in net.inputs}
