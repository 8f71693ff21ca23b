"""The area under a curve over all thresholds."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from prototorch import ops
from prototorch.errors import ShapeError
from prototorch.losses.base import EPSILON, TargetKind
from prototorch.metrics.base import TOTAL_DTYPE, Direction, Metric, divide_no_nan
from prototorch.metrics.precision_recall import broadcast_weights
from prototorch.schema import example, field
from prototorch.spec import Spec


class AUC(Metric):
    """The area under the ROC curve (hits over false alarms) or the precision-recall curve, from 0 to 1.

    The curve is drawn through ``num_thresholds`` points, as in Keras; the states are histograms:
    the weight of positives and of negatives between two thresholds. Targets are 0 and 1, of the output's shape.
    """

    positional = ("num_thresholds", "curve", "summation_method")
    direction: ClassVar[Direction | None] = "max"
    num_thresholds: int = field(default=200, min=2, max=100_000, doc="Points of the curve.")
    curve: Literal["ROC", "PR"] = field(default="ROC", doc="The curve.")
    summation_method: Literal["interpolation", "minoring", "majoring"] = field(
        default="interpolation", doc="Between two points: interpolated, or the lower or the higher of the two."
    )
    thresholds: tuple[float, ...] | None = field(
        default=None, min=0, max=1, doc="The thresholds themselves, in place of evenly spaced ones."
    )
    multi_label: bool = field(default=False, doc="An area for each unit of the output, and the mean of them.")
    label_weights: tuple[float, ...] | None = field(default=None, min=0, doc="The weight of each unit.")
    from_logits: bool = field(default=False, doc="Whether outputs are logits; else they are probabilities.")
    target_kind: ClassVar[TargetKind] = "binary"
    examples = (
        example("AUC { }", inputs=[(1,)]),
        example("AUC { curve: PR  num_thresholds: 50 }", inputs=[(3,)]),
        example("AUC { multi_label: true  label_weights: [1, 2, 1] }", inputs=[(3,)]),
    )

    @property
    def takes_probabilities(self) -> bool:
        return not self.from_logits

    @cached_property
    def threshold_values(self) -> np.ndarray:
        """All thresholds, ascending; the outer ones lie just outside [0, 1]."""
        inner = (
            sorted(self.thresholds)
            if self.thresholds is not None
            else [i / (self.num_thresholds - 1) for i in range(1, self.num_thresholds - 1)]
        )
        return np.array([-EPSILON, *inner, 1 + EPSILON])

    def states(self, output: Spec) -> dict[str, Spec]:
        if self.multi_label and output.ndim != 2:
            raise ShapeError(f"AUC with multi_label expected an output [batch, labels], got {list(output.shape)}")
        if self.label_weights is not None and (output.ndim < 2 or len(self.label_weights) != output.shape[-1]):
            raise ShapeError(
                f"AUC has {len(self.label_weights)} label_weights for an output of shape {list(output.shape)}"
            )
        histogram = Spec((len(self.threshold_values), output.shape[-1] if self.multi_label else 1), TOTAL_DTYPE)
        return {"positives": histogram, "negatives": histogram}

    def update(self, states: Mapping[str, Any], target: Any, output: Any, weight: Any) -> dict[str, Any]:
        target = self.match_target(target, output)
        if self.from_logits:
            output = ops.sigmoid(output)
        weight, shape = broadcast_weights(weight, output), states["positives"].shape
        labels = output.shape[-1] if output.ndim > 1 else 1
        n = output.spec.size // labels
        if self.label_weights is not None and not self.multi_label:
            weight = weight * np.tile(np.asarray(self.label_weights, TOTAL_DTYPE), n)
        bucket = self._bucket(ops.reshape(output, shape=(-1,)))
        if self.multi_label:
            bucket = bucket * shape[1] + np.tile(np.arange(labels, dtype=np.int32), n)
        true = ops.cast(ops.reshape(ops.not_equal(target, 0.0), shape=(-1,)), dtype=TOTAL_DTYPE)
        new = {}
        for name, part in (("positives", true * weight), ("negatives", (1.0 - true) * weight)):
            histogram = ops.embedding_grad(part, bucket, rows=shape[0] * shape[1])
            new[name] = states[name] + ops.reshape(histogram, shape=shape)
        return new

    def _bucket(self, output: Any) -> Any:
        """For each output the index of the last threshold below it."""
        last = len(self.threshold_values) - 1
        output = ops.clip(output, 0.0, 1.0)
        if self.thresholds is None:
            bucket = ops.ceil(output * float(last)) - 1.0
            bucket = ops.where(ops.greater(bucket, 0.0), bucket, ops.zeros_like(bucket))  # NaN too
            return ops.cast(bucket, dtype="int32")
        inner = np.asarray(self.threshold_values[1:-1], output.dtype)
        above = ops.greater(ops.reshape(output, shape=(-1, 1)), inner)
        return ops.cast(ops.sum(ops.cast(above, dtype="float32"), axis=1), dtype="int32")

    def result(self, arrays: Mapping[str, np.ndarray]) -> float | np.ndarray:
        tp, fp = (np.cumsum(np.asarray(arrays[k])[::-1], axis=0)[::-1] for k in ("positives", "negatives"))
        areas = self._areas(tp, fp, tp[0] - tp, fp[0] - fp)
        if not self.multi_label or self.label_weights is None:
            return float(np.mean(areas))
        weights = np.asarray(self.label_weights)
        return float(divide_no_nan(np.sum(areas * weights), np.sum(weights)))

    def _areas(self, tp: np.ndarray, fp: np.ndarray, fn: np.ndarray, tn: np.ndarray) -> np.ndarray:
        if self.curve == "PR" and self.summation_method == "interpolation":
            return _pr_area(tp, fp, fn)
        recall = divide_no_nan(tp, tp + fn)
        x, y = (divide_no_nan(fp, fp + tn), recall) if self.curve == "ROC" else (recall, divide_no_nan(tp, tp + fp))
        low, high = y[1:], y[:-1]
        heights = {
            "interpolation": lambda: (low + high) / 2,
            "minoring": lambda: np.minimum(low, high),
            "majoring": lambda: np.maximum(low, high),
        }[self.summation_method]()
        return np.sum((x[:-1] - x[1:]) * heights, axis=0)


def _pr_area(tp: np.ndarray, fp: np.ndarray, fn: np.ndarray) -> np.ndarray:
    """The area under precision over recall, interpolated by Davis and Goadrich (2006)."""
    predicted = tp + fp
    dtp, dpredicted = tp[:-1] - tp[1:], predicted[:-1] - predicted[1:]
    slope = divide_no_nan(dtp, np.maximum(dpredicted, 0))
    intercept = tp[1:] - slope * predicted[1:]
    both = (predicted[:-1] > 0) & (predicted[1:] > 0)
    logs = np.log(np.where(both, divide_no_nan(predicted[:-1], np.maximum(predicted[1:], 0)), 1.0))
    return np.sum(divide_no_nan(slope * (dtp + intercept * logs), np.maximum(tp[1:] + fn[1:], 0)), axis=0)
