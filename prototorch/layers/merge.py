"""Merging layers: several inputs become one. A text may hold branches: ``Add { branch { ... } branch { } }``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, ClassVar

from prototorch import ops
from prototorch.layers.base import Layer, MaskPolicy
from prototorch.layers.channels import ChannelAxisLayer, channel_axis_field
from prototorch.layers.context import ArrayValue, Context, DecodingContext
from prototorch.layers.mask_shapes import expand_mask, join_masks
from prototorch.schema import example


class MergeLayer(Layer, abstract=True):
    """Several inputs, one output."""

    #: a text may give the inputs as branches
    accepts_branches: ClassVar[bool] = True
    independent_steps: ClassVar[bool] = True
    inputs: ClassVar[int | tuple[int, int | None]] = (2, None)

    mask_policy: ClassVar[MaskPolicy] = "use"

    def joint_mask(self, ctx: Context, values: tuple[Any, ...]) -> Any | None:
        """The elements that count in any input (Keras). All count in an input without a mask, and so in the output."""
        masks = [ctx.mask(v) for v in values]
        if all(m is None for m in masks):
            return None
        if any(m is None for m in masks):
            masked, bare = (", ".join(str(i) for i, m in enumerate(masks) if (m is None) == b) for b in (False, True))
            ctx.warn(f"its output has no mask: its inputs (from 0) {masked} have masks, {bare} have none")
            return None
        return join_masks(masks)


_SHAPE_HINTS = {
    "the channels": " (a Conv2D of kernel_size 1 changes the channels of an input)",
    **dict.fromkeys(("the rows", "the columns"), " (give each the same strides and padding)"),
    "the features": " (a Dense layer changes the features of an input)",
}


def check_shapes(
    ctx: Context,
    inputs: tuple[ArrayValue, ...],
    rule: str,
    axis: int | None = None,
    repeats_ones: bool = False,
    has_channels_last: bool = False,
) -> None:
    """Fail, in the terms of the layer's inputs, where their shapes differ; but along ``axis``, and at sizes of 1."""
    if len({x.ndim for x in inputs}) > 1:
        shapes = ", ".join(str(list(x.shape[1:])) for x in inputs)
        ctx.fail(f"its inputs must have the same number of dimensions, got {shapes}")
    for n in range(1, inputs[0].ndim):
        sizes = dict.fromkeys(x.shape[n] for x in inputs)
        if n != axis and len(sizes) > 1 and not (repeats_ones and len(sizes.keys() - {1}) < 2):
            name = name_dimension(n, inputs[0].ndim, has_channels_last)
            verb = "are" if name in _SHAPE_HINTS else "is"
            ctx.fail(f"its inputs {rule}; {name} {verb} {' and '.join(map(str, sizes))}{_SHAPE_HINTS.get(name, '')}")


def name_dimension(axis: int, ndim: int, has_channels_last: bool = False) -> str:
    """What a reader calls an axis: of images channels, rows and columns. The batch dimension is 0."""
    image_axes = ("rows", "columns", "channels") if has_channels_last else ("channels", "rows", "columns")
    names = {2: ("features",), 4: image_axes}
    return "the " + names[ndim][axis - 1] if 1 <= axis < ndim and ndim in names else f"dimension {axis}"


class _Elementwise(MergeLayer):
    """Inputs of one shape, or of shapes that broadcast (sizes of 1 are repeated), combined element by element."""

    def call(self, ctx: Context, *inputs: ArrayValue) -> Any:
        check_shapes(ctx, inputs, "must have one shape (sizes of 1 are repeated)", repeats_ones=True)
        masks = [None if (m := ctx.mask(x)) is None else expand_mask(m, x.ndim) for x in inputs]
        y = self.combine(inputs) if all(m is None for m in masks) else self.combine_masked(inputs, masks)
        ctx.set_mask(y, self.joint_mask(ctx, inputs))
        return y

    def combine(self, inputs: Sequence[Any]) -> Any:
        """The inputs as one value, of the shape that they broadcast to."""
        raise TypeError(f"{type(self).__name__} does not define combine")

    def combine_masked(self, inputs: Sequence[Any], masks: Sequence[Any | None]) -> Any:
        """The inputs as one, given the mask of each (of its number of dimensions), not all None."""
        return self.combine(inputs)


class Add(_Elementwise):
    """The sum of all inputs (Keras). Inputs [batch, ...] of one shape, output the same; sizes of 1 are repeated."""

    symbolic_function = "add"
    block_word = "residual"
    examples = [
        example("Add { }", inputs=[(2, 3), (2, 3)]),
        example("Add { }", inputs=[(2, 3, 1), (1, 3, 2), (2, 3, 2)]),
    ]

    def combine(self, inputs: Sequence[Any]) -> Any:
        return reduce(ops.add, inputs)


class Subtract(_Elementwise):
    """The first input less the second (Keras). Two inputs [batch, ...] of one shape; sizes of 1 are repeated."""

    symbolic_function = "sub"
    inputs = 2
    examples = [
        example("Subtract { }", inputs=[(2, 3), (2, 3)]),
        example("Subtract { }", inputs=[(2, 1), (1, 3)]),
    ]

    def combine(self, inputs: Sequence[Any]) -> Any:
        return inputs[0] - inputs[1]


