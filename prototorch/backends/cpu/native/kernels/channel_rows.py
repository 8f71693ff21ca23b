"""Statistics of channels: the shape of the loops, which the norms share.

An array is ``before`` x ``channels`` x ``after`` numbers in memory. Where nothing comes after the channels ("rows"),
vectors go over channels, and the rows are cut into pieces of about PIECE numbers, whose sums lie in shared scratch
memory until a second task adds them in order. Otherwise ("planes") one piece of work is one channel, all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from prototorch.backends.cpu.native.call import CHANNELS_LAST
from prototorch.backends.cpu.native.emit import Int, Kernel, Num, Pointer, Unsupported
from prototorch.backends.cpu.native.kernels.windows import channel_vectors
from prototorch.spec import Spec

PIECE = 1 << 15
#: rows of a piece: so many that its sums are few beside what is summed, so few that its sums are exact
FEWEST, MOST = 32, 1024
#: channels of an item where sums of pieces are put together
CHANNELS = 128
#: vectors of partial sums along a plane
_STREAMS = 4
#: sums that are held in registers while rows are gone through, and how many are enough to hide an addition's time
_HELD, _CHAINS = 16, 4

#: (where, channel, lanes, mask) -> one vector for each sum
Terms = Callable[[Int, Int, int, "Num | None"], Sequence[Num]]


@dataclass(frozen=True)
class Channels:
    """How channels lie in an array."""

    before: int
    channels: int
    after: int

    @property
    def each(self) -> int:
        """Numbers of a channel."""
        return self.before * self.after

    @property
    def rows(self) -> bool:
        """Whether the channels of a place lie side by side."""
        return self.after == 1

    @property
    def piece(self) -> int:
        """Rows of a piece."""
        return min(max(PIECE // self.channels, FEWEST), MOST)

    @property
    def pieces(self) -> int:
        """Pieces that the rows are cut into."""
        return -(-self.before // self.piece)

    @property
    def blocks(self) -> int:
        """Items that the channels are cut into where sums of pieces are put together."""
        return -(-self.channels // CHANNELS)

    @property
    def grain(self) -> int:
        """Channels that are done in one go, in planes."""
        return max(PIECE // self.each, 1)


def channels_of(x: Spec, axis: int, full: Sequence[Spec]) -> Channels:
    """How the channels of x lie. Raises Unsupported where other full-size operands lie otherwise."""
    if x.dtype != "float32" or any(s.shape == x.shape and s.layout != x.layout for s in full):
        raise Unsupported("arrays that lie differently, or are not of float32")
    axis %= x.ndim
    if x.layout == CHANNELS_LAST:
        if axis != 1:
            raise Unsupported("an axis that is not the channels'")
        return Channels(x.size // x.shape[1], x.shape[1], 1)
    return Channels(prod(x.shape[:axis]), x.shape[axis], prod(x.shape[axis + 1 :]))


def pieces(k: Kernel, c: Channels, body: Callable[[Int, Int, Int], None], backwards: bool = False) -> None:
    """``body(piece, its first row, its rows)`` for the items of a kernel; ``backwards`` begins at the end, where memory
    has just been read."""
    with k.range(k.first, k.last) as item:
        piece = c.pieces - 1 - item if backwards else item
        start = piece * c.piece
        body(piece, start, (c.before - start).minimum(c.piece))


def channel_blocks(k: Kernel, c: Channels, body: Callable[[Int, int, Num | None], None]) -> None:
    """``body(channel, lanes, mask)`` for the items of a kernel that puts sums together."""
    with k.range(k.first, k.last) as block:
        start = block * CHANNELS
        count: int | Int = (c.channels - start).minimum(CHANNELS) if c.blocks > 1 else c.channels
        k.vectors(count, lambda i, mask: body(start + i, k.lanes, mask))


def summed_rows(k: Kernel, c: Channels, start: Int, count: Int, sums: Sequence[Pointer], terms: Terms) -> None:
    """Add up terms over rows into arrays ``sums`` over the channels. ``terms(where, channel, lanes, mask)`` gives one
    vector for each. Memory is read in order: any other order halves the speed."""
    vectors = -(-c.channels // k.lanes)
    if vectors * len(sums) <= _HELD:
        _summed_in_registers(k, c, start, count, sums, terms)
        return

    def clear(i: Int, lanes: int, mask: Num | None) -> None:
        for s in sums:
            s.store(k.zero(lanes), i, mask)

    channel_vectors(k, c.channels, clear)
    with k.range(start, start + count) as row:
        at = row * c.channels

        def add(i: Int, lanes: int, mask: Num | None) -> None:
            for s, value in zip(sums, terms(at + i, i, lanes, mask), strict=True):
                s.store(s.load(i, lanes, mask) + value, i, mask)

        channel_vectors(k, c.channels, add)


def _summed_in_registers(k: Kernel, c: Channels, start: Int, count: Int, sums: Sequence[Pointer],
                         terms: Terms) -> None:  # fmt: skip
    lanes = min(k.lanes, 1 << (c.channels - 1).bit_length())
    starts = range(0, c.channels, lanes)
    masks = [None if i + lanes <= c.channels else k.mask(c.channels - i, lanes) for i in starts]
    several = max(_CHAINS // (len(starts) * len(sums)), 1)  # rows that have sums of their own: none waits for another
    held = [[[k.variable(k.zero(lanes)) for _ in sums] for _ in starts] for _ in range(several)]

    def add(row: Int, into: list[list[Any]]) -> None:
        for i, mask, own in zip(starts, masks, into, strict=True):
            for s, value in zip(own, terms(row * c.channels + i, Int(k, k.word(i)), lanes, mask), strict=True):
                s.value = s.value + value

    end = start + count
    whole = start + count // several * several
    with k.range(start, whole, several) as row:
        for r in range(several):
            add(row + r, held[r])
    if several > 1:
        with k.range(whole, end) as row:
            add(row, held[0])
    for j, (i, mask) in enumerate(zip(starts, masks, strict=True)):
        for n, s in enumerate(sums):
            total = held[0][j][n].value
            for other in held[1:]:
                total = total + other[j][n].value
            s.store(total, i, mask)


def every_row(k: Kernel, c: Channels, start: Int, count: Int,
              body: Callable[[Int, Int, int, Num | None], None]) -> None:  # fmt: skip
    """``body(where, channel, lanes, mask)`` for all vectors of some rows."""
    with k.range(start, start + count) as row:
        at = row * c.channels
        channel_vectors(k, c.channels, lambda i, lanes, mask: body(at + i, i, lanes, mask))


def summed_line(k: Kernel, at: Int, length: int, terms: Callable[[Int, Num | None], Sequence[Num]],
                count: int) -> list[Num]:  # fmt: skip
    """Sums of ``count`` terms over numbers that lie side by side; ``terms(where, mask)`` gives a vector for each."""
    lanes = k.lanes
    whole = length - length % (lanes * _STREAMS)
    held = [[k.variable(k.zero(lanes)) for _ in range(count)] for _ in range(_STREAMS)]

    def add(i: Int, mask: Num | None, stream: int) -> None:
        for s, value in zip(held[stream], terms(at + i, mask), strict=True):
            s.value = s.value + (value if mask is None else k.select(mask, value, k.zero(lanes)))

    if whole:
        with k.range(0, whole, lanes * _STREAMS) as i:
            for stream in range(_STREAMS):
                add(i + stream * lanes, None, stream)
    if length > whole:
        k.vectors(length - whole, lambda i, mask: add(i + whole, mask, 0))
    streams = [[held[s][j].value for s in range(_STREAMS)] for j in range(count)]
    return [k.total((a + b) + (c + d)) for a, b, c, d in streams]


def summed_plane(k: Kernel, c: Channels, channel: Int, terms: Callable[[Int, Num | None], Sequence[Num]],
                 count: int) -> list[Num]:  # fmt: skip
    """The same over one channel's numbers, the sums of the single images added in float64."""
    totals = [k.variable(k.zero(1, "float64")) for _ in range(count)]
    with k.range(c.before) as image:
        at = (image * c.channels + channel) * c.after
        for total, line in zip(totals, summed_line(k, at, c.after, terms, count), strict=True):
            total.value = total.value + line.cast("float64")
    return [t.value for t in totals]


def every_place(k: Kernel, c: Channels, channel: Int, body: Callable[[Int, Num | None], None]) -> None:
    """``body(where, mask)`` for all vectors of a channel, in planes; the last image first, for it was read last."""
    with k.range(c.before) as back:
        at = ((c.before - 1 - back) * c.channels + channel) * c.after
        k.vectors(c.after, lambda i, mask: body(at + i, mask))


def inverse_root(k: Kernel, variance: Num, eps: float) -> Num:
    """1 / sqrt(variance + eps)."""
    return k.num(1.0, variance.dtype) / k.call1("sqrt", variance + eps)
