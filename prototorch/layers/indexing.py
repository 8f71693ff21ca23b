"""Parts of arrays by position: slices, chosen positions, parts one after the other."""

from __future__ import annotations

from typing import Any

from prototorch import ops
from prototorch.layers.base import Layer
from prototorch.layers.context import ArrayValue, Context
from prototorch.layers.reductions import sample_axis
from prototorch.schema import example, field


class Slice(Layer):
    """A part of each of some axes, as Python's ``start:stop:step`` (keras.ops.slice; ONNX).

    Input and output [batch, ...]. Bounds beyond the end are cut off, negative ones count from the end; with a negative
    step the elements come in reverse order.
    """

    channel_axis_note = "its field `axes` says it"
    moves_elements = True
    keeps_bounds = True
    axes: list[int] = field(default=1, min=1, doc="The axes, the batch dimension being 0.")
    starts: list[int] = field(doc="The first position along each axis.")
    stops: list[int] = field(doc="The position after the last one along each axis.")
    steps: list[int] | None = field(default=None, doc="The step along each axis; 1 if not given.")
    examples = [
        example("Slice { starts: 1  stops: 3 }", inputs=[(4,)]),
        example("Slice { axes: [1, 2]  starts: [0, -1]  stops: [2, -9]  steps: [1, -2] }", inputs=[(3, 4)]),
    ]

    def check(self) -> None:
        """A start, a stop and a step for each axis."""
        if not len(self.axes) == len(self.starts) == len(self.stops) == len(self.steps or self.axes):
            self.refuse("axes, starts, stops and steps must have one number for each axis", "starts")
        if len(set(self.axes)) < len(self.axes) or 0 in (self.steps or ()):
            self.refuse("axes differ from each other, and steps are not 0", "axes")

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        key = [slice(None)] * x.ndim
        for axis, start, stop, step in zip(
            self.axes, self.starts, self.stops, self.steps or [1] * len(self.axes), strict=True
        ):
            key[sample_axis(ctx, x, axis)] = slice(start, stop, step)
        y = x[tuple(key)]
        if 0 in y.shape:
            ctx.fail(f"it takes nothing of {list(x.shape[1:])}")
        return y


class Take(Layer):
    """The elements at some positions of an axis, in the order of the positions (keras.ops.take).

    Input [batch, ...], output with as many elements along the axis as there are indices.
    """

    channel_axis_note = "its field `axis` says it"
    moves_elements = True
    keeps_bounds = True
    indices: list[int] = field(doc="The positions, negative ones from the end; one may occur several times.")
    axis: int = field(default=-1, doc="The axis, the batch dimension being 0.")
    examples = [
        example("Take { indices: [2, 0, 0] }", inputs=[(3,)]),
        example("Take { indices: [-1, 1]  axis: 1 }", inputs=[(3, 2)]),
    ]

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        axis = sample_axis(ctx, x, self.axis)
        size = x.shape[axis]
        for i in self.indices:
            if not -size <= i < size:
                ctx.fail(f"index {i} does not exist: axis {axis} has {size} elements")
        return ops.static_gather(x, indices=tuple(i % size for i in self.indices), axis=axis)


class TakeAlongAxis(Layer):
    """The elements of the first input at the positions that the second holds (keras.ops.take_along_axis).

    Inputs [batch, ...] and integers of the same shape but along the axis; output of the integers' shape.
    """

    channel_axis_note = "its field `axis` says it"
    inputs = 2
    axis: int = field(default=-1, doc="The axis, the batch dimension being 0.")
    examples = [
        example("TakeAlongAxis { }", inputs=[(2, 3), (2, 2)], dtype=("float32", "int32"), range=((-2, 2), (0, 3))),
        example(
            "TakeAlongAxis { axis: 1 }", inputs=[(3, 2), (1, 2)], dtype=("float32", "int32"), range=((-2, 2), (0, 3))
        ),
    ]

    def call(self, ctx: Context, x: ArrayValue, indices: ArrayValue) -> Any:
        axis = sample_axis(ctx, x, self.axis)
        size = x.shape[axis]
        if indices.ndim != x.ndim or any(
            a != b for i, (a, b) in enumerate(zip(x.shape, indices.shape, strict=True)) if i != axis
        ):
            ctx.fail(
                f"its inputs {list(x.shape[1:])} and {list(indices.shape[1:])} must be equal but along axis {axis}"
            )
        last = x.ndim - 1
        indices = ops.where(ops.less(indices, 0), indices + size, indices)
        y = ops.take_along_axis(ops.swap_axes(x, axis, last), ops.swap_axes(indices, axis, last))
        return ops.swap_axes(y, axis, last)


class TakeSamples(Layer):
    """The samples at the positions that the second input holds (keras.ops.take along the batch axis; Caffe's
    BatchReindex).

    Inputs [batch, ...] and integers [n]; output [n, ...]. A position may occur several times; one that does not exist
    gives NaN.
    """

    channel_axis_note = "it takes whole samples"
    inputs = 2
    examples = [
        example(
            "TakeSamples { }", inputs=[(2, 3), ()], dtype=("float32", "int32"), range=((-2, 2), (0, 1)), batched=False
        ),
        example(
            "TakeSamples { }", inputs=[(4,), ()], dtype=("float32", "int64"), range=((-2, 2), (0, 1)), batched=False
        ),
    ]

    def call(self, ctx: Context, x: ArrayValue, indices: ArrayValue) -> Any:
        if indices.ndim != 1:
            ctx.fail(f"the positions must have one axis, got {list(indices.shape)}")
        return ops.take(x, indices)


class Split(Layer):
    """Parts of an axis, one after the other, as several outputs (keras.ops.split; ONNX).

    Input [batch, ...]; output i has ``sizes[i]`` elements along the axis. ``axis: 0`` splits the samples.
    """

    channel_axis_note = "its field `axis` says it"
    moves_elements = True
    keeps_bounds = True
    sizes: list[int] = field(min=1, doc="The sizes of the parts, which add up to that of the axis.")
    axis: int = field(default=1, doc="The axis, the batch dimension being 0.")
    examples = [
        example("Split { sizes: [1, 2] }", inputs=[(3, 2)]),
        example("Split { sizes: [2, 1, 1]  axis: -1 }", inputs=[(1, 4)]),
    ]

    def output_count(self) -> int:
        return len(self.sizes)

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        axis = sample_axis(ctx, x, self.axis, allows_batch=True)
        if sum(self.sizes) != x.shape[axis]:
            ctx.fail(f"sizes {list(self.sizes)} add up to {sum(self.sizes)}, axis {axis} has {x.shape[axis]} elements")
        parts, start = [], 0
        for size in self.sizes:
            parts.append(x[(*[slice(None)] * axis, slice(start, start + size))])
            start += size
        return tuple(parts) if len(parts) > 1 else parts[0]
