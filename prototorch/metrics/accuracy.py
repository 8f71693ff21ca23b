"""Accuracies: the share of samples that are classified correctly."""

from __future__ import annotations

from typing import Any, ClassVar

from prototorch import ops
from prototorch.losses.base import TargetKind, canonical_loss_axis, classes_last
from prototorch.metrics.base import Direction, MeanMetric
from prototorch.schema import example, field
from prototorch.spec import Spec


class BinaryAccuracy(MeanMetric):
    """The share of outputs on the correct side of a threshold, for targets of 0 and 1."""

    positional = ()
    direction: ClassVar[Direction | None] = "max"
    threshold: float = field(default=0.5, doc="Outputs above it count as 1; it must be 0 for logits.")
    target_kind: ClassVar[TargetKind] = "binary"
    examples = (example("BinaryAccuracy { threshold: 0.4 }", inputs=[(3,)]),)

    def values(self, target: Any, output: Any) -> Any:
        predicted = ops.cast(ops.greater(output, self.threshold), dtype=output.dtype)
        return ops.cast(ops.equal(self.match_target(target, output), predicted), dtype="float32")


class _ClassMetric(MeanMetric):
    """A metric over classes that lie along an axis."""

    direction: ClassVar[Direction | None] = "max"
    axis: int = field(default=-1, doc="The axis of the classes: -1 the last, 1 for images of classes [N, C, H, W].")

    def target_spec(self, output: Spec) -> Spec:
        canonical_loss_axis(type(self).__name__, output, self.axis)
        return super().target_spec(output)


class CategoricalAccuracy(_ClassMetric):
    """The share of samples whose likeliest class is the target's likeliest; targets are one-hot or soft."""

    positional = ()
    target_kind: ClassVar[TargetKind] = "one_hot"
    examples = (example("CategoricalAccuracy { }", inputs=[(5,)]),)

    def values(self, target: Any, output: Any) -> Any:
        right = ops.argmax(self.match_target(target, output), axis=self.axis)
        return ops.cast(ops.equal(ops.argmax(output, axis=self.axis), right), dtype="float32")


class SparseCategoricalAccuracy(_ClassMetric):
    """The share of samples whose likeliest class is the target."""

    positional = ()
    target_kind: ClassVar[TargetKind] = "classes"
    examples = (
        example("SparseCategoricalAccuracy { }", inputs=[(5,)]),
        example("SparseCategoricalAccuracy { axis: 1 }", inputs=[(5, 4, 3)]),
    )

    def target_spec(self, output: Spec) -> Spec:
        return class_index_spec(type(self).__name__, output, self.axis)

    def values(self, target: Any, output: Any) -> Any:
        target = self.match_target(target, output)
        return ops.cast(ops.equal(ops.argmax(output, axis=self.axis), target), dtype="float32")


class TopKCategoricalAccuracy(_ClassMetric):
    """The share of samples whose class is among the k likeliest (ties with the k-th count); one-hot targets."""

    positional = ("k",)
    k: int = field(default=5, min=1, doc="The number of the likeliest classes that count.")
    target_kind: ClassVar[TargetKind] = "one_hot"
    examples = (example("TopKCategoricalAccuracy { k: 2 }", inputs=[(5,)]),)

    def values(self, target: Any, output: Any) -> Any:
        right = ops.argmax(self.match_target(target, output), axis=self.axis)
        return in_top_k(right, classes_last(output, self.axis), self.k)


class SparseTopKCategoricalAccuracy(_ClassMetric):
    """The share of samples whose class is among the k likeliest (one that ties with the k-th is)."""

    positional = ("k",)
    k: int = field(default=5, min=1, doc="The number of the likeliest classes that count.")
    target_kind: ClassVar[TargetKind] = "classes"
    examples = (example("SparseTopKCategoricalAccuracy { k: 2 }", inputs=[(5,)]),)

    def target_spec(self, output: Spec) -> Spec:
        return class_index_spec(type(self).__name__, output, self.axis)

    def values(self, target: Any, output: Any) -> Any:
        return in_top_k(self.match_target(target, output), classes_last(output, self.axis), self.k)


def class_index_spec(name: str, output: Spec, axis: int) -> Spec:
    """The spec of class indices for an output whose classes lie along an axis."""
    axis = canonical_loss_axis(name, output, axis)
    return Spec((*output.shape[:axis], *output.shape[axis + 1 :]), "int32")


def in_top_k(target: Any, output: Any, k: int) -> Any:
    """1 where fewer than k classes have a score above that of the target, else 0; a NaN score is never correct, nor a
    target that is no class, such as the one that a loss leaves out."""
    is_class = ops.logical_and(ops.greater_equal(target, 0), ops.less(target, output.shape[-1]))
    target = ops.where(is_class, target, ops.zeros_like(target))
    score = ops.take_along_axis(output, ops.expand_dims(target, -1))
    above = ops.cast(ops.logical_not(ops.less_equal(output, score)), dtype="float32")
    return ops.cast(ops.logical_and(is_class, ops.less(ops.sum(above, axis=-1), float(k))), dtype="float32")
