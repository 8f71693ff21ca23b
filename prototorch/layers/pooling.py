"""Pooling: the largest or the mean of each window."""

from __future__ import annotations

from math import prod
from typing import Any, ClassVar

import numpy as np

from prototorch import ops
from prototorch.layers.channels import MapLayer
from prototorch.layers.context import ArrayValue, Context
from prototorch.layers.windows import Pads, Sizes, check_rank, padding_field, resolve_padding, strides_field
from prototorch.ops.lazy_array import LazyArray
from prototorch.ops.pool import pooled_size
from prototorch.ops.windows import kernel_offsets, window_slices
from prototorch.schema import Ints, example, field


def _pool_size_field(rank: int) -> Any:
    return field(default=2, type=Ints(rank, min=1), doc="Window size.")


class PoolingLayer(MapLayer, abstract=True):
    """The windows; the classes below declare their sizes and say what is taken of each."""

    follows_layer = True
    keeps_bounds = True
    foreign_names = {"Pooling": "Write MaxPooling2D or AveragePooling2D."}
    foreign_fields = {"kernel_size": "pool_size"}
    keyword_only: ClassVar[tuple[str, ...]] = ("ceil_mode", "count_include_pad")

    rank: ClassVar[int]
    pool_size: Sizes
    strides: Sizes | None
    padding: str | Pads
    ceil_mode: bool = field(default=False, doc="Whether a last window may reach over the end (Caffe's pooling does).")

    def window_attrs(self, ctx: Context, x: ArrayValue) -> dict[str, Any]:
        """The attributes of the op."""
        check_rank(ctx, x, self.rank)
        strides = self.strides or self.pool_size
        pads = resolve_padding(self.padding, x.shape[2:], self.pool_size, strides, (1,) * self.rank)
        return {"kernel": self.pool_size, "strides": strides, "pads": pads, "ceil": self.ceil_mode}


class _MaxPooling(PoolingLayer):
    keyword_only: ClassVar[tuple[str, ...]] = ("ceil_mode", "return_indices")
    own_fields: ClassVar[frozenset[str]] = frozenset({"return_indices"})
    return_indices: bool = field(
        default=False,
        doc="Whether a second output (int32) has the position of each maximum in its channel, counted row by row.",
    )

    def output_count(self) -> int:
        return 1 + self.return_indices

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        attrs = self.window_attrs(ctx, x)
        y, number = ops.max_pool(x, **attrs)
        if not self.return_indices:
            return y
        if prod(self.pool_size) > _MAX_WINDOW or prod(x.shape[2:]) > _MAX_POSITIONS:
            ctx.fail(
                f"return_indices takes windows of at most {_MAX_WINDOW:,} elements and channels of at most "
                f"{_MAX_POSITIONS:,}, not {prod(self.pool_size):,} and {prod(x.shape[2:]):,}"
            )
        if prod(self.pool_size) <= _MAX_COMPARED:
            return y, _compared_positions(x, **attrs)
        return y, _channel_positions(number, x.shape[2:], **attrs)


_MAX_COMPARED = 256  # elements of a window for which the position of the largest is found by comparisons
_MAX_WINDOW, _MAX_POSITIONS = 1 << 24, 1 << 30
_LOWEST = -float(np.finfo(np.float32).max)


def _first_positions(out: Sizes, size: Sizes, strides: Sizes, pads: Pads, more: int = 0) -> LazyArray:
    """The position in a channel at which each window begins, plus ``more``, int32 [*out]; that of padding lies
    outside."""

    def compute() -> Any:
        starts = [
            (np.arange(o) * s - lo) * prod(size[i + 1 :])
            for i, (o, s, (lo, _)) in enumerate(zip(out, strides, pads, strict=True))
        ]
        return np.sum(np.meshgrid(*starts, indexing="ij"), axis=0) + more

    return LazyArray(tuple(out), "int32", compute)


def _compared_positions(x: Any, kernel: Sizes, strides: Sizes, pads: Pads, ceil: bool) -> Any:
    """The positions of the maxima, by elementwise ops, which other systems have, too."""
    size, ones = tuple(x.shape[2:]), (1,) * len(kernel)
    out = pooled_size(size, kernel, strides, pads, ceil)
    ends = [
        max((o - 1) * s + k - n - lo, hi) for o, s, k, n, (lo, hi) in zip(out, strides, kernel, size, pads, strict=True)
    ]
    around = tuple((lo, end) for (lo, _), end in zip(pads, ends, strict=True))
    wide = ops.pad(x, pads=((0, 0), (0, 0), *around), value=_LOWEST)
    steps = [prod(size[i + 1 :]) for i in range(len(size))]
    best, positions = None, None
    for _, at in kernel_offsets(kernel):
        part = wide[(..., *window_slices(at, out, strides, ones))]
        here = _first_positions(out, size, strides, pads, sum(a * step for a, step in zip(at, steps, strict=True)))
        if best is None:
            best, positions = part, ops.broadcast_to(here, shape=tuple(part.shape))
        else:
            is_larger = ops.greater(part, best)
            best, positions = ops.where(is_larger, part, best), ops.where(is_larger, here, positions)
    return positions


