"""The report of an evaluation: classes that are confused, and the errors of values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from prototorch.base.terminal import escape_line
from prototorch.model.model import Model
from prototorch.model.structure import class_names
from prototorch.train.evaluation import predict_with_targets
from prototorch.train.loss_terms import LossTerm

__all__ = ["ClassReport", "ValueReport", "evaluation_report"]

MAX_CLASSES = 2000  # of a report
MAX_TABLE = 12  # classes whose confusion matrix is printed
MAX_ROWS = 40  # classes that are printed one by one
MAX_PAIRS = 10  # pairs of classes that are printed
QUANTILES = (0.5, 0.75, 0.9, 0.95, 1.0)
_NAME_WIDTH = 24


@dataclass
class ClassReport:
    """How often each class was taken for each other one.

    Attributes:
        classes: their names; confusion: int64 [classes, classes], the rows are the true ones.
    """

    classes: tuple[str, ...]
    confusion: np.ndarray

    @property
    def accuracy(self) -> float:
        """The share of the samples whose class is right; NaN without samples."""
        return float(_ratio(np.trace(self.confusion), self.confusion.sum()))

    def precision(self) -> np.ndarray:
        """Of the samples taken for each class the share that is of it, float64 [classes]; NaN where there are none."""
        return _ratio(np.diag(self.confusion), self.confusion.sum(0))

    def recall(self) -> np.ndarray:
        """Of the samples of each class the share taken for it, float64 [classes]; NaN where there are none."""
        return _ratio(np.diag(self.confusion), self.confusion.sum(1))

    def f1(self) -> np.ndarray:
        """The harmonic mean of precision and recall, float64 [classes]: 2 TP / (2 TP + FP + FN)."""
        return _ratio(2 * np.diag(self.confusion), self.confusion.sum(0) + self.confusion.sum(1))

    def support(self) -> np.ndarray:
        """The number of samples of each class, int64 [classes]."""
        return self.confusion.sum(1)

    def most_confused(self) -> list[tuple[str, str, int]]:
        """The most frequent mistakes: the true class, the one it was taken for, how often."""
        mistakes = self.confusion - np.diag(np.diag(self.confusion))
        order = np.argsort(-mistakes, axis=None, kind="stable")[:MAX_PAIRS]
        pairs = [divmod(int(k), len(self.classes)) for k in order]
        return [(self.classes[i], self.classes[j], int(mistakes[i, j])) for i, j in pairs if mistakes[i, j]]

    def lines(self) -> list[str]:
        """For a reader: a line for each class, the confusion matrix of a few classes, else the most frequent
        mistakes."""
        names = [escape_line(name)[:_NAME_WIDTH] for name in self.classes]
        width = max(5, *map(len, names))
        lines = [f"{'class':<{width}}  precision  recall      f1  samples"]
        columns = zip(names, self.precision(), self.recall(), self.f1(), self.support(), strict=True)
        rows = [
            f"{n:<{width}}  {p:9.3f}  {r:6.3f}  {f:6.3f}  {s:7,}".replace("nan", "  -") for n, p, r, f, s in columns
        ]
        class_lines = rows if len(rows) <= MAX_ROWS else [rows[k] for k in np.argsort(self._recall_or_one())[:MAX_ROWS]]
        lines += class_lines
        if len(class_lines) < len(rows):
            lines.append(f"({MAX_ROWS} of {len(rows)} classes, those of the lowest recall)")
        if len(names) <= MAX_TABLE:
            digits = max(len(f"{self.confusion.max():,}"), *(min(len(n), 10) for n in names))
            lines += ["", f"{'true class':<{width}}  taken for"]
            lines.append(" " * width + "".join(f"  {n[:10]:>{digits}}" for n in names))
            for name, row in zip(names, self.confusion, strict=True):
                lines.append(f"{name:<{width}}" + "".join(f"  {count:>{digits},}" for count in row))
        elif pairs := self.most_confused():
            lines += ["", "most frequent mistakes"]
            lines += [f"{count:7,}  {escape_line(true)} taken for {escape_line(other)}" for true, other, count in pairs]
        return lines

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON values: ``accuracy``, ``classes`` (a dict each), ``confusion``."""
        per_class = zip(self.classes, self.precision(), self.recall(), self.f1(), self.support(), strict=True)
        return {
            "accuracy": self.accuracy,
            "classes": [
                {"class": name, "precision": _or_none(p), "recall": _or_none(r), "f1": _or_none(f), "samples": int(s)}
                for name, p, r, f, s in per_class
            ],
            "confusion": self.confusion.tolist(),
        }

    def _recall_or_one(self) -> np.ndarray:
        return np.nan_to_num(self.recall(), nan=1.0)


