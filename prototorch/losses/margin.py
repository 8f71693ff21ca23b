"""Losses with a margin."""

from __future__ import annotations

from typing import Any, ClassVar

from prototorch import ops
from prototorch.losses.base import Loss, TargetKind
from prototorch.schema import example, field
from prototorch.spec import Spec


class _HingeLoss(Loss):
    """Targets are -1 and 1. Where a batch has only 0 and 1 they stand for -1 and 1, as in Keras."""

    max_classes = 2

    def to_signs(self, target: Any) -> Any:
        """The target as -1 and 1."""
        binary = ops.logical_or(ops.equal(target, 0.0), ops.equal(target, 1.0))
        return ops.where(ops.all(binary), target * 2.0 - 1.0, target)


class Hinge(_HingeLoss):
    """The mean of max(1 - target * output, 0), for targets of -1 and 1 (or 0 and 1)."""

    examples = (example("Hinge { }", inputs=[(3,)]),)

    def values(self, target: Any, output: Any) -> Any:
        return ops.maximum(1.0 - self.to_signs(target) * output, 0.0)


class SquaredHinge(_HingeLoss):
    """The mean of max(1 - target * output, 0)^2, for targets of -1 and 1 (or 0 and 1)."""

    examples = (example("SquaredHinge { }", inputs=[(3,)]),)

    def values(self, target: Any, output: Any) -> Any:
        return ops.square(ops.maximum(1.0 - self.to_signs(target) * output, 0.0))


class CategoricalHinge(Loss):
    """max(best wrong score - right score + 1, 0), for one-hot targets (Keras' definition)."""

    target_kind: ClassVar[TargetKind] = "one_hot"
    examples = (example("CategoricalHinge { }", inputs=[(5,)]),)

    def values(self, target: Any, output: Any) -> Any:
        right = ops.sum(target * output, axis=-1)
        wrong = ops.max((1.0 - target) * output, axis=-1)
        return ops.maximum(wrong - right + 1.0, 0.0)


class ContrastiveLoss(Loss):
    """For pairs (Hadsell, Chopra, LeCun 2006): distances of similar pairs shrink, those of others grow up to
    ``margin``.

    The output is the distance d >= 0 of each pair, [batch] or [batch, 1]; the target 1 for similar pairs and 0 for
    others. The loss is 1/2 y d^2 + 1/2 (1 - y) max(margin - d, 0)^2, Caffe's ContrastiveLoss; with ``legacy_version``
    the second part is 1/2 (1 - y) max(margin - d^2, 0), as Caffe has it under that name.
    """

    aliases = ("contrastive",)
    margin: float = field(default=1.0, above=0, doc="The distance beyond which dissimilar pairs have no loss.")
    legacy_version: bool = field(default=False, doc="Use margin - d^2 for dissimilar pairs.")
    target_kind: ClassVar[TargetKind] = "binary"
    examples = (example("ContrastiveLoss { margin: 2.0 }", inputs=[(1,)]),)

    def target_spec(self, output: Spec) -> Spec:
        if output.ndim > 2 or (output.ndim == 2 and output.shape[1] != 1):
            self.reject_output(output, "expected one distance per pair, [1]")
        return Spec(output.shape, output.dtype)

    def values(self, target: Any, output: Any) -> Any:
        square = ops.square(output)
        gap = ops.maximum(self.margin - square, 0.0) if self.legacy_version else None
        if gap is None:
            gap = ops.square(ops.maximum(self.margin - output, 0.0))
        return (target * square + (1.0 - target) * gap) * 0.5
