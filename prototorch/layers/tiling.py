"""Elements repeated: along axes, around the borders, and between channels and pixels."""

from __future__ import annotations

from typing import Any, Literal

from prototorch import ops
from prototorch.layers.base import Layer
from prototorch.layers.channels import MapLayer
from prototorch.layers.context import ArrayValue, Context
from prototorch.layers.reductions import sample_axis
from prototorch.layers.windows import check_rank
from prototorch.schema import Dims, example, field


class Tile(Layer):
    """The whole array several times along each axis (keras.ops.tile). Input and output [batch, ...].

    With an ``axis`` it is repeated along that one alone, which may be 0: all samples, several times.
    """

    channel_axis_note = "`repeats` has a number for each axis"
    keeps_bounds = True
    own_fields = frozenset({"axis"})
    repeats: list[int] = field(min=1, doc="How often, for each axis but the batch's; for the axis, where there is one.")
    axis: int | None = field(default=None, doc="The only axis that is repeated, the batch dimension being 0.")
    examples = [
        example("Tile { repeats: [2, 1] }", inputs=[(2, 3)]),
        example("Tile { repeats: 3 }", inputs=[(2,)]),
        example("Tile { repeats: 2  axis: 2 }", inputs=[(2, 3)]),
        example("Tile { repeats: 2  axis: 0 }", inputs=[(3,)], batch_axis=False, batched=False),
    ]

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        axes = range(1, x.ndim) if self.axis is None else [sample_axis(ctx, x, self.axis, allows_batch=True)]
        if len(self.repeats) != len(axes):
            actual = f"repeats {list(self.repeats)} are for {len(self.repeats)} axes"
            ctx.fail(
                f"{actual}, {list(x.shape[1:])} has {len(axes)}" if self.axis is None else f"{actual}, axis is one"
            )
        for axis, times in zip(axes, self.repeats, strict=True):
            if times > 1:
                before, size, after = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
                wide = ops.reshape(x, shape=(*before, 1, size, *after))
                wide = ops.broadcast_to(wide, shape=(*before, times, size, *after))
                x = ops.reshape(wide, shape=(*before, times * size, *after))
        return x


class BroadcastTo(Layer):
    """Axes of size 1 repeated up to a shape (keras.ops.broadcast_to). Input [batch, ...], output [batch, *shape]."""

    channel_axis_note = "`shape` has a size for each axis"
    moves_elements = True
    keeps_bounds = True
    shape: tuple[int, ...] = field(type=Dims(unknown=False), doc="The shape of the output without the batch dimension.")
    examples = [
        example("BroadcastTo { shape: [3, 2] }", inputs=[(3, 1)]),
        example("BroadcastTo { shape: [2, 3] }", inputs=[(1, 3)]),
    ]

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        if len(self.shape) != x.ndim - 1 or any(n not in (1, m) for n, m in zip(x.shape[1:], self.shape, strict=False)):
            ctx.fail(
                f"{list(x.shape[1:])} cannot be repeated to {list(self.shape)}: sizes are equal, or 1 in the input"
            )
        return ops.broadcast_to(x, shape=(x.shape[0], *self.shape))


