"""Sums, means and extrema over axes, and the positions of extrema."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from prototorch import ops
from prototorch.layers.base import Layer
from prototorch.layers.context import ArrayValue, Context
from prototorch.schema import example, field


def sample_axis(ctx: Context, x: ArrayValue, axis: int, allows_batch: bool = False) -> int:
    """An axis of x as a non-negative index; ShapeError if it does not exist or is the batch axis.

    allows_batch: whether the batch axis is accepted where it is written as 0.
    """
    if allows_batch and axis == 0 < x.ndim:
        return 0
    index = axis + x.ndim if axis < 0 else axis
    if not 1 <= index < x.ndim:
        ctx.fail(f"axis {axis} does not exist: the axes of {list(x.shape[1:])} are 1 to {x.ndim - 1}")
    return index


class _Reduction(Layer):
    channel_axis_note = "its field `axis` says it"
    function: ClassVar[Any]
    axis: list[int] | None = field(
        default=None,
        doc="The axis or axes, the batch dimension being 0; none for all but that. With 0 among them the samples are "
        "combined, too, and the output has no batch dimension.",
    )
    keepdims: bool = field(default=False, doc="Whether the axes stay, with size 1.")

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        axes = range(1, x.ndim) if self.axis is None else self.axis
        over = tuple(sample_axis(ctx, x, a, allows_batch=True) for a in axes)
        if len(set(over)) < len(over):
            ctx.fail(f"axis {list(self.axis or ())} names an axis twice")
        return x if not over else type(self).function(x, axis=tuple(sorted(over)), keepdims=self.keepdims)


class ReduceSum(_Reduction):
    """The sum over axes (keras.ops.sum). Input [batch, ...], output without the axes, or with size 1 there."""

    function = staticmethod(ops.sum)
    examples = [
        example("ReduceSum { axis: 1 }", inputs=[(3, 2)]),
        example("ReduceSum { axis: [-1, 1]  keepdims: true }", inputs=[(2, 3, 2)]),
        example("ReduceSum { axis: [0, 1] }", inputs=[(2, 3)], batch_axis=False, batched=False),
    ]


class ReduceMean(_Reduction):
    """The mean over axes (keras.ops.mean). Input [batch, ...], output without the axes, or with size 1 there."""

    keeps_bounds = True
    function = staticmethod(ops.mean)
    examples = [
        example("ReduceMean { }", inputs=[(3, 2)]),
        example("ReduceMean { axis: -1  keepdims: true }", inputs=[(2, 3)]),
    ]


class ReduceMax(_Reduction):
    """The largest over axes (keras.ops.max). Input [batch, ...], output without the axes, or with size 1 there."""

    keeps_bounds = True
    function = staticmethod(ops.max)
    examples = [
        example("ReduceMax { axis: 2 }", inputs=[(3, 2)]),
        example("ReduceMax { axis: [1, 2]  keepdims: true }", inputs=[(2, 3)]),
    ]


class ReduceMin(_Reduction):
    """The smallest over axes (keras.ops.min). Input [batch, ...], output without the axes, or with size 1 there."""

    keeps_bounds = True
    function = staticmethod(ops.min)
    examples = [
        example("ReduceMin { axis: 1 }", inputs=[(3, 2)]),
        example("ReduceMin { keepdims: true }", inputs=[(2, 3)]),
    ]


class ReduceProd(_Reduction):
    """The product over axes (keras.ops.prod). Input [batch, ...], output without the axes, or with size 1 there."""

    function = staticmethod(ops.prod)
    examples = [
        example("ReduceProd { axis: 1 }", inputs=[(3, 2)], range=(0.5, 2)),
        example("ReduceProd { axis: -1  keepdims: true }", inputs=[(2, 3)], range=(0.5, 2)),
    ]


class LogSumExp(_Reduction):
    """log(sum of exp(x)) over axes, without overflow (keras.ops.logsumexp)."""

    function = staticmethod(ops.logsumexp)
    examples = [
        example("LogSumExp { axis: 1 }", inputs=[(3, 2)]),
        example("LogSumExp { axis: [1, 2]  keepdims: true }", inputs=[(2, 3)]),
    ]


class ArgMax(Layer):
    """The position of the largest element along an axis, the first of several (keras.ops.argmax).

    Input [batch, ...], output without the axis, int64. It has no derivative.
    """

    channel_axis_note = "its field `axis` says it"
    axis: int = field(default=-1, doc="The axis, the batch dimension being 0.")
    examples = [example("ArgMax { }", inputs=[(2, 4)]), example("ArgMax { axis: 1 }", inputs=[(3, 2)])]

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        return ops.cast(ops.argmax(x, axis=sample_axis(ctx, x, self.axis)), dtype="int64")


class ArgMin(Layer):
    """The position of the smallest element along an axis, the first of several (keras.ops.argmin).

    Input [batch, ...], output without the axis, int64. It has no derivative.
    """

    channel_axis_note = "its field `axis` says it"
    axis: int = field(default=-1, doc="The axis, the batch dimension being 0.")
    examples = [example("ArgMin { }", inputs=[(2, 4)]), example("ArgMin { axis: 1 }", inputs=[(3, 2)])]

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        return ops.cast(ops.argmin(x, axis=sample_axis(ctx, x, self.axis)), dtype="int64")


class CumSum(Layer):
    """The running sum along an axis (keras.ops.cumsum). Input and output [batch, ...]."""

    channel_axis_note = "its field `axis` says it"
    axis: int = field(default=-1, doc="The axis, the batch dimension being 0.")
    exclusive: bool = field(default=False, doc="Whether an element is left out of its own sum.")
    reverse: bool = field(default=False, doc="Whether to sum from the end.")
    examples = [
        example("CumSum { }", inputs=[(2, 4)]),
        example("CumSum { axis: 1  exclusive: true  reverse: true }", inputs=[(3, 2)]),
    ]

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        y = ops.cumsum(x, axis=sample_axis(ctx, x, self.axis), reverse=self.reverse)
        return y - x if self.exclusive else y


class TopK(Layer):
    """The k largest elements along an axis in descending order, and their positions (keras.ops.top_k).

    Input [batch, ..., n, ...], outputs of k elements along the axis: the elements, and their positions, int64.
    """

    channel_axis_note = "its field `axis` says it"
    outputs = 2
    own_fields = frozenset({"axis", "ties"})
    k: int = field(min=1, doc="How many elements.")
    axis: int = field(default=-1, doc="The axis, the batch dimension being 0.")
    ties: Literal["first", "last"] = field(
        default="first", doc="Which of equal elements comes first: that of the smallest position, or of the largest."
    )
    examples = [
        example("TopK { k: 2 }", inputs=[(4,)]),
        example("TopK { k: 1 }", inputs=[(2, 3)]),
        example("TopK { k: 2  axis: 1  ties: last }", inputs=[(3, 2)]),
    ]

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        axis, last = sample_axis(ctx, x, self.axis, allows_batch=True), x.ndim - 1
        size = x.shape[axis]
        if self.k > size:
            ctx.fail(f"it takes {self.k} of {size} elements")
        x = x if axis == last else ops.swap_axes(x, axis, last)
        if self.ties == "last":
            x = ops.flip(x, axis=last)
        values, indices = ops.top_k(x, k=self.k)
        indices = ops.cast(indices, dtype="int64")
        if self.ties == "last":
            indices = (size - 1) - indices
        if axis == last:
            return values, indices
        return ops.swap_axes(values, axis, last), ops.swap_axes(indices, axis, last)
