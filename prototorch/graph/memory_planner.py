"""The memory planner: offsets of the buffers in an arena, such that buffers that are live at the same time do not
overlap."""

from __future__ import annotations

from bisect import bisect, insort
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

__all__ = ["ALIGNMENT", "MAX_FRAGMENTATION", "align_up", "assign_offsets", "live_bytes"]

#: a buffer that gets an offset: (first step, last step, bytes)
Buffer = tuple[int, int, int]

ALIGNMENT = 64  # bytes
_SMALL_ARENA = 16 << 20  # bytes of an arena in which it matters more that memory is still in a cache
MAX_FRAGMENTATION = 0.1  # unused bytes of an arena over the live ones, before other orders are tried


def align_up(nbytes: int) -> int:
    """The size rounded up, so that the next buffer begins at a multiple of 64 bytes."""
    return (nbytes + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT or ALIGNMENT


def live_bytes(buffers: Iterable[Buffer]) -> list[int]:
    """The bytes that are live in each step; no assignment of offsets needs less than the largest of them."""
    change: dict[int, int] = {}
    for start, end, nbytes in buffers:
        change[start] = change.get(start, 0) + align_up(nbytes)
        change[end + 1] = change.get(end + 1, 0) - align_up(nbytes)
    return list(accumulate(change.get(i, 0) for i in range(max(change, default=0) + 1)))


def assign_offsets(buffers: Sequence[Buffer], max_fragmentation: float = MAX_FRAGMENTATION) -> tuple[list[int], int]:
    """Offsets of the buffers, and the bytes needed in all.

    By best fit in the order of the first steps, which uses memory again that was used a moment ago; where an arena
    above 16 MiB is then more than ``max_fragmentation`` larger than the live bytes, by the first of some other orders
    for which it is not, or the best of them.
    """
    best = _best_fit(buffers)
    if best[1] < _SMALL_ARENA:
        return best
    live = live_bytes(buffers)
    limit = max(live) * (1 + max_fragmentation)
    for order in _placement_orders(buffers, live):
        if best[1] <= limit:
            break
        best = min(best, _place_in_order(buffers, order), key=lambda one: one[1])
    return best


def _placement_orders(buffers: Sequence[Buffer], live: Sequence[int]) -> Iterator[list[int]]:
    """Orders in which buffers may take their offsets: those first that are hard to place."""
    peak = [max(live[start : end + 1]) for start, end, _ in buffers]
    lifetime = [end - start + 1 for start, end, _ in buffers]
    size = [nbytes for _, _, nbytes in buffers]
    indices = range(len(buffers))
    yield sorted(indices, key=lambda i: (-peak[i], -size[i]))
    yield sorted(indices, key=lambda i: (-peak[i], -size[i] * lifetime[i]))
    yield sorted(indices, key=lambda i: (-peak[i], -lifetime[i]))
    yield sorted(indices, key=lambda i: (-size[i], buffers[i][0]))


def _place_in_order(buffers: Sequence[Buffer], order: Iterable[int]) -> tuple[list[int], int]:
    """Each buffer, in this order, takes the smallest gap between those that are live with it and have an offset."""
    offsets, top = [0] * len(buffers), 0
    occupied: list[tuple[int, int, int, int]] = []  # (offset, end offset, first step, last step), sorted
    for i in order:
        first, last, nbytes = buffers[i]
        size, end, gap = align_up(nbytes), 0, -1
        for other_offset, other_end, other_first, other_last in occupied:
            if other_first <= last and first <= other_last:
                if other_offset - end >= size and (gap < 0 or other_offset - end < gap):
                    offsets[i], gap = end, other_offset - end
                end = max(end, other_end)
        if gap < 0:
            offsets[i] = end
        insort(occupied, (offsets[i], offsets[i] + size, first, last))
        top = max(top, offsets[i] + size)
    return offsets, top


def _best_fit(buffers: Sequence[Buffer]) -> tuple[list[int], int]:
    """Best fit over a list of free blocks, in the order of the first steps; a buffer is free after its last step."""
    order = sorted(range(len(buffers)), key=lambda i: (buffers[i][0], -buffers[i][2]))
    offsets = [0] * len(buffers)
    free: list[tuple[int, int]] = []  # (offset, size), sorted, never adjacent
    busy: list[tuple[int, int, int]] = []  # (last step, offset, size), sorted
    top = 0
    for i in order:
        start, end, nbytes = buffers[i]
        size = align_up(nbytes)
        while busy and busy[0][0] < start:
            _, offset, length = busy.pop(0)
            _free_block(free, offset, length)
        fitting, length = -1, 0
        for k, block in enumerate(free):
            if block[1] >= size and (fitting < 0 or block[1] < length):
                fitting, length = k, block[1]
        if fitting >= 0:
            offsets[i] = free[fitting][0]
            if length > size:
                free[fitting] = (offsets[i] + size, length - size)
            else:
                del free[fitting]
        elif free and free[-1][0] + free[-1][1] == top:  # grow the last free block
            offset, _ = free.pop()
            offsets[i], top = offset, offset + size
        else:
            offsets[i], top = top, top + size
        insort(busy, (end, offsets[i], size))
    return offsets, top


def _free_block(free: list[tuple[int, int]], offset: int, size: int) -> None:
    """Add a block to the sorted list of free blocks, joined with its neighbours."""
    k = bisect(free, (offset, size))
    if k < len(free) and offset + size == free[k][0]:
        size += free.pop(k)[1]
    if k > 0 and free[k - 1][0] + free[k - 1][1] == offset:
        free[k - 1] = (free[k - 1][0], free[k - 1][1] + size)
    else:
        free.insert(k, (offset, size))
