"""The base class of losses."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from math import inf
from typing import Any, ClassVar, Literal, NoReturn, cast

from prototorch import ops
from prototorch.errors import ShapeError
from prototorch.layers.activation import ActivationLayer
from prototorch.schema import Block
from prototorch.schema.neutral_arguments import neutral
from prototorch.schema.overrides import CONFIG_METHODS
from prototorch.spec import Spec

#: the small number that keeps logarithms and quotients finite, as in Keras (``keras.config.epsilon()``)
EPSILON = 1e-7

TargetKind = Literal["classes", "one_hot", "binary", "values"]

_CROSSENTROPIES = (
    "Write sparse_categorical_crossentropy for class numbers, categorical_crossentropy for one-hot targets, "
    "binary_crossentropy for yes or no."
)


class Loss(Block, family="loss"):
    """The objective of training.

    A loss compares an output with its target and returns one value per sample. The step's loss is ``sum(weight *
    per_sample_loss) / batch`` (Keras' "sum_over_batch_size"), where the weight is the sample weight times the class
    weight. Positions that an output's mask excludes do not count: the mean is over the others of the batch, as in
    Keras. A subclass defines `values`, and `target_spec` where its target has another shape than its output.

    Called with targets and outputs, tensors, arrays or symbols, it gives their mean loss, as in Keras.

    Attributes:
        target_kind: what targets are: "classes" integers from 0; "one_hot" a distribution over the class axis; "binary"
            values from 0 to 1; "values" any values.
        needs_target: whether it compares the output with a target; without one, data give none for it.
        class_axis: the axis of the output along which the classes lie.
        max_classes: how many classes numbered targets of one unit may stand for: any number for "classes", 2 for
            "binary", 0 for "values", which are compared as numbers.
        target_bounds: bounds of the targets that the loss is made for.
        output_activation: the activation that gives such outputs; None: any.
    """

    foreign_names = {
        **dict.fromkeys(("crossentropy", "cross_entropy", "ce", "log_loss"), _CROSSENTROPIES),
        **dict.fromkeys(("CrossEntropyLoss", "SoftmaxWithLoss", "SoftmaxCrossEntropy"),
                        "Write sparse_categorical_crossentropy { from_logits: true }."),
        **dict.fromkeys(("NLLLoss", "NLL"), "Write sparse_categorical_crossentropy."),
        **dict.fromkeys(("BCEWithLogitsLoss", "SigmoidCrossEntropyLoss"),
                        "Write binary_crossentropy { from_logits: true }."),
        **dict.fromkeys(("BCELoss", "BCE"), "Write binary_crossentropy."),
        **dict.fromkeys(("MSELoss", "EuclideanLoss", "L2Loss", "L2"), "Write mse."),
        **dict.fromkeys(("L1Loss", "L1"), "Write mae."),
        **dict.fromkeys(("SmoothL1Loss", "HuberLoss", "SmoothL1"), "Write huber."),
        "KLDivLoss": "Write kl_divergence.",
        "HingeLoss": "Write hinge.",
    }  # fmt: skip

    neutral_arguments = {
        "reduction": neutral(
            "sum_over_batch_size",
            hint="a loss is the mean over the samples; loss_weights= gives it a factor, and the function of its name "
            "(pt.losses.mean_squared_error) gives the loss at each position",
        ),
        "name": neutral(hint="the logs name a loss by its output"),
        "dtype": neutral(None, "float32", hint="losses are float32"),
    }

    methods_without_effect: ClassVar[Mapping[str, str]] = {
        **CONFIG_METHODS,
        **dict.fromkeys(
            ("call", "__call__", "forward"),
            "define `values(self, target, output)` in ops, or compile(loss=a_function_of_target_and_output)",
        ),
    }

    target_kind: ClassVar[TargetKind] = "values"
    needs_target: ClassVar[bool] = True
    target_bounds: ClassVar[tuple[float, float]] = (-inf, inf)
    output_activation: ClassVar[type[ActivationLayer] | None] = None

    @property
    def output_bounds(self) -> tuple[float, float]:
        """Bounds of the outputs that the loss is made for: 0 and 1 for probabilities."""
        return (0.0, 1.0) if getattr(self, "from_logits", None) is False else (-inf, inf)

    @property
    def max_classes(self) -> float:
        """How many classes numbered targets may stand for."""
        return {"classes": inf, "binary": 2, "one_hot": 1}.get(self.target_kind, 0)

    @property
    def class_axis(self) -> int:
        """The axis of the output along which the classes lie."""
        return -1

    @property
    def ignored_class(self) -> int | None:
        """A class index that targets may have and that does not count, whether the output has such a class or not."""
        return None

    @classmethod
    def coerce(cls, value: Any) -> Loss | None:
        """A function of target and output is a `FunctionLoss`; one of `prototorch.losses` is the loss itself."""
        loss_class = getattr(value, "loss_class", None)
        if loss_class is not None and issubclass(loss_class, cls):
            return cast(Loss, loss_class())
        is_function = cls is Loss and callable(value) and not isinstance(value, type)
        return Loss.lookup("FunctionLoss")(value) if is_function else None

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """The mean loss of outputs ``y_pred`` [batch, ...] with targets ``y_true``: of tensors and arrays a tensor
        without dimensions, of symbols (`Input`, `Graph`) a symbol (Keras' Loss.__call__).

        sample_weight: a factor of each sample, [batch], or of each position, [batch, ...]; the mean is over all
        positions, as in Keras. Positions that the mask of ``y_pred`` excludes do not count.

        Raises ShapeError where the shapes do not match, DataError for numbers of classes with fractions.
        """
        module = importlib.import_module("prototorch.losses.direct_call")
        return module.call_loss(self, y_true, y_pred, sample_weight)

    def probabilities(self, output: Any) -> Any:
        """The probabilities that an output stands for: the sigmoid or softmax of logits, else the output itself."""
        if not getattr(self, "from_logits", False):
            return output
        return ops.sigmoid(output) if self.target_kind == "binary" else ops.softmax(output, axis=self.class_axis)

    def target_spec(self, output: Spec) -> Spec:
        """The spec of the target for an output of this spec. Raises ShapeError for an output the loss cannot take."""
        return Spec(output.shape, output.dtype)

    def per_sample_loss(self, target: Any, output: Any, mask: Any = None) -> Any:
        """The loss of each sample, [batch], expressed in ops: the mean over all other dimensions.

        target: as `target_spec` says, of any type; an axis of one at the end may be missing or too many.
        output: [batch, ...]. mask: the output's, bool, [batch] or [batch, time, ...]: True where a position counts.

        Positions that do not count give 0, and the others are scaled by all positions / positions that count, so that
        the mean over the batch is the mean over the positions that count (Keras' scaling of masks); 0 where none
        counts. Raises ShapeError where the shapes do not match; nothing is broadcast.
        """
        target = self.match_target(target, self.target_spec(output.spec), output.spec)
        values = self.values(target, output)
        valid = combine_masks(self.valid_mask(target), mask)
        if valid is None:
            return mean_trailing(values)
        if tuple(values.shape[: valid.ndim]) != tuple(valid.shape):
            raise ShapeError(
                f"{type(self).__name__} gives values of shape {list(values.shape)}, "
                f"which a mask of shape {list(valid.shape)} does not match"
            )
        values = mean_trailing(values, valid.ndim)
        share = ops.mean(ops.cast(valid, dtype=values.dtype), axis=None)
        share = ops.maximum(share, 1.0 / valid.spec.size)
        return mean_trailing(ops.where(valid, values, ops.zeros_like(values)) / share)

    def valid_mask(self, target: Any) -> Any | None:
        """True where a position counts, [batch, ...], by the target (which has its shape and dtype); None:
        everywhere."""
        return None

    def values(self, target: Any, output: Any) -> Any:
        """The loss at each position, [batch, ...], expressed in ops; the target has its shape and dtype."""
        raise TypeError(f"{type(self).__name__} does not define values")

    def position_values(self, values: Any, output: Any) -> Any:
        """What `values` gives, as Keras' function of the loss gives it: without the last axis of the output."""
        return ops.mean(values, axis=-1) if values.ndim == output.ndim else values

    def match_target(self, target: Any, spec: Spec, output: Spec) -> Any:
        """The target in the shape and dtype of ``spec``. Raises ShapeError where its shape does not match."""
        return match_target(type(self).__name__, self.target_kind, target, spec, output)

    def reject_output(self, output: Spec, why: str) -> NoReturn:
        """Raise a ShapeError about an output that the loss cannot take."""
        raise ShapeError(f"{type(self).__name__} cannot take an output of shape {list(output.shape)}: {why}")


def match_target(name: str, kind: TargetKind, target: Any, spec: Spec, output: Spec) -> Any:
    """A target in the shape and dtype of ``spec``. A trailing axis of size one may be missing or superfluous; any other
    difference raises ShapeError, with a guess of what the target is."""
    have, shape = tuple(target.shape), spec.shape
    if have != shape:
        if have != (*shape, 1) and (*have, 1) != shape:
            raise ShapeError(
                f"{name} expected a target of shape {list(shape)} for an output of shape {list(output.shape)}, "
                f"got {list(have)}{shape_hint(kind, have, shape, output.shape)}"
            )
        target = ops.reshape(target, shape=shape)
    return target if target.dtype == spec.dtype else ops.cast(target, dtype=spec.dtype)


def shape_hint(kind: TargetKind, have: tuple[int, ...], shape: tuple[int, ...], output: tuple[int, ...]) -> str:
    """What a target of another shape probably is, and what to do."""
    if have[:1] != shape[:1]:
        return f"; there are {have[0] if have else 'no'} targets for {shape[0]} samples"
    axis = _axis_left_out(have, output)
    if kind == "classes" and axis is not None:
        order = [*(i for i in range(1, len(output)) if i != axis), axis]
        return (
            f"; the {output[axis]} classes seem to lie along axis {axis} of the output: write axis: {axis} at the "
            f"loss, or Permute {{ dims: {order} }} before the output"
        )
    if kind == "classes" and have == output:
        return "; it looks like one-hot targets: CategoricalCrossentropy takes them, or take their argmax"
    if kind in ("one_hot", "binary") and output[-1:] != (1,) and have in (output[:-1], (*output[:-1], 1)):
        return "; it looks like class indices: SparseCategoricalCrossentropy takes them"
    if have[: len(output) - 1] == output[:-1] and len(have) <= len(output):
        units = have[-1] if len(have) == len(output) else 1
        return f"; the output has {output[-1]} units, the target {units}: change the last layer or the target"
    return ""


def _axis_left_out(have: tuple[int, ...], output: tuple[int, ...]) -> int | None:
    """The axis, neither the first nor the last, without which (or with size 1) an output's shape is that of targets."""
    for i in range(1, len(output) - 1):
        if have in ((*output[:i], *output[i + 1 :]), (*output[:i], 1, *output[i + 1 :])):
            return i
    return None


def mean_trailing(values: Any, ndim: int = 1) -> Any:
    """The mean over all dimensions after the first ``ndim``: [batch, ...] -> [batch]."""
    return values if values.ndim <= ndim else ops.mean(values, axis=tuple(range(ndim, values.ndim)))


def expand_trailing(values: Any, ndim: int) -> Any:
    """The values with trailing dimensions of size one, ``ndim`` dimensions in all."""
    return values if values.ndim >= ndim else ops.reshape(values, shape=(*values.shape, *[1] * (ndim - values.ndim)))


def combine_masks(*masks: Any) -> Any | None:
    """True where all masks are True; None is ignored. The shape is that of the mask with the most dimensions."""
    present = sorted((m for m in masks if m is not None), key=lambda m: -m.ndim)
    joint = None
    for mask in present:
        joint = mask if joint is None else ops.logical_and(joint, expand_trailing(mask, joint.ndim))
    return joint


def canonical_loss_axis(name: str, output: Spec, axis: int) -> int:
    """An axis of an output as a non-negative index. Raises ShapeError for one that does not exist, or the batch's."""
    index = axis + output.ndim if axis < 0 else axis
    if not 0 < index < output.ndim:
        raise ShapeError(
            f"{name} {{ axis: {axis} }} cannot take an output of shape {list(output.shape)}: its axes without that of "
            f"the batch are 1 to {output.ndim - 1}"
        )
    return index


def classes_last(x: Any, axis: int) -> Any:
    """x with the axis of the classes at the end."""
    axis %= x.ndim
    return x if axis == x.ndim - 1 else ops.transpose(x, order=(*(i for i in range(x.ndim) if i != axis), axis))
