"""The F scores: precision and recall in one number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np

from prototorch import ops
from prototorch.errors import ShapeError
from prototorch.losses.base import EPSILON, TargetKind, expand_trailing
from prototorch.metrics.base import TOTAL_DTYPE, Direction, Metric
from prototorch.schema import example, field
from prototorch.spec import Spec


def _average() -> Any:
    """The field of the average; `FBetaScore` declares it once more, so that it comes first."""
    return field(
        default=None,
        doc="None gives a value for each class; macro their mean; weighted their mean by the classes' sizes; "
        "micro one score of all classes together.",
    )


class _FScore(Metric, abstract=True):
    """(1 + beta^2) precision recall / (beta^2 precision + recall), for each class."""

    direction: ClassVar[Direction | None] = "max"
    average: Literal["micro", "macro", "weighted"] | None = _average()
    threshold: float | None = field(
        default=None,
        above=0,
        max=1,
        doc="Outputs above it count as 1; by default the largest of each sample does.",
    )
    target_kind: ClassVar[TargetKind] = "one_hot"

    @property
    def takes_probabilities(self) -> bool:
        return True

    @property
    def recall_weight(self) -> float:
        """Beta."""
        return 1.0

    def states(self, output: Spec) -> dict[str, Spec]:
        if output.ndim != 2:
            raise ShapeError(
                f"{type(self).__name__} expected an output [batch, classes], got shape {list(output.shape)}"
            )
        counts = Spec(() if self.average == "micro" else output.shape[1:], TOTAL_DTYPE)
        return {"true_positives": counts, "false_positives": counts, "false_negatives": counts, "weights": counts}

    def update(self, states: Mapping[str, Any], target: Any, output: Any, weight: Any) -> dict[str, Any]:
        target = ops.cast(self.match_target(target, output), dtype=TOTAL_DTYPE)
        if self.threshold is None:
            largest = ops.greater_equal(output, ops.max(output, axis=-1, keepdims=True))
            positive = ops.logical_and(largest, ops.greater(ops.abs(output), 1e-9))  # all zeros count as none
        else:
            positive = ops.greater(output, self.threshold)
        positive = ops.cast(positive, dtype=TOTAL_DTYPE)
        weight = expand_trailing(ops.cast(weight, dtype=TOTAL_DTYPE), 2)
        parts = {
            "true_positives": positive * target,
            "false_positives": positive * (1.0 - target),
            "false_negatives": (1.0 - positive) * target,
            "weights": target,
        }
        over = None if self.average == "micro" else 0
        return {name: states[name] + ops.sum(part * weight, axis=over) for name, part in parts.items()}

    def result(self, arrays: Mapping[str, np.ndarray]) -> float | np.ndarray:
        tp, fp, fn, size = (np.asarray(arrays[k]) for k in self.states(Spec((1, 1))))
        precision, recall = tp / (tp + fp + EPSILON), tp / (tp + fn + EPSILON)
        square = self.recall_weight**2
        score = precision * recall / (square * precision + recall + EPSILON) * (1 + square)
        if self.average is None:
            return np.asarray(score)
        if self.average == "weighted":
            return float(np.sum(score * (size / (np.sum(size) + EPSILON))))
        return float(np.mean(score))


class FBetaScore(_FScore):
    """(1 + beta^2) precision recall / (beta^2 precision + recall); targets are one-hot, or 0 and 1."""

    aliases = ("fbeta_score",)
    log_name = "fbeta_score"
    average: Literal["micro", "macro", "weighted"] | None = _average()
    beta: float = field(default=1.0, above=0, doc="The weight of recall, as a multiple of that of precision.")
    examples = (example("FBetaScore { beta: 2.0  average: macro }", inputs=[(5,)]),)

    @property
    def recall_weight(self) -> float:
        return self.beta


class F1Score(_FScore):
    """The harmonic mean of precision and recall; targets are one-hot, or 0 and 1."""

    examples = (
        example("F1Score { average: macro }", inputs=[(5,)]),
        example("F1Score { threshold: 0.5  average: weighted }", inputs=[(5,)]),
    )