class Pad(Layer):
    """Elements before and after each axis (keras.ops.pad; ONNX).

    Input and output [batch, ...]. ``constant``: the value; ``reflect``: the elements in reverse order from the border,
    which is not repeated; ``edge``: the border; ``wrap``: the elements of the other end.
    """

    channel_axis_note = "`padding` has a pair for each axis"
    keeps_bounds = True
    padding: list[list[int]] = field(doc="The numbers [before, after] of elements, for each axis but the batch's.")
    mode: Literal["constant", "reflect", "edge", "wrap"] = field(default="constant", doc="What the new elements are.")
    value: float = field(default=0.0, doc="The elements of the mode constant.")
    examples = [
        example("Pad { padding: [[1, 0], [0, 2]]  value: 0.5 }", inputs=[(2, 3)]),
        example("Pad { padding: [[0, 0], [2, 1]]  mode: reflect }", inputs=[(2, 3)]),
        example("Pad { padding: [[1, 2]]  mode: edge }", inputs=[(3,)]),
        example("Pad { padding: [[1, 2]]  mode: wrap }", inputs=[(3,)]),
    ]

    def check(self) -> None:
        """Pairs of numbers that are not negative."""
        if any(len(pair) != 2 or min(pair) < 0 for pair in self.padding):
            self.refuse("padding has two numbers of at least 0 for each axis: [[before, after], ...]", "padding")

    def output_bounds(self, low: float, high: float) -> tuple[float, float]:
        return (min(low, self.value), max(high, self.value)) if self.mode == "constant" else (low, high)

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        if len(self.padding) != x.ndim - 1:
            ctx.fail(f"padding is for {len(self.padding)} axes, the input {list(x.shape[1:])} has {x.ndim - 1}")
        pads = ((0, 0), *((a, b) for a, b in self.padding))
        if self.mode == "constant":
            value = self.value if x.dtype.startswith("float") else int(self.value)
            return ops.pad(x, pads=pads, value=value)
        return ops.pad(x, pads=pads, mode=self.mode)


class DepthToSpace(MapLayer):
    """Channels as blocks of pixels: [batch, channels, rows, columns] becomes
    [batch, channels / b^2, rows * b, columns * b] (Shi et al., 2016; PyTorch's PixelShuffle, ONNX)."""

    over_images = True
    keeps_bounds = True
    foreign_names = {"PixelShuffle": "DepthToSpace with order: channels_first"}
    block_size: int = field(min=1, doc="Rows and columns of a block, b.")
    order: Literal["depth_first", "channels_first"] = field(
        default="depth_first",
        doc="depth_first: the channels of a pixel of the block lie side by side (TensorFlow); "
        "channels_first: those of an output channel do (PyTorch).",
    )
    examples = [
        example("DepthToSpace { block_size: 2 }", inputs=[(8, 1, 2)]),
        example("DepthToSpace { block_size: 2  order: channels_first }", inputs=[(8, 2, 1)]),
    ]

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        check_rank(ctx, x, 2)
        n, c, h, w = x.shape
        b = self.block_size
        if c % (b * b):
            ctx.fail(f"{c} channels do not divide into blocks of {b} x {b}")
        if self.order == "depth_first":
            y = ops.transpose(ops.reshape(x, shape=(n, b, b, c // (b * b), h, w)), order=(0, 3, 4, 1, 5, 2))
        else:
            y = ops.transpose(ops.reshape(x, shape=(n, c // (b * b), b, b, h, w)), order=(0, 1, 4, 2, 5, 3))
        return ops.reshape(y, shape=(n, c // (b * b), h * b, w * b))


class SpaceToDepth(MapLayer):
    """Blocks of pixels as channels, those of a pixel of the block side by side (TensorFlow, ONNX):
    [batch, channels, rows, columns] becomes [batch, channels * b^2, rows / b, columns / b]."""

    over_images = True
    keeps_bounds = True
    block_size: int = field(min=1, doc="Rows and columns of a block, b.")
    examples = [
        example("SpaceToDepth { block_size: 2 }", inputs=[(2, 2, 4)]),
        example("SpaceToDepth { block_size: 1 }", inputs=[(1, 2, 3)]),
    ]

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        check_rank(ctx, x, 2)
        n, c, h, w = x.shape
        b = self.block_size
        if h % b or w % b:
            ctx.fail(f"an image of {h} x {w} does not divide into blocks of {b} x {b}")
        y = ops.transpose(ops.reshape(x, shape=(n, c, h // b, b, w // b, b)), order=(0, 3, 5, 1, 2, 4))
        return ops.reshape(y, shape=(n, c * b * b, h // b, w // b))
