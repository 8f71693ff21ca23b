"""Which axis the channels are: the field ``data_format`` of every layer that reads channels, and what follows from it.

It says which axis means what, and nothing of how memory lies. Ops have the channels behind the batch; a layer over a
map of channels that has them last records a transpose before and behind its ops, and `graph.passes.sink_transposes`
cancels what stands between two such layers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

from prototorch.layers.base import Layer
from prototorch.layers.context import ArrayValue, Context
from prototorch.layers.mask_shapes import transpose_with_mask
from prototorch.schema import field
from prototorch.text.syntax_tree import Field

DataFormat = Literal["channels_first", "channels_last"]

COLOR_CHANNELS = (1, 3, 4)  # numbers of channels that images have
_LEAST_SIDE = 8  # pixels
_MAP_AXES = {1: "steps", 2: "rows, columns", 3: "depth, rows, columns"}


def default_data_format(sample_rank: int) -> DataFormat:
    """Where the channels of samples of so many axes are if nothing is said: last in tables and sequences, as Keras has
    them, and behind the batch in images and volumes, as Caffe and PyTorch have them."""
    return "channels_last" if sample_rank <= 2 else "channels_first"


class ChannelAxisLayer(Layer, abstract=True):
    """A layer that treats the channels of its input by themselves, wherever they are."""

    keyword_only: ClassVar[tuple[str, ...]] = ("data_format",)
    data_format: DataFormat | None = field(
        default=None,
        doc="The axis of the channels: behind the batch (the default for images and volumes), or the last (for tables "
        "and sequences).",
    )

    @classmethod
    def format_1_fields(cls, fields: Sequence[Field]) -> Mapping[str, Any]:
        """What fields say today that a text of format 1, which had the channels at axis 1, meant without them."""
        return {"axis": 1} if "axis" in cls.specs() else {}

    def has_channels_last(self, sample_rank: int) -> bool:
        """Whether the channels are the last axis of samples of so many axes."""
        return (self.data_format or default_data_format(sample_rank)) == "channels_last"

    def channel_axis(self, ndim: int) -> int:
        """The axis of the channels in a value of so many axes, the batch's included: the field ``axis``, else by
        ``data_format``."""
        axis: int | None = getattr(self, "axis", None)
        return axis if axis is not None else ndim - 1 if self.has_channels_last(ndim - 1) else 1

    def reads_rank(self, sample_rank: int) -> bool:
        """Whether the layer reads samples of so many axes."""
        return True

    def with_data_format(self, data_format: DataFormat) -> Self:
        inner = super().with_data_format(data_format)
        is_stated = inner.data_format is not None or getattr(inner, "axis", None) is not None
        return inner if is_stated else inner.replace(data_format=data_format)

    def without_data_format(self, data_format: DataFormat) -> Self:
        inner = super().without_data_format(data_format)
        return inner.replace(data_format=None) if inner.data_format == data_format else inner


def channel_axis_field(doc: str = "The axis of the channels") -> Any:
    """The field ``axis`` of a layer whose default is the axis of the channels."""
    return field(default=None, doc=f"{doc}, the batch dimension being 0; default: the channels' by data_format.")


class MapLayer(ChannelAxisLayer, abstract=True):
    """A layer over a map of channels: `call` reads and gives values with the channels before the axes of the map.

    A subclass says of how many axes the map is by ``rank`` or `over_images`; without either it is all behind the
    channels.
    """

    @classmethod
    def format_1_fields(cls, fields: Sequence[Field]) -> Mapping[str, Any]:
        rank = getattr(cls, "rank", 2 if cls.over_images else None)
        return {} if rank is not None and rank > 1 else {"data_format": "channels_first"}

    def map_rank(self, ndim: int) -> int:
        """The number of axes of the map in an input of so many axes."""
        rank: int | None = getattr(type(self), "rank", None)
        return rank if rank is not None else 2 if self.over_images else ndim - 2

    @property
    def axes_before_channels(self) -> int:
        """The number of axes before the channels: the batch's, and with it the time's of a sequence of maps."""
        return 1

    def has_channels_last(self, sample_rank: int) -> bool:
        if self.data_format is None and getattr(self, "batch_axes", 1) != 1:
            return False  # the field says that the channels are behind these axes
        return super().has_channels_last(self.map_rank(sample_rank + 1) + 1)

    def channel_axis(self, ndim: int) -> int:
        return ndim - 1 if self.has_channels_last(ndim - 1) else self.axes_before_channels

    def reads_rank(self, sample_rank: int) -> bool:
        return sample_rank == self.axes_before_channels + self.map_rank(sample_rank + 1)

    def describe_unusual_input(self, shape: Sequence[int]) -> list[str]:
        """A warning about samples of this shape that look like images with their channels last, where the layer has
        them first without saying so; none for others, and for sides of less than 8 pixels."""
        looks_last = len(shape) == 3 and shape[-1] in COLOR_CHANNELS and min(shape[:2]) >= _LEAST_SIDE
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
        if not self.reads_rank(inputs[0].ndim - 1):
            self._fail_rank(ctx, inputs[0], rank)
        result = self.call(ctx, *(self._channels_first(ctx, x, rank) for x in inputs))
        outputs = result if isinstance(result, tuple) else (result,)
        moved = tuple(self._channels_last(ctx, y, rank) for y in outputs)
        mask = ctx.mask(inputs[0]) if self.mask_policy == "keep" else None
        if mask is not None:  # as it is: transposed there and back it may have got an axis of size 1
            for y in moved:
                ctx.set_mask(y, mask)
        return moved if isinstance(result, tuple) else moved[0]

    def _fail_rank(self, ctx: Context, x: ArrayValue, rank: int) -> None:
        names, before = f"{_MAP_AXES.get(rank, '...')}, channels", self.axes_before_channels
        if getattr(self, "batch_axes", 1) != 1:
            ctx.fail(
                f"with batch_axes {before} the input must have {before + rank + 1} axes, the batch's included "
                f"({before} of the batch, {names}), got {x.ndim}"
            )
        ctx.fail(
            f"the input must have {before + rank} dimensions ({'time, ' * (before - 1)}{names}), got {x.ndim - 1}; "
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


def with_channels_first(layer: Layer, ndim: int) -> Layer:
    """A layer of a system that has the channels behind the batch, for an input of so many axes: it says so where they
    would be elsewhere; layers inside it always do."""
    if isinstance(layer, MapLayer):
        return layer.with_data_format("channels_first") if layer.has_channels_last(ndim - 1) else layer
    if isinstance(layer, ChannelAxisLayer):
        is_axis_1 = ndim < 3 or layer.channel_axis(ndim) % ndim == 1
        return layer if is_axis_1 else layer.with_data_format("channels_first")
    return layer.with_data_format("channels_first")


def without_default_axis(layer: Layer, ndim: int) -> Layer:
    """The layer without its field ``axis`` where that says what holds for an input of so many axes anyway."""
    axis = getattr(layer, "axis", None)
    if not isinstance(layer, ChannelAxisLayer) or axis is None:
        return layer
    plain = layer.replace(axis=None)
    return plain if plain.channel_axis(ndim) % ndim == axis % ndim else layer


def axis_in_map(axis: int, ndim: int) -> int:
    """The axis of a value with its channels behind the batch, for an axis of the same value with its channels last."""
    index = axis % ndim
    return 1 if index == ndim - 1 else index if index == 0 else index + 1
