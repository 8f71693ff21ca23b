"""Precision and recall, from counts of true and false positives and negatives at one or several thresholds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from prototorch import ops
from prototorch.errors import ShapeError
from prototorch.losses.base import TargetKind, expand_trailing
from prototorch.metrics.base import TOTAL_DTYPE, Direction, Metric, divide_no_nan
from prototorch.schema import example, field
from prototorch.spec import Spec


class _ThresholdMetric(Metric, abstract=True):
    """Counts at thresholds; ``error_name`` is the kind of errors that is counted, a state's name."""

    direction: ClassVar[Direction | None] = "max"
    thresholds: float | tuple[float, ...] | None = field(
        default=None,
        min=0,
        max=1,
        doc="Outputs above it count as 1; several give a result each. By default 0.5.",
    )
    top_k: int | None = field(
        default=None, min=1, doc="Only the k likeliest classes can be positive (at any value, without thresholds)."
    )
    class_id: int | None = field(default=None, min=0, doc="Only this class is counted.")
    target_kind: ClassVar[TargetKind] = "binary"
    error_name: ClassVar[str]

    @property
    def takes_probabilities(self) -> bool:
        return self.thresholds is not None or self.top_k is None

    @property
    def threshold_values(self) -> tuple[float, ...]:
        """The thresholds as a tuple."""
        if self.thresholds is None:
            return (0.5,) if self.top_k is None else (float("-inf"),)
        return self.thresholds if isinstance(self.thresholds, tuple) else (self.thresholds,)

    def states(self, output: Spec) -> dict[str, Spec]:
        if self.class_id is not None and (output.ndim < 2 or self.class_id >= output.shape[-1]):
            raise ShapeError(
                f"{type(self).__name__}: there is no class {self.class_id} in an output of shape {list(output.shape)}"
            )
        counts = Spec((len(self.threshold_values),), TOTAL_DTYPE)
        return {"true_positives": counts, self.error_name: counts}

    def update(self, states: Mapping[str, Any], target: Any, output: Any, weight: Any) -> dict[str, Any]:
        target = self.match_target(target, output)
        possible = None
        if self.top_k is not None:
            possible = top_k_mask(output, self.top_k)
        if self.class_id is not None:
            key = (..., slice(self.class_id, self.class_id + 1))
            target, output = target[key], output[key]
            possible = None if possible is None else possible[key]
        weight = broadcast_weights(weight, output)
        levels = np.asarray(self.threshold_values, output.dtype).reshape(-1, 1)
        positive = ops.greater(ops.reshape(output, shape=(1, -1)), levels)
        if possible is not None:
            positive = ops.logical_and(positive, ops.reshape(possible, shape=(1, -1)))
        true = ops.reshape(ops.not_equal(target, 0.0), shape=(1, -1))
        if self.error_name == "false_positives":
            errors = ops.logical_and(ops.logical_not(true), positive)
        else:
            errors = ops.logical_and(true, ops.logical_not(positive))
        return {
            "true_positives": states["true_positives"] + count_hits(ops.logical_and(true, positive), weight),
            self.error_name: states[self.error_name] + count_hits(errors, weight),
        }

    def result(self, arrays: Mapping[str, np.ndarray]) -> float | np.ndarray:
        right = np.asarray(arrays["true_positives"])
        share = divide_no_nan(right, right + np.asarray(arrays[self.error_name]))
        return float(share[0]) if len(share) == 1 else share


class Precision(_ThresholdMetric):
    """True positives / predicted positives. Targets are 0 and 1, of the output's shape."""

    error_name = "false_positives"
    examples = (
        example("Precision { }", inputs=[(3,)]),
        example("Precision { thresholds: [0.3, 0.7] }", inputs=[(3,)]),
        example("Precision { top_k: 2  class_id: 1 }", inputs=[(5,)]),
    )


class Recall(_ThresholdMetric):
    """True positives / actual positives. Targets are 0 and 1, of the output's shape."""

    error_name = "false_negatives"
    examples = (example("Recall { thresholds: 0.4 }", inputs=[(3,)]),)


def broadcast_weights(weight: Any, output: Any) -> Any:
    """The weights of samples [batch], or of positions [batch, time], once for each element of the output: [batch *
    ...], float64."""
    wide = expand_trailing(ops.cast(weight, dtype=TOTAL_DTYPE), output.ndim)
    return ops.reshape(ops.broadcast_to(wide, shape=tuple(output.shape)), shape=(-1,))


def count_hits(hits: Any, weight: Any) -> Any:
    """[levels, n] of hits and [n] weights -> the weight of the hits at each level."""
    return ops.sum(ops.cast(hits, dtype=TOTAL_DTYPE) * weight, axis=1)


def top_k_mask(output: Any, k: int) -> Any:
    """True at the k largest along the last axis; among equals the first."""
    _, indices = ops.top_k(output, k=min(k, output.shape[-1]))
    return ops.greater(ops.sum(ops.one_hot(indices, classes=output.shape[-1]), axis=-2), 0.0)
