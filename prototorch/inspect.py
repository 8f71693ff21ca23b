"""Looking at a model without training it: checking, summarising, predicting from files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from prototorch.data.folders import picture_files
from prototorch.data.npz import is_npy, is_zip, read_npy, read_npz
from prototorch.data.bounded import read_head
from prototorch.data.pictures import PictureReader
from prototorch.engine.variables import nbytes
from prototorch.errors import DataError, ModelError, TextError, UsageError
from prototorch.graph.plan import Plan
from prototorch.graph.trace import Trace, trace
from prototorch.load import load_model
from prototorch.model import Model
from prototorch.spec import Spec
from prototorch.text.mistakes import Mistake, Report
from prototorch.train.feed import target_of
from prototorch.train.program import PREDICT, TRAIN

_PROBES = (32, 64, 128, 224, 256)  # sizes tried for a dimension that only data tell


def checked(source: str, overrides: Sequence[str] = ()) -> Model:
    """A model whose text, shapes, compile and fit blocks have all been checked. Raises TextError with every mistake."""
    model = load_model(source, overrides=overrides)
    report = Report()
    traced(model, 1, report)
    report.raise_if_any()
    if model.compile_block is not None and model.compile_block.loss:
        try:
            specs = probe_specs(model, 1)
            outputs = model.trainer.program.output_specs(specs)
            for term in model.trainer.program.terms:
                target_of(term.loss, outputs[term.output])
        except (UsageError, ModelError) as exc:
            raise TextError([Mistake(f"compile: {exc}")]) from exc
    return model


def probe_specs(model: Model, batch: int, size: int = 64) -> dict[str, Spec]:
    """Input specs with a size in place of each dimension that only data tell."""
    return {
        i.name: Spec((batch, *(size if n is None else n for n in i.shape)), i.dtype) for i in model.net.inputs
    }


def traced(model: Model, batch: int, report: Report | None = None, training: bool = False) -> Trace:
    """The net traced; with sizes unknown, for the first probe that every layer takes."""
    if not any(model.net.unknown_sizes()):
        return trace(model.net, probe_specs(model, batch), training, report=report)
    last: Report | None = None
    for size in _PROBES:
        last = Report()
        found = trace(model.net, probe_specs(model, batch, size), training, report=last)
        if not len(last):
            return found
    assert last is not None
    if report is None:
        last.raise_if_any()
    else:
        report.mistakes.extend(last.mistakes)
    return found


@dataclass
class Row:
    """A layer in a summary. Shapes leave out the batch dimension; None is a size that only data tell."""

    name: str
    kind: str
    output: tuple[int | None, ...]
    params: int
    reads: tuple[str, ...]


@dataclass
class Summary:
    """What `prototorch summary` shows. ``memory`` are bytes by purpose, for a batch size."""

    name: str
    rows: list[Row]
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
            "  ".join(c.rjust(w) if i == 3 else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))).rstrip()
            for row in cells
        ]
        lines.insert(1, "-" * max(map(len, lines)))
        lines += ["", f"{self.name}: {self.trainable + self.fixed:,} parameters, {self.trainable:,} of them trained"]
        if self.memory:
            lines.append(f"memory of a training step at batch size {self.batch}:")
            lines += [f"  {k:28} {_size(v):>10}" for k, v in self.memory.items()]
        return "\n".join(lines)


def _size(count: int) -> str:
    amount = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"


def summary(model: Model, batch: int | None = None) -> Summary:
    """Layers, shapes and parameters; with a batch size also the memory of a training step (or of a prediction, where the
    model has no loss): known from the plan, nothing is run."""
    one, two = traced(model, 1), None
    if any(model.net.unknown_sizes()):
        two = trace(model.net, probe_specs(model, 1, _PROBES[-1]), False)
    rows, counted = [], set()
    for node in model.net.nodes:
        own = [w for w in one.weights.values() if w.name.startswith(node.weights_key + "/") and w.name not in counted]
        counted.update(w.name for w in own)
        shape = one.values[node.tops[0]].shape[1:]
        if two is not None:
            other = two.values[node.tops[0]].shape[1:]
            shape = tuple(a if a == b else None for a, b in zip(shape, other, strict=True))  # type: ignore[assignment]
        rows.append(Row(node.name, type(node.layer).__name__, shape, sum(w.spec.size for w in own), node.bottoms))
    trained = sum(w.spec.size for w in one.weights.values() if w.trainable)
    total = sum(w.spec.size for w in one.weights.values())
    made = Summary(model.net.name, rows, trained, total - trained, batch)
    if batch is not None:
        made.memory = memory(model, batch)
    return made


def memory(model: Model, batch: int) -> dict[str, int]:
    """Bytes of a step by purpose, from its plan."""
    program = model.trainer.program
    training = bool(program.terms)
    plan = program.plan(TRAIN if training else PREDICT, model.input_specs(batch), create=False)
    states = list(plan.states.values())
    slots = nbytes(v.spec for v in states if v.name.startswith("optimizer:"))
    weights = nbytes(v.spec for v in states if not v.name.startswith(("optimizer:", "metric:")))
    fed = nbytes(v.spec for v in plan.inputs.values())
    return {
        "activations": plan.bytes_of("forward"),
        "gradients": plan.bytes_of("backward") + plan.bytes_of("update"),
        "both, sharing memory": plan.arena,
        "weights": weights,
        "optimizer": slots,
        "inputs": fed,
        "total": plan.arena + weights + slots + fed,
    }


@dataclass
class Predictions:
    """Outputs for named samples, with the class names where they are known."""

    names: list[str]
    outputs: dict[str, np.ndarray]
    classes: Sequence[str] = ()
    logits: bool = True

    def lines(self, top: int) -> list[str]:
        """A line for each sample: the likeliest classes of an output of scores, else the numbers."""
        made = []
        for i, name in enumerate(self.names):
            shown = []
            for output, values in self.outputs.items():
                row = values[i]
                text = self._scores(row, top) if row.ndim == 1 and row.size > 1 else np.array2string(row, precision=4, threshold=20)
                shown.append(text if len(self.outputs) == 1 else f"{output}: {text}")
            made.append(f"{name}: " + "  ".join(shown))
        return made

    def _scores(self, row: np.ndarray, top: int) -> str:
        scores = row
        if self.logits:
            e = np.exp(row - row.max())
            scores = e / e.sum()
        order = np.argsort(-scores, kind="stable")[:top]
        named = [self.classes[k] if k < len(self.classes) else str(k) for k in order]
        return "  ".join(f"{n} {scores[k]:.3f}" for n, k in zip(named, order, strict=True))


def predictions(model: Model, what: Sequence[str], batch_size: int = 32) -> Predictions:
    """Predictions for picture files, folders of them, or an array file. Raises DataError for what cannot be read."""
    names: list[str] = []
    arrays: list[np.ndarray] = []
    shape = model.net.inputs[0].shape
    channels = shape[0] if len(shape) == 3 else None
    sized = any(type(layer).__name__ in ("Resizing", "CenterCrop") for layer in model.net.preprocess)
    size = None if sized or len(shape) != 3 or None in shape[1:] else (shape[1], shape[2])
    reader = PictureReader(size, "gray" if channels == 1 else "rgb")  # type: ignore[arg-type]
    whole: Mapping[str, np.ndarray] | np.ndarray | None = None
    for item in what:
        path = Path(item)
        if path.is_dir():
            found = picture_files(path)
        elif path.is_file():
            head = read_head(path, 16)
            if is_npy(head) or is_zip(head):
                whole = read_npy(path) if is_npy(head) else read_npz(path)
                continue
            found = [path]
        else:
            raise DataError(f"{item}: no such file or folder")
        for one in found:
            names.append(str(one))
            arrays.append(reader.read(one))
    classes = _classes(model)
    if whole is not None:
        if arrays:
            raise UsageError("pictures and array files cannot be predicted in one call")
        held: Any = whole if isinstance(whole, np.ndarray) or len(whole) > 1 else next(iter(whole.values()))
        outputs = model.predict(held, batch_size=batch_size)
        first = outputs if isinstance(outputs, np.ndarray) else next(iter(outputs.values()))
        names = [str(i) for i in range(len(first))]
        return Predictions(names, _named(model, outputs), classes, _logits(model))
    if len({a.shape for a in arrays}) == 1:
        return Predictions(names, _named(model, model.predict(np.stack(arrays), batch_size=batch_size)), classes, _logits(model))
    each = [_named(model, model.predict(a[None], batch_size=1)) for a in arrays]
    return Predictions(names, {k: np.concatenate([e[k] for e in each]) for k in each[0]}, classes, _logits(model))


def _named(model: Model, outputs: Any) -> dict[str, np.ndarray]:
    return outputs if isinstance(outputs, dict) else {model.net.outputs[0]: outputs}


def _classes(model: Model) -> Sequence[str]:
    block = model.fit_block
    if block is None or block.data is None:
        return ()
    return tuple(block.data.classes)


def _logits(model: Model) -> bool:
    """Whether the outputs are scores that a softmax turns into probabilities."""
    losses = model.compile_block.loss if model.compile_block is not None else ()
    return any(getattr(one.type, "from_logits", False) for one in losses)


__all__ = ["Predictions", "Summary", "checked", "memory", "predictions", "prod", "summary"]
