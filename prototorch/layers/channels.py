"""Which axis the channels are: the field ``data_format`` of every layer that reads channels, and what follows from it.

It says which axis means what, and nothing of how memory lies. Ops have the channels behind the batch; a layer over a
map of channels that has them last records a transpose before and behind its ops, and `graph.passes.sink_transposes`
cancels what stands between two such layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Self

from prototorch.layers.base import Layer
from prototorch.layers.context import ArrayValue, Context
from prototorch.layers.mask_shapes import transpose_with_mask
from prototorch.schema import field

DataFormat = Literal["channels_first", "channels_last"]

_COLOR_CHANNELS, _LEAST_SIDE = (1, 3, 4), 8  # what images have
_MAP_AXES = {1: "steps", 2: "rows, columns", 3: "depth, rows, columns"}


def default_data_format(sample_rank: int) -> DataFormat:
    """Where the channels of samples of so many axes are if nothing is said: the axis behind the batch."""
    return "channels_first"


class ChannelAxisLayer(Layer, abstract=True):
    """A layer that treats the channels of its input by themselves, wherever they are."""

    keyword_only: ClassVar[tuple[str, ...]] = ("data_format",)
    data_format: DataFormat | None = field(
        default=None,
        doc="The axis of the channels: behind the batch (the default), or the last.",
    )

    def has_channels_last(self, sample_rank: int) -> bool:
        """Whether the channels are the last axis of samples of so many axes."""
        return (self.data_format or default_data_format(sample_rank)) == "channels_last"

    def channel_axis(self, ndim: int) -> int:
        """The axis of the channels in a value of so many axes, the batch's included: the field ``axis``, else by
        ``data_format``."""
        axis: int | None = getattr(self, "axis", None)
        return axis if axis is not None else ndim - 1 if self.has_channels_last(ndim - 1) else 1

    def with_data_format(self, data_format: DataFormat) -> Self:
        inner = super().with_data_format(data_format)
        return inner if inner.data_format is not None else inner.replace(data_format=data_format)


def channel_axis_field(doc: str = "The axis of the channels") -> Any:
    """The field ``axis`` of a layer whose default is the axis of the channels."""
    return field(default=None, doc=f"{doc}, the batch dimension being 0; default: the channels' by data_format.")


class MapLayer(ChannelAxisLayer, abstract=True):
    """A layer over a map of channels: `call` reads and gives values with the channels before the axes of the map.

    A subclass says of how many axes the map is by ``rank`` or `over_images`; without either it is all behind the
    channels.
    """

    def map_rank(self, ndim: int) -> int:
        """The number of axes of the map in an input of so many axes."""
        rank: int | None = getattr(type(self), "rank", None)
        return rank if rank is not None else 2 if self.over_images else ndim - 2

    @property
    def axes_before_channels(self) -> int:
        """The number of axes before the channels: the batch's, and with it the time's of a sequence of maps."""
        return 1

    def has_channels_last(self, sample_rank: int) -> bool:
        return super().has_channels_last(self.map_rank(sample_rank + 1) + 1)

    def describe_unusual_input(self, shape: Sequence[int]) -> list[str]:
        """A warning about samples of this shape that look like images with their channels last, where the layer has
        them first without saying so; none for others, and for sides of less than 8 pixels."""
        looks_last = len(shape) == 3 and shape[-1] in _COLOR_CHANNELS and min(shape[:2]) >= _LEAST_SIDE
        if not looks_last or self.data_format is not None or self.map_rank(4) != 2 or self.has_channels_last(3):
            return []
        rows, columns, channels = shape
        return [
            f"samples of {list(shape)} look like images of {rows} x {columns} pixels with their {channels} channels "
            f"last, and it reads {rows} channels of {columns} x {channels}; data_format: channels_last reads them as "
            "they are (data_format: channels_first says that this is meant)"
        ]

    def record(self, ctx: Context, *inputs: ArrayValue) -> Any:
        if not inputs or not self.has_channels_last(inputs[0].ndim - 1):
            return self.call(ctx, *inputs)
        rank = self.map_rank(inputs[0].ndim)
        if inputs[0].ndim != self.axes_before_channels + rank + 1:
            self._fail_rank(ctx, inputs[0], rank)
        result = self.call(ctx, *(self._channels_first(ctx, x, rank) for x in inputs))
        outputs = result if isinstance(result, tuple) else (result,)
        moved = tuple(self._channels_last(ctx, y, rank) for y in outputs)
        return moved if isinstance(result, tuple) else moved[0]

    def _fail_rank(self, ctx: Context, x: ArrayValue, rank: int) -> None:
        axes = ["time"] * (self.axes_before_channels - 1) + [*_MAP_AXES.get(rank, "...").split(", "), "channels"]
        ctx.fail(
            f"the input must have {len(axes)} dimensions ({', '.join(axes)}), got {x.ndim - 1}; "
            "a Reshape before it adds those that are missing"
        )

    def _channels_first(self, ctx: Context, x: ArrayValue, rank: int) -> Any:
        axis = x.ndim - 1 - rank
        if rank < 1 or axis < min(self.axes_before_channels, 1):
            return x
        return transpose_with_mask(ctx, x, (*range(axis), x.ndim - 1, *range(axis, x.ndim - 1)))

    def _channels_last(self, ctx: Context, y: ArrayValue, rank: int) -> Any:
        axis = y.ndim - 1 - rank
        if rank < 1 or axis < min(self.axes_before_channels, 1):
            return y
        return transpose_with_mask(ctx, y, (*range(axis), *range(axis + 1, y.ndim), axis))


def axis_in_map(axis: int, ndim: int) -> int:
    """The axis of a value with its channels behind the batch, for an axis of the same value with its channels last."""
    index = axis % ndim
    return 1 if index == ndim - 1 else index if index == 0 else index + 1