@dataclass
class ValueReport:
    """How far predicted values are from the true ones: float64 [samples, ...] each, in the unit of the targets."""

    targets: np.ndarray = field(repr=False)
    outputs: np.ndarray = field(repr=False)

    def quantiles(self) -> dict[float, float]:
        """The absolute error that a share of the values stays below, by share."""
        errors = np.abs(self.outputs - self.targets)
        return {q: float(np.quantile(errors, q)) for q in QUANTILES} if errors.size else {}

    def as_dict(self) -> dict[str, Any]:
        """The mean of the absolute errors, the root of the mean squared error, the mean error (predicted less true), R2
        (the share of the targets' variance that is explained), what a constant prediction, the targets' mean, would
        have, and the quantiles of the absolute error."""
        errors = self.outputs - self.targets
        if not errors.size:
            return {"samples": 0}
        deviations = self.targets - self.targets.mean(0)
        squares = float(np.square(deviations).sum())
        return {
            "samples": len(self.targets),
            "mean_absolute_error": float(np.abs(errors).mean()),
            "root_mean_squared_error": float(np.sqrt(np.square(errors).mean())),
            "mean_error": float(errors.mean()),
            "r2": 1 - float(np.square(errors).sum()) / squares if squares else None,
            "mean_absolute_error_of_the_mean": float(np.abs(deviations).mean()),
            "quantiles_of_absolute_error": {f"{q:g}": value for q, value in self.quantiles().items()},
        }

    def lines(self) -> list[str]:
        """For a reader."""
        values = self.as_dict()
        if not values["samples"]:
            return ["no samples"]
        r2 = "" if values["r2"] is None else f"  R2 {values['r2']:.4f}"
        quantiles = "  ".join(f"{100 * q:g} %: {value:.5g}" for q, value in self.quantiles().items())
        return [
            f"mean absolute error {values['mean_absolute_error']:.5g} "
            f"(predicting the mean: {values['mean_absolute_error_of_the_mean']:.5g})  "
            f"root mean squared error {values['root_mean_squared_error']:.5g}{r2}",
            f"mean error {values['mean_error']:+.5g}",
            f"absolute error below, by share of the values: {quantiles}",
        ]


def evaluation_report(
    model: Model, x: Any = None, y: Any = None, batch_size: int | None = None
) -> dict[str, ClassReport | ValueReport]:
    """The classes that a model confuses, and the errors of its values, by output: x and y as for `Model.evaluate`.

    An output with a loss of classes, or of yes and no with one unit, has a `ClassReport`; the most probable class is
    the predicted one. Of several axes each position counts; positions of ``ignore_class`` do not. An output with a loss
    of values has a `ValueReport`. Outputs without targets, of more than 2,000 classes, or of several independent
    probabilities have none. Raises as `Model.evaluate`.
    """
    terms = {term.output: term for term in model.trainer.plan_cache.loss_terms if term.loss.needs_target}
    names = class_names(model.net, model.fit_block, model.table_columns)
    counts: dict[str, np.ndarray] = {}
    values: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
    for outputs, targets in predict_with_targets(model.trainer, model.evaluation_batches(x, y, batch_size)):
        for output, target in targets.items():
            term, y_pred = terms[output], np.asarray(outputs[output])
            classes = _number_of_classes(term, y_pred)
            if classes:
                pairs = _class_pairs(term, y_pred, np.asarray(target))
                if output not in counts:
                    counts[output] = np.zeros((classes, classes), np.int64)
                np.add.at(counts[output], pairs, 1)
            elif term.loss.target_kind not in ("classes", "one_hot", "binary") and y_pred.size == np.size(target):
                pair = np.asarray(target, np.float64).reshape(y_pred.shape), y_pred.astype(np.float64)
                values.setdefault(output, []).append(pair)
    reports: dict[str, ClassReport | ValueReport] = {}
    for output in model.net.outputs:
        if output in counts:
            reports[output] = ClassReport(_names(names, len(counts[output])), counts[output])
        elif output in values:
            true, predicted = (np.concatenate(parts) for parts in zip(*values[output], strict=True))
            reports[output] = ValueReport(true, predicted)
    return reports


def _number_of_classes(term: LossTerm, output: np.ndarray) -> int:
    """The classes that an output tells apart; 0 where it has no report of classes."""
    if term.loss.target_kind == "binary":
        return 2 if output[0].size == 1 else 0
    if term.loss.target_kind not in ("classes", "one_hot") or output.ndim < 2:
        return 0
    count = int(output.shape[term.loss.class_axis])
    return count if 1 < count <= MAX_CLASSES else 0


def _class_pairs(term: LossTerm, output: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The true and the predicted classes of all positions, int64 [positions] each."""
    if term.loss.target_kind == "binary":
        limit = 0.0 if getattr(term.loss, "from_logits", False) else 0.5
        return (target.reshape(-1) > 0.5).astype(np.int64), (output.reshape(-1) > limit).astype(np.int64)
    axis = term.loss.class_axis
    predicted = output.argmax(axis).reshape(-1)
    true = (target.argmax(axis) if term.loss.target_kind == "one_hot" else target).reshape(-1).astype(np.int64)
    ignored = term.loss.ignored_class
    return (true, predicted) if ignored is None else (true[true != ignored], predicted[true != ignored])


def _names(names: Sequence[str], count: int) -> tuple[str, ...]:
    return tuple(names) if len(names) == count else tuple(map(str, range(count)))


def _ratio(part: Any, total: Any) -> Any:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(part, np.float64) / np.asarray(total, np.float64)


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
