"""Statistics of channels: the loops that the normalizations share.

An array is ``outer`` x ``channels`` x ``inner`` elements in memory. If the channels are last (``inner`` 1), vectors run
along them, and the rows are cut into pieces of about PIECE elements, whose sums are in shared scratch memory until a
second task adds them in order. Otherwise one piece of work is one whole channel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from prototorch.engine.backends.cpu.native.ir_builder import Int64, KernelBuilder, Num, Pointer, UnsupportedError
from prototorch.engine.backends.cpu.native.kernel_api import CHANNELS_LAST
from prototorch.engine.backends.cpu.native.kernels.common.types import Mask
from prototorch.engine.backends.cpu.native.kernels.common.vectors import for_each_channel_vector
from prototorch.spec import Spec

__all__ = [
    "ChannelShape",
    "channel_shape",
    "for_each_channel_block",
    "for_each_piece",
    "for_each_position",
    "for_each_row",
    "rsqrt",
    "sum_line",
    "sum_plane",
    "sum_rows",
]

PIECE = 1 << 15
#: rows of a piece: enough that its sums are few beside its elements, few enough that its sums are exact
MIN_PIECE_ROWS, MAX_PIECE_ROWS = 32, 1024
#: channels of a work item that combines the sums of pieces
BLOCK_CHANNELS = 128
#: independent accumulators along a line
_PARTIAL_SUMS = 4
#: sums held in registers over a piece of rows, and how many hide the latency of an addition
_MAX_REGISTER_SUMS, _MIN_CHAINS = 16, 4

#: (offset, channel, lanes, mask) -> one vector for each sum
Terms = Callable[[Int64, Int64, int, "Num | None"], Sequence[Num]]


@dataclass(frozen=True)
class ChannelShape:
    """How channels are laid out in an array."""

    outer: int
    channels: int
    inner: int

    @property
    def elements_per_channel(self) -> int:
        """The number of elements over which the statistics of a channel are taken: outer * inner."""
        return self.outer * self.inner

    @property
    def is_channels_last(self) -> bool:
        """Whether the channels of a position are contiguous."""
        return self.inner == 1

    @property
    def piece_rows(self) -> int:
        """The number of rows [channels] of which one task makes partial sums."""
        return min(max(PIECE // self.channels, MIN_PIECE_ROWS), MAX_PIECE_ROWS)

    @property
    def num_pieces(self) -> int:
        """The number of pieces of the rows."""
        return -(-self.outer // self.piece_rows)

    @property
    def num_blocks(self) -> int:
        """Work items of a kernel that combines the sums of pieces: blocks of channels."""
        return -(-self.channels // BLOCK_CHANNELS)

    @property
    def grain_size(self) -> int:
        """Channels of a piece, if they are not last."""
        return max(PIECE // self.elements_per_channel, 1)


def channel_shape(x: Spec, axis: int, full: Sequence[Spec]) -> ChannelShape:
    """Return how the channels of x are laid out. Raises UnsupportedError if other full-size operands have another
    layout."""
    if x.dtype != "float32" or any(s.shape == x.shape and s.layout != x.layout for s in full):
        raise UnsupportedError("arrays of different memory layouts, or not of float32")
    axis %= x.ndim
    if x.layout == CHANNELS_LAST:
        if axis != 1:
            raise UnsupportedError("an axis other than that of the channels")
        return ChannelShape(x.size // x.shape[1], x.shape[1], 1)
    return ChannelShape(prod(x.shape[:axis]), x.shape[axis], prod(x.shape[axis + 1 :]))


def for_each_piece(
    k: KernelBuilder, c: ChannelShape, body: Callable[[Int64, Int64, Int64], None], backwards: bool = False
) -> None:
    """Emit ``body(piece, its first row, its rows)`` for the work items; ``backwards`` begins at the end, where
    memory has just been read."""
    with k.range(k.first, k.last) as item:
        piece = c.num_pieces - 1 - item if backwards else item
        start = piece * c.piece_rows
        body(piece, start, (c.outer - start).minimum(c.piece_rows))


def for_each_channel_block(k: KernelBuilder, c: ChannelShape, body: Callable[[Int64, int, Num | None], None]) -> None:
    """Emit ``body(channel, lanes, mask)`` for the work items of a kernel that combines sums."""
    with k.range(k.first, k.last) as block:
        start = block * BLOCK_CHANNELS
        count: int | Int64 = (c.channels - start).minimum(BLOCK_CHANNELS) if c.num_blocks > 1 else c.channels
        k.for_each_vector(count, lambda i, mask: body(start + i, k.lanes, mask))


def sum_rows(
    k: KernelBuilder, c: ChannelShape, start: Int64, count: Int64, sums: Sequence[Pointer], terms: Terms
) -> None:
    """Sum terms over rows into arrays ``sums`` over the channels. ``terms(offset, channel, lanes, mask)`` returns
    one vector for each. Memory is read in order: any other order halves the speed."""
    vectors = -(-c.channels // k.lanes)
    if vectors * len(sums) <= _MAX_REGISTER_SUMS:
        _sum_rows_in_registers(k, c, start, count, sums, terms)
        return

    def clear(i: Int64, lanes: int, mask: Mask) -> None:
        for s in sums:
            s.store(k.zero(lanes), i, mask)

    for_each_channel_vector(k, c.channels, clear)
    with k.range(start, start + count) as row:
        at = row * c.channels

        def add(i: Int64, lanes: int, mask: Mask) -> None:
            for s, value in zip(sums, terms(at + i, i, lanes, mask), strict=True):
                s.store(s.load(i, lanes, mask) + value, i, mask)

        for_each_channel_vector(k, c.channels, add)


def _sum_rows_in_registers(
    k: KernelBuilder, c: ChannelShape, start: Int64, count: Int64, sums: Sequence[Pointer], terms: Terms
) -> None:
    lanes = min(k.lanes, 1 << (c.channels - 1).bit_length())
    starts = range(0, c.channels, lanes)
    masks = [None if i + lanes <= c.channels else k.mask(c.channels - i, lanes) for i in starts]
    chains = max(
        _MIN_CHAINS // (len(starts) * len(sums)), 1
    )  # rows with accumulators of their own: independent dependency chains
    accumulators = [[[k.variable(k.zero(lanes)) for _ in sums] for _ in starts] for _ in range(chains)]

    def add(row: Int64, into: list[list[Any]]) -> None:
        for i, mask, row_sums in zip(starts, masks, into, strict=True):
            for s, value in zip(row_sums, terms(row * c.channels + i, Int64(k, k.word(i)), lanes, mask), strict=True):
                s.value = s.value + value

    end = start + count
    main_end = start + count // chains * chains
    with k.range(start, main_end, chains) as row:
        for r in range(chains):
            add(row + r, accumulators[r])
    if chains > 1:
        with k.range(main_end, end) as row:
            add(row, accumulators[0])
    for j, (i, mask) in enumerate(zip(starts, masks, strict=True)):
        for n, s in enumerate(sums):
            total = accumulators[0][j][n].value
            for other in accumulators[1:]:
                total = total + other[j][n].value
            s.store(total, i, mask)


def for_each_row(
    k: KernelBuilder, c: ChannelShape, start: Int64, count: Int64, body: Callable[[Int64, Int64, int, Num | None], None]
) -> None:
    """Emit ``body(offset, channel, lanes, mask)`` for all vectors of some rows."""
    with k.range(start, start + count) as row:
        at = row * c.channels
        for_each_channel_vector(k, c.channels, lambda i, lanes, mask: body(at + i, i, lanes, mask))


def sum_line(
    k: KernelBuilder, at: Int64, length: int, terms: Callable[[Int64, Num | None], Sequence[Num]], count: int
) -> list[Num]:
    """Return the sums of ``count`` terms over contiguous elements; ``terms(offset, mask)`` returns a vector for
    each."""
    lanes = k.lanes
    main_end = length - length % (lanes * _PARTIAL_SUMS)
    accumulators = [[k.variable(k.zero(lanes)) for _ in range(count)] for _ in range(_PARTIAL_SUMS)]

    def add(i: Int64, mask: Mask, stream: int) -> None:
        for s, value in zip(accumulators[stream], terms(at + i, mask), strict=True):
            s.value = s.value + (value if mask is None else k.select(mask, value, k.zero(lanes)))

    if main_end:
        with k.range(0, main_end, lanes * _PARTIAL_SUMS) as i:
            for stream in range(_PARTIAL_SUMS):
                add(i + stream * lanes, None, stream)
    if length > main_end:
        k.for_each_vector(length - main_end, lambda i, mask: add(i + main_end, mask, 0))
    streams = [[accumulators[s][j].value for s in range(_PARTIAL_SUMS)] for j in range(count)]
    return [k.reduce_add((a + b) + (c + d)) for a, b, c, d in streams]


def sum_plane(
    k: KernelBuilder, c: ChannelShape, channel: Int64, terms: Callable[[Int64, Num | None], Sequence[Num]], count: int
) -> list[Num]:
    """Return the same sums over one channel's elements; those of single images are added in float64."""
    totals = [k.variable(k.zero(1, "float64")) for _ in range(count)]
    with k.range(c.outer) as image:
        at = (image * c.channels + channel) * c.inner
        for total, line in zip(totals, sum_line(k, at, c.inner, terms, count), strict=True):
            total.value = total.value + line.cast("float64")
    return [t.value for t in totals]


def for_each_position(
    k: KernelBuilder, c: ChannelShape, channel: Int64, body: Callable[[Int64, Num | None], None]
) -> None:
    """Emit ``body(offset, mask)`` for all vectors of a channel that is not last; the last image first, since it was
    read last."""
    with k.range(c.outer) as reverse_index:
        at = ((c.outer - 1 - reverse_index) * c.channels + channel) * c.inner
        k.for_each_vector(c.inner, lambda i, mask: body(at + i, mask))


def rsqrt(k: KernelBuilder, variance: Num, eps: float) -> Num:
    """1 / sqrt(variance + eps)."""
    return k.num(1.0, variance.dtype) / k.unary_intrinsic("sqrt", variance + eps)
