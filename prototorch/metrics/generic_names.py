"""Names whose meaning depends on the loss and the output's shape: "accuracy", "crossentropy"."""

from __future__ import annotations

from typing import Any

from prototorch import metrics
from prototorch.losses import Loss
from prototorch.metrics.base import Metric
from prototorch.spec import Spec

ACCURACY, CROSSENTROPY = ("accuracy", "acc"), ("crossentropy", "ce")


def resolve_metric(name: str, loss: Loss | None, output: Spec) -> Metric:
    """The metric of a name for an output.

    "accuracy" (or "acc") and "crossentropy" (or "ce") go by the loss: class indices, one-hot or binary; for a
    regression loss by the output, where one unit is binary. Where the loss takes logits, so do they: the threshold of a
    binary accuracy is then 0. (Keras decides by the shapes alone, and so takes the likeliest class of several
    binary outputs, and a threshold of 1/2 for logits.) Any other name is a metric's.

    Raises UsageError for an unknown name.
    """
    if name not in (*ACCURACY, *CROSSENTROPY):
        return Metric.lookup(name)()
    kind = loss.target_kind if loss is not None else "values"
    if kind == "values":
        kind = "binary" if output.ndim < 2 or output.shape[-1] == 1 else "one_hot"
    logits = bool(getattr(loss, "from_logits", False))
    axis: dict[str, Any] = {"axis": loss.class_axis} if loss is not None else {}
    if name in ACCURACY:
        if kind == "binary":
            return metrics.BinaryAccuracy(threshold=0.0 if logits else 0.5)
        return metrics.SparseCategoricalAccuracy(**axis) if kind == "classes" else metrics.CategoricalAccuracy(**axis)
    if kind == "binary":
        return metrics.BinaryCrossentropy(from_logits=logits)
    of = metrics.SparseCategoricalCrossentropy if kind == "classes" else metrics.CategoricalCrossentropy
    return of(from_logits=logits, **axis)
