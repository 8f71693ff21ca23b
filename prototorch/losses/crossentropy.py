"""Crossentropies: minus the log-likelihood of the target under the output."""

from __future__ import annotations

from typing import Any, ClassVar

from prototorch import ops
from prototorch.layers.activation import Sigmoid, Softmax
from prototorch.losses.base import EPSILON, Loss, TargetKind, canonical_loss_axis, classes_last
from prototorch.schema import example, field
from prototorch.schema.neutral_arguments import neutral
from prototorch.spec import Spec


def log_probabilities(output: Any) -> Any:
    """The logarithms of probabilities along the last axis, Keras' way: normalized to sum to 1, clipped to [1e-7, 1 -
    1e-7]."""
    output = output / ops.sum(output, axis=-1, keepdims=True)
    return ops.log(ops.clip(output, EPSILON, 1 - EPSILON))


class _CategoricalLoss(Loss):
    """A loss over classes that lie along an axis."""

    output_activation = Softmax
    axis: int = field(default=-1, doc="The axis of the classes: -1 the last, 1 for images of classes [N, C, H, W].")

    @property
    def class_axis(self) -> int:
        return self.axis

    def _check_classes(self, output: Spec) -> None:
        canonical_loss_axis(type(self).__name__, output, self.axis)
        if output.shape[self.axis] == 1:
            self.reject_output(
                output,
                "a single unit cannot distinguish classes. Give the last layer one unit per class, "
                "or use BinaryCrossentropy",
            )


class SparseCategoricalCrossentropy(_CategoricalLoss):
    """Minus the logarithm of the probability of the target's class.

    Targets are class indices from 0: for outputs [batch, classes] they are [batch]; for [batch, time, classes]
    [batch, time]; with ``axis: 1`` for [batch, classes, height, width] they are [batch, height, width].
    """

    positional = ("from_logits", "ignore_class")

    from_logits: bool = field(
        default=False, doc="Whether outputs are logits (no softmax yet); else they are probabilities."
    )
    ignore_class: int | None = field(
        default=None, doc="A class index that is ignored: the mean is over the other positions of the batch."
    )
    target_kind: ClassVar[TargetKind] = "classes"
    examples = (
        example("SparseCategoricalCrossentropy { from_logits: true }", inputs=[(5,)]),
        example("SparseCategoricalCrossentropy { }", inputs=[(5,)]),
        example("SparseCategoricalCrossentropy { from_logits: true  ignore_class: 0 }", inputs=[(4, 5)]),
        example("SparseCategoricalCrossentropy { from_logits: true  axis: 1 }", inputs=[(5, 4, 3)]),
    )

    @property
    def ignored_class(self) -> int | None:
        return self.ignore_class

    def target_spec(self, output: Spec) -> Spec:
        self._check_classes(output)
        axis = self.axis % output.ndim
        return Spec((*output.shape[:axis], *output.shape[axis + 1 :]), "int32")

    def valid_mask(self, target: Any) -> Any | None:
        return None if self.ignore_class is None else ops.not_equal(target, self.ignore_class)

    def values(self, target: Any, output: Any) -> Any:
        valid = self.valid_mask(target)
        if valid is not None:
            target = ops.where(valid, target, ops.zeros_like(target))
        output = classes_last(output, self.axis)
        if self.from_logits:
            return ops.sparse_softmax_cross_entropy(output, target)
        picked = ops.take_along_axis(log_probabilities(output), ops.expand_dims(target, -1))
        return -ops.reshape(picked, shape=tuple(target.shape))


class CategoricalCrossentropy(_CategoricalLoss):
    """Minus the mean logarithm of the classes' probabilities under the target, which is itself a distribution
    (one-hot, or soft)."""

    from_logits: bool = field(
        default=False, doc="Whether outputs are logits (no softmax yet); else they are probabilities."
    )
    label_smoothing: float = field(
        default=0.0,
        min=0,
        max=1,
        doc="The share of the target that is distributed evenly over all classes.",
    )
    target_kind: ClassVar[TargetKind] = "one_hot"
    examples = (
        example("CategoricalCrossentropy { from_logits: true }", inputs=[(5,)]),
        example("CategoricalCrossentropy { label_smoothing: 0.1 }", inputs=[(5,)]),
        example("CategoricalCrossentropy { from_logits: true  axis: 1 }", inputs=[(5, 4, 3)]),
    )

    def target_spec(self, output: Spec) -> Spec:
        self._check_classes(output)
        return Spec(output.shape, output.dtype)

    def values(self, target: Any, output: Any) -> Any:
        if self.label_smoothing:
            target = target * (1.0 - self.label_smoothing) + self.label_smoothing / output.shape[self.axis]
        target, output = classes_last(target, self.axis), classes_last(output, self.axis)
        if self.from_logits:
            return ops.softmax_cross_entropy(output, target)
        return -ops.sum(target * log_probabilities(output), axis=-1)


class BinaryCrossentropy(Loss):
    """The mean of -t log(p) - (1 - t) log(1 - p): each output is an independent probability."""

    aliases = ("bce", "BCE")
    neutral_arguments = {"axis": neutral(-1, hint="each element counts by itself, and the mean is over all of them")}
    from_logits: bool = field(
        default=False, doc="Whether outputs are logits (no sigmoid yet); else they are probabilities."
    )
    label_smoothing: float = field(default=0.0, min=0, max=1, doc="The share by which targets are moved towards 1/2.")
    target_kind: ClassVar[TargetKind] = "binary"
    output_activation = Sigmoid
    examples = (
        example("BinaryCrossentropy { from_logits: true }", inputs=[(3,)]),
        example("BinaryCrossentropy { }", inputs=[(1,)]),
        example("BinaryCrossentropy { label_smoothing: 0.2 }", inputs=[(4, 3)]),
    )

    def values(self, target: Any, output: Any) -> Any:
        if self.label_smoothing:
            target = target * (1.0 - self.label_smoothing) + 0.5 * self.label_smoothing
        if self.from_logits:
            return ops.sigmoid_cross_entropy(output, target)
        p = ops.clip(output, EPSILON, 1 - EPSILON)
        return -(target * ops.log(p) + (1.0 - target) * ops.log(1.0 - p))


class KLDivergence(Loss):
    """The sum of t log(t / p) along the last axis: how far the distribution p of the output is from the target's t.

    Both are clipped to [1e-7, 1] first, as in Keras.
    """

    aliases = ("kld", "KLD", "kullback_leibler_divergence")
    target_kind: ClassVar[TargetKind] = "one_hot"
    output_activation = Softmax
    examples = (example("KLDivergence { }", inputs=[(5,)]),)

    @property
    def output_bounds(self) -> tuple[float, float]:
        return 0.0, 1.0

    def values(self, target: Any, output: Any) -> Any:
        target, output = ops.clip(target, EPSILON, 1.0), ops.clip(output, EPSILON, 1.0)
        return ops.sum(target * ops.log(target / output), axis=-1)