class Multiply(_Elementwise):
    """The product of all inputs (Keras). Inputs [batch, ...] of one shape; sizes of 1 are repeated.

    An element that a mask leaves out is no factor; where all are left out the product is 0.
    """

    symbolic_function = "mul"
    block_word = "gate"
    examples = [
        example("Multiply { }", inputs=[(2, 3), (2, 3)]),
        example("Multiply { }", inputs=[(3, 2, 2), (3, 1, 1), (3, 2, 1)]),
    ]

    def combine(self, inputs: Sequence[Any]) -> Any:
        return reduce(ops.multiply, inputs)

    def combine_masked(self, inputs: Sequence[Any], masks: Sequence[Any | None]) -> Any:
        factors = [x if m is None else ops.where(m, x, ops.ones_like(x)) for x, m in zip(inputs, masks, strict=True)]
        y = self.combine(factors)
        present = [m for m in masks if m is not None]
        return ops.where(join_masks(present), y, ops.zeros_like(y)) if len(present) == len(masks) else y


class Average(_Elementwise):
    """The mean of all inputs (Keras). Inputs [batch, ...] of one shape; sizes of 1 are repeated."""

    block_word = "mean"
    examples = [
        example("Average { }", inputs=[(2, 3), (2, 3)]),
        example("Average { }", inputs=[(4,), (1,), (4,)]),
    ]

    def combine(self, inputs: Sequence[Any]) -> Any:
        return reduce(ops.add, inputs) * (1.0 / len(inputs))


class _Extremum(_Elementwise):
    """One of the inputs at each element; where a mask leaves an input's element out, one of the others (Keras)."""

    def combine_masked(self, inputs: Sequence[Any], masks: Sequence[Any | None]) -> Any:
        y, y_mask = inputs[0], masks[0]
        for x, mask in zip(inputs[1:], masks[1:], strict=True):
            x = x if mask is None else ops.where(mask, x, y)
            y = y if y_mask is None else ops.where(y_mask, y, x)
            y_mask = None if mask is None or y_mask is None else ops.logical_or(y_mask, mask)
            y = self.combine((y, x))
        return y


class Maximum(_Extremum):
    """The largest of the inputs, element by element (Keras).

    Inputs [batch, ...] of one shape; sizes of 1 are repeated. An element that a mask leaves out does not count where
    another one does.
    """

    symbolic_function = "maximum"
    examples = [
        example("Maximum { }", inputs=[(2, 3), (2, 3)]),
        example("Maximum { }", inputs=[(4,), (1,), (4,)]),
    ]

    def combine(self, inputs: Sequence[Any]) -> Any:
        return reduce(ops.maximum, inputs)


class Minimum(_Extremum):
    """The smallest of the inputs, element by element (Keras).

    Inputs [batch, ...] of one shape; sizes of 1 are repeated. An element that a mask leaves out does not count where
    another one does.
    """

    symbolic_function = "minimum"
    examples = [
        example("Minimum { }", inputs=[(2, 3), (2, 3)]),
        example("Minimum { }", inputs=[(4,), (1,), (4,)]),
    ]

    def combine(self, inputs: Sequence[Any]) -> Any:
        return reduce(ops.minimum, inputs)


class Concatenate(ChannelAxisLayer, MergeLayer):
    """The inputs one after the other along an axis (Keras).

    Inputs [batch, ...] that differ along that axis only. The default is the axis of the channels: the last of tables
    and sequences, that behind the batch of images and volumes. Axes count the batch dimension, so 1 is the first of a
    shape in a text and -1 the last. ``axis: 0`` joins the samples of the inputs, which may then be of different
    numbers.
    """

    block_word = "concat"
    moves_elements = True
    aliases = ("Concat",)
    axis: int | None = channel_axis_field("The axis")
    examples = [
        example("Concatenate { }", inputs=[(3, 2), (3, 1)]),
        example("Concatenate { data_format: channels_first }", inputs=[(2, 3), (1, 3)]),
        example("Concatenate { axis: -1 }", inputs=[(2, 1, 3), (2, 1, 1), (2, 1, 2)]),
        example("Concatenate { axis: 0 }", inputs=[(2, 3), (2, 3)], batch_axis=False, batched=False),
    ]

    def call(self, ctx: Context, *inputs: ArrayValue) -> Any:
        stated = self.channel_axis(inputs[0].ndim)
        if stated == -inputs[0].ndim:
            ctx.fail(f"axis {stated} is the batch dimension; write axis: 0 to join the samples of its inputs")
        axis = stated + inputs[0].ndim if stated < 0 else stated
        if 0 <= axis < inputs[0].ndim:
            is_last = self.has_channels_last(inputs[0].ndim - 1)
            rule = f"are joined along {name_dimension(axis, inputs[0].ndim, is_last)}, all else must be equal"
            check_shapes(ctx, inputs, rule, axis, has_channels_last=is_last)
        y = ops.concat(*inputs, axis=stated)
        ctx.set_mask(y, self._concat_masks(ctx, inputs, stated % y.ndim))
        return y

    def decode_steps(self, ctx: DecodingContext, *inputs: ArrayValue) -> Any:
        ndim = inputs[0].ndim
        self.check_independent_steps(ctx, self.channel_axis(ndim) % ndim > 1, *inputs)
        return self.record(ctx, *inputs)

    def _concat_masks(self, ctx: Context, inputs: tuple[ArrayValue, ...], axis: int) -> Any | None:
        """The masks one after the other where they extend along the axis, else as in other merging layers."""
        masks = [ctx.mask(x) for x in inputs]
        ndim = max((m.ndim for m in masks if m is not None), default=0)
        if axis >= ndim:
            return self.joint_mask(ctx, inputs)
        parts = []
        for x, mask in zip(inputs, masks, strict=True):
            shape = tuple(x.shape[:ndim])
            whole = ops.full(shape=shape, value=True, dtype="bool") if mask is None else expand_mask(mask, ndim)
            parts.append(ops.broadcast_to(whole, shape=shape))
        return ops.concat(*parts, axis=axis)
