"""Confusion matrices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from prototorch import ops
from prototorch.errors import ShapeError
from prototorch.losses.base import TargetKind, canonical_loss_axis, expand_trailing
from prototorch.metrics.accuracy import class_index_spec
from prototorch.metrics.base import TOTAL_DTYPE, Direction, Metric, divide_no_nan
from prototorch.schema import example, field
from prototorch.spec import Spec


class _ConfusionMetric(Metric, abstract=True):
    """Counts of samples by their class and their predicted class: the likeliest, or for an output of one unit class 1
    above the threshold, else 0."""

    axis: int = field(default=-1, doc="The axis of the classes: -1 the last, 1 for images of classes [N, C, H, W].")
    threshold: float = field(
        default=0.5, doc="For an output of one unit: values above it are class 1; it must be 0 for logits."
    )
    target_kind: ClassVar[TargetKind] = "classes"

    def target_spec(self, output: Spec) -> Spec:
        return class_index_spec(type(self).__name__, output, self.axis)

    def states(self, output: Spec) -> dict[str, Spec]:
        n = max(output.shape[canonical_loss_axis(type(self).__name__, output, self.axis)], 2)
        return {"matrix": Spec((n, n), TOTAL_DTYPE)}

    def update(self, states: Mapping[str, Any], target: Any, output: Any, weight: Any) -> dict[str, Any]:
        target, n = self.match_target(target, output), max(output.shape[self.axis], 2)
        if output.shape[self.axis] == 1:
            predicted = ops.cast(ops.greater(ops.squeeze(output, axis=self.axis), self.threshold), dtype="int32")
        else:
            predicted = ops.argmax(output, axis=self.axis)
        cell = target * n + predicted
        wide = expand_trailing(ops.cast(weight, dtype=TOTAL_DTYPE), target.ndim)
        each = ops.broadcast_to(wide, shape=tuple(target.shape))
        # a label out of range counts nowhere; `embedding_grad` would write outside the matrix
        is_class = ops.logical_and(ops.greater_equal(target, 0), ops.less(target, n))
        each = ops.where(is_class, each, ops.zeros_like(each))
        cell = ops.where(is_class, cell, ops.zeros_like(cell))
        flat = ops.embedding_grad(ops.reshape(each, shape=(-1,)), ops.reshape(cell, shape=(-1,)), rows=n * n)
        return {"matrix": states["matrix"] + ops.reshape(flat, shape=(n, n))}


class ConfusionMatrix(_ConfusionMetric):
    """The weight of the samples of each class (rows) that were predicted as each class (columns).

    Targets are class indices; the result is an array [classes, classes].
    """

    examples = (
        example("ConfusionMatrix { }", inputs=[(5,)]),
        example("ConfusionMatrix { axis: 1 }", inputs=[(5, 4, 3)]),
    )

    def result(self, arrays: Mapping[str, np.ndarray]) -> float | np.ndarray:
        return np.array(arrays["matrix"])


class MeanIoU(_ConfusionMetric):
    """The mean over the classes that occur of intersection / union: TP / (TP + FP + FN).

    Targets are class indices.
    """

    num_classes: int | None = field(
        default=None, min=2, doc="The number of classes, which is compared with the output's; none: that of the output."
    )
    positional = ("num_classes", "name")
    direction: ClassVar[Direction | None] = "max"
    aliases = ("mean_iou", "mean_io_u")
    log_name = "mean_io_u"
    examples = (example("MeanIoU { axis: 1 }", inputs=[(5, 4, 3)]),)

    def states(self, output: Spec) -> dict[str, Spec]:
        states = super().states(output)
        count = states["matrix"].shape[0]
        if self.num_classes not in (None, count):
            raise ShapeError(
                f"MeanIoU: expected an output with num_classes={self.num_classes} classes along axis {self.axis}, got "
                f"{list(output.shape)} with {count}"
            )
        return states

    def result(self, arrays: Mapping[str, np.ndarray]) -> float | np.ndarray:
        matrix = np.asarray(arrays["matrix"])
        right = np.diag(matrix)
        union = matrix.sum(0) + matrix.sum(1) - right
        occurs = union > 0
        return float(divide_no_nan(divide_no_nan(right, union).sum(), occurs.sum()))