def _channel_positions(number: Any, size: Sizes, kernel: Sizes, strides: Sizes, pads: Pads, ceil: bool) -> Any:
    """The positions in a channel of the elements that have these positions in their windows."""

    def compute() -> Any:
        inside = [np.arange(k) * prod(size[i + 1 :]) for i, k in enumerate(kernel)]
        return np.sum(np.meshgrid(*inside, indexing="ij"), axis=0).reshape(-1)

    table = LazyArray((prod(kernel),), "int32", compute)
    return ops.take(table, number) + _first_positions(number.shape[2:], size, strides, pads)


class _AveragePooling(PoolingLayer):
    count_include_pad: bool = field(default=False, doc="Whether the zeros of an explicit padding count in the mean.")

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        include_pad = self.count_include_pad and not isinstance(self.padding, str)
        return ops.avg_pool(x, **self.window_attrs(ctx, x), include_pad=include_pad)


class MaxPooling1D(_MaxPooling):
    """The largest of each window over one dimension (Keras).

    Input [batch, steps, channels], output [batch, windows, channels]; (steps + padding - pool_size) // strides + 1
    windows, ceil(steps / strides) with "same". Padding is never the largest.
    """

    rank = 1
    aliases = ("MaxPool1D",)
    pool_size: Sizes = _pool_size_field(1)
    strides: Sizes | None = strides_field(1, None)
    padding: str | Pads = padding_field(1)
    examples = [
        example("MaxPooling1D { }", inputs=[(6, 2)]),
        example("MaxPooling1D { pool_size: 3  strides: 2  padding: same }", inputs=[(6, 1)]),
    ]


class MaxPooling2D(_MaxPooling):
    """The largest of each window over two dimensions (Keras, channels first).

    Input [batch, channels, rows, columns], output [batch, channels, new rows, new columns]; each of them
    (size + padding - pool_size) // strides + 1, ceil(size / strides) with "same". Padding is never the largest.
    """

    rank = 2
    aliases = ("MaxPool2D",)
    pool_size: Sizes = _pool_size_field(2)
    strides: Sizes | None = strides_field(2, None)
    padding: str | Pads = padding_field(2)
    examples = [
        example("MaxPooling2D { }", inputs=[(2, 4, 6)]),
        example("MaxPooling2D { pool_size: 3  strides: 2  ceil_mode: true }", inputs=[(2, 6, 6)]),
        example("MaxPooling2D { pool_size: [2, 3]  strides: [1, 2]  padding: [[1, 0], [1, 1]] }", inputs=[(1, 3, 5)]),
        example("MaxPooling2D { strides: 1  padding: 1  return_indices: true }", inputs=[(1, 3, 4)]),
    ]


class MaxPooling3D(_MaxPooling):
    """The largest of each window over three dimensions (Keras, channels first).

    Input [batch, channels, depth, rows, columns]; sizes as those of MaxPooling2D.
    """

    rank = 3
    aliases = ("MaxPool3D",)
    pool_size: Sizes = _pool_size_field(3)
    strides: Sizes | None = strides_field(3, None)
    padding: str | Pads = padding_field(3)
    examples = [
        example("MaxPooling3D { }", inputs=[(1, 2, 4, 3)]),
        example("MaxPooling3D { pool_size: [1, 2, 3]  strides: 2  padding: same }", inputs=[(2, 3, 3, 3)]),
    ]


class AveragePooling1D(_AveragePooling):
    """The mean of each window over one dimension (Keras).

    Input [batch, steps, channels], output [batch, windows, channels]; sizes as those of MaxPooling1D. The padding of
    "same" never counts.
    """

    rank = 1
    aliases = ("AvgPool1D",)
    pool_size: Sizes = _pool_size_field(1)
    strides: Sizes | None = strides_field(1, None)
    padding: str | Pads = padding_field(1)
    examples = [
        example("AveragePooling1D { }", inputs=[(6, 2)]),
        example("AveragePooling1D { pool_size: 3  strides: 2  padding: same }", inputs=[(6, 1)]),
    ]


class AveragePooling2D(_AveragePooling):
    """The mean of each window over two dimensions (Keras, channels first).

    Input [batch, channels, rows, columns], output [batch, channels, new rows, new columns]; sizes as those of
    MaxPooling2D. The padding of "same" never counts.
    """

    rank = 2
    aliases = ("AvgPool2D",)
    pool_size: Sizes = _pool_size_field(2)
    strides: Sizes | None = strides_field(2, None)
    padding: str | Pads = padding_field(2)
    examples = [
        example("AveragePooling2D { }", inputs=[(2, 4, 6)]),
        example("AveragePooling2D { pool_size: 3  strides: 2  padding: same }", inputs=[(2, 4, 5)]),
        example("AveragePooling2D { pool_size: 3  strides: 2  padding: 1  ceil_mode: true  count_include_pad: true }",
                inputs=[(1, 6, 4)]),
    ]  # fmt: skip


class AveragePooling3D(_AveragePooling):
    """The mean of each window over three dimensions (Keras, channels first).

    Input [batch, channels, depth, rows, columns]; sizes as those of MaxPooling2D. The padding of "same" never counts.
    """

    rank = 3
    aliases = ("AvgPool3D",)
    pool_size: Sizes = _pool_size_field(3)
    strides: Sizes | None = strides_field(3, None)
    padding: str | Pads = padding_field(3)
    examples = [
        example("AveragePooling3D { }", inputs=[(1, 2, 4, 3)]),
        example("AveragePooling3D { pool_size: [1, 2, 3]  strides: 2  padding: same }", inputs=[(2, 3, 3, 3)]),
    ]
