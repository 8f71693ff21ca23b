"""Which class is taken for which."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from prototorch import ops
from prototorch.losses.base import Kind, widened
from prototorch.metrics.accuracy import classes_spec
from prototorch.metrics.base import TOTAL, Metric, ratio
from prototorch.schema import example, field
from prototorch.spec import Spec


class _Confusion(Metric, abstract=True):
    """Counts of samples by their class and the class they were taken for."""

    axis: int = field(default=-1, doc="The axis of the classes: -1 the last, 1 for pictures of classes [N, C, H, W].")
    target_kind: ClassVar[Kind] = "classes"

    def target_spec(self, output: Spec) -> Spec:
        return classes_spec(output, self.axis)

    def states(self, output: Spec) -> dict[str, Spec]:
        n = output.shape[self.axis]
        return {"matrix": Spec((n, n), TOTAL)}

    def update(self, states: Mapping[str, Any], target: Any, output: Any, weight: Any) -> dict[str, Any]:
        target, n = self.fitted(target, output), output.shape[self.axis]
        place = target * n + ops.argmax(output, axis=self.axis)
        wide = widened(ops.cast(weight, dtype=TOTAL), target.ndim)
        each = ops.broadcast_to(wide, shape=tuple(target.shape))
        # a label outside the classes counts nowhere; `put_rows` would write outside the matrix
        good = ops.logical_and(ops.greater_equal(target, 0), ops.less(target, n))
        each = ops.where(good, each, ops.zeros_like(each))
        place = ops.where(good, place, ops.zeros_like(place))
        flat = ops.put_rows(ops.reshape(each, shape=(-1,)), ops.reshape(place, shape=(-1,)), rows=n * n)
        return {"matrix": states["matrix"] + ops.reshape(flat, shape=(n, n))}


class ConfusionMatrix(_Confusion):
    """The weight of samples of each class (rows) that were taken for each class (columns).

    Targets are class numbers; the result is an array [classes, classes].
    """

    examples = (
        example("ConfusionMatrix { }", inputs=[(5,)]),
        example("ConfusionMatrix { axis: 1 }", inputs=[(5, 4, 3)]),
    )

    def result(self, arrays: Mapping[str, np.ndarray]) -> float | np.ndarray:
        return np.array(arrays["matrix"])


class MeanIoU(_Confusion):
    """The mean over the classes that occur of intersection / union: right / (right + missed + wrongly said).

    Targets are class numbers.
    """

    aliases, log_name = ("mean_iou",), "mean_io_u"
    examples = (example("MeanIoU { axis: 1 }", inputs=[(5, 4, 3)]),)

    def result(self, arrays: Mapping[str, np.ndarray]) -> float | np.ndarray:
        matrix = np.asarray(arrays["matrix"])
        right = np.diag(matrix)
        union = matrix.sum(0) + matrix.sum(1) - right
        occurs = union > 0
        return float(ratio(ratio(right, union).sum(), occurs.sum()))
