"""The root of all losses: what is wanted of an output, as one number a sample."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, NoReturn

from prototorch import ops
from prototorch.errors import ShapeError
from prototorch.schema import Block
from prototorch.spec import Spec

#: the small number that keeps logarithms and quotients finite, as in Keras (``keras.config.epsilon()``)
EPSILON = 1e-7

TargetKind = Literal["classes", "one_hot", "binary", "values"]


class Loss(Block, family="loss"):
    """What training makes small.

    A loss compares an output with its target and gives one number a sample. The step's loss is
    ``sum(weight * per_sample) / batch`` (Keras' "sum_over_batch_size"), where the weight is the sample weight times the
    class weight. Places that an output's mask leaves out do not count: the mean is over the others of the batch, as in
    Keras. A subclass defines `values`, and `target_spec` where its target has another shape than its output.

    Attributes:
        target_kind: what targets are: "classes" whole numbers from 0; "one_hot" a distribution over the class axis;
            "binary" numbers from 0 to 1; "values" any numbers.
        class_axis: the axis of the output along which the classes lie.
    """

    target_kind: ClassVar[TargetKind] = "values"

    @property
    def class_axis(self) -> int:
        """The axis of the output along which the classes lie."""
        return -1

    @property
    def ignored_class(self) -> int | None:
        """A class number that targets may have and that does not count, whether the output has such a class or not."""
        return None

    def target_spec(self, output: Spec) -> Spec:
        """The spec of the target for an output of this spec. Raises ShapeError for an output the loss cannot take."""
        return Spec(output.shape, output.dtype)

    def per_sample_loss(self, target: Any, output: Any, mask: Any = None) -> Any:
        """The loss of each sample, [batch], said in ops: the mean over whatever other dimensions there are.

        target: as `target_spec` says, of any type; an axis of one at the end may be missing or too many.
        output: [batch, ...]. mask: the output's, bool, [batch] or [batch, time, ...]: True where a place counts.

        What does not count gives 0, and what counts is scaled by all places / places that count, so that the mean over
        the batch is the mean over the places that count (Keras' scaling of masks); 0 where none counts.
        Raises ShapeError where the shapes do not belong together; nothing is ever broadcast.
        """
        target = self.match_target(target, self.target_spec(output.spec), output.spec)
        values = self.values(target, output)
        counted = combine_masks(self.valid_mask(target), mask)
        if counted is None:
            return mean_trailing(values)
        if tuple(values.shape[: counted.ndim]) != tuple(counted.shape):
            raise ShapeError(
                f"{type(self).__name__} gives values of shape {list(values.shape)}, "
                f"to which a mask of shape {list(counted.shape)} does not belong"
            )
        values = mean_trailing(values, counted.ndim)
        share = ops.mean(ops.cast(counted, dtype=values.dtype), axis=None)
        share = ops.maximum(share, 1.0 / counted.spec.size)
        return mean_trailing(ops.where(counted, values, ops.zeros_like(values)) / share)

    def valid_mask(self, target: Any) -> Any | None:
        """True where a place counts, [batch, ...], by the target (which already has its shape and type); None: all."""
        return None

    def values(self, target: Any, output: Any) -> Any:
        """The loss at each place, [batch, ...], said in ops; the target already has its shape and type."""
        raise TypeError(f"{type(self).__name__} does not define values")

    def match_target(self, target: Any, spec: Spec, output: Spec) -> Any:
        """The target in the shape and type that the loss wants; ShapeError where it has another shape."""
        return match_target(type(self).__name__, self.target_kind, target, spec, output)

    def reject_output(self, output: Spec, why: str) -> NoReturn:
        """Raise a ShapeError about an output that the loss cannot take."""
        raise ShapeError(f"{type(self).__name__} cannot take an output of shape {list(output.shape)}: {why}")


def match_target(name: str, kind: TargetKind, target: Any, spec: Spec, output: Spec) -> Any:
    """A target in the shape and type that is wanted. An axis of one at the end may be missing or too many; any other
    difference is a ShapeError, with what the target looks like."""
    have, shape = tuple(target.shape), spec.shape
    if have != shape:
        if have != (*shape, 1) and (*have, 1) != shape:
            raise ShapeError(
                f"{name} wants a target of shape {list(shape)} for an output of shape {list(output.shape)}, "
                f"not {list(have)}{_shape_hint(kind, have, shape, output.shape)}"
            )
        target = ops.reshape(target, shape=shape)
    return target if target.dtype == spec.dtype else ops.cast(target, dtype=spec.dtype)


def _shape_hint(kind: TargetKind, have: tuple[int, ...], shape: tuple[int, ...], output: tuple[int, ...]) -> str:
    """What a target of a wrong shape probably is, and what to do."""
    if have[:1] != shape[:1]:
        return f"; there are {have[0] if have else 'no'} targets for {shape[0]} samples"
    if kind == "classes" and have == output:
        return "; it looks like one-hot targets: CategoricalCrossentropy takes them, or take their argmax"
    if kind in ("one_hot", "binary") and output[-1:] != (1,) and have in (output[:-1], (*output[:-1], 1)):
        return "; it looks like class numbers: SparseCategoricalCrossentropy takes them"
    if have[: len(output) - 1] == output[:-1] and len(have) <= len(output):
        units = have[-1] if len(have) == len(output) else 1
        return f"; the output has {output[-1]} units, the target {units}: change the last layer or the target"
    return ""


def mean_trailing(values: Any, ndim: int = 1) -> Any:
    """[batch, ...] -> [batch]: the mean over all dimensions behind the first ``kept``."""
    return values if values.ndim <= ndim else ops.mean(values, axis=tuple(range(ndim, values.ndim)))


def expand_trailing(values: Any, ndim: int) -> Any:
    """The same values with dimensions of one behind their own, ``ndim`` in all."""
    return values if values.ndim >= ndim else ops.reshape(values, shape=(*values.shape, *[1] * (ndim - values.ndim)))


def combine_masks(*masks: Any) -> Any | None:
    """True where all masks are; those that are None say nothing. The shape is that of the one with most dimensions."""
    given = sorted((m for m in masks if m is not None), key=lambda m: -m.ndim)
    made = None
    for mask in given:
        made = mask if made is None else ops.logical_and(made, expand_trailing(mask, made.ndim))
    return made
