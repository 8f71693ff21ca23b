"""Where each buffer of a plan lies: buffers whose lives do not overlap share memory."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

ALIGNMENT = 64
_SMALL_ARENA = 16 << 20  # bytes of an arena in which it matters more that memory is still in a cache
MAX_FRAGMENTATION = 0.1  # the share of an arena that may be holes before other arrangements are tried


def align_up(nbytes: int) -> int:
    """The size rounded up, so that the next buffer begins at a multiple of 64 bytes."""
    return -(-max(nbytes, 1) // ALIGNMENT) * ALIGNMENT


def live_bytes(buffers: Iterable[tuple[int, int, int]]) -> list[int]:
    """The bytes that are alive in each step, for buffers given as (first step, last step, bytes): no arrangement needs
    less than the most of them."""
    change: dict[int, int] = {}
    for born, dies, nbytes in buffers:
        change[born] = change.get(born, 0) + align_up(nbytes)
        change[dies + 1] = change.get(dies + 1, 0) - align_up(nbytes)
    return list(accumulate(change.get(i, 0) for i in range(max(change, default=0) + 1)))


def assign_offsets(
    buffers: Sequence[tuple[int, int, int]], max_fragmentation: float = MAX_FRAGMENTATION
) -> tuple[list[int], int]:
    """Offsets for buffers given as (first step, last step, bytes), and the bytes needed in all.

    In the order of birth, which goes back to memory that was used a moment ago; where that leaves a larger share of
    ``holes``, in the first of some other orders that does not, or the best of them.
    """
    found = _best_fit(buffers)
    if found[1] < _SMALL_ARENA:
        return found
    bytes_alive = live_bytes(buffers)
    least = max(bytes_alive) * (1 + max_fragmentation)
    for order in _placement_orders(buffers, bytes_alive):
        if found[1] <= least:
            break
        found = min(found, _place_in_order(buffers, order), key=lambda one: one[1])
    return found


def _placement_orders(buffers: Sequence[tuple[int, int, int]], bytes_alive: Sequence[int]) -> Iterator[list[int]]:
    """Orders in which buffers may choose their places: those first that are hard to place."""
    most = [max(bytes_alive[born : dies + 1]) for born, dies, _ in buffers]
    life = [dies - born + 1 for born, dies, _ in buffers]
    size = [nbytes for _, _, nbytes in buffers]
    every = range(len(buffers))
    yield sorted(every, key=lambda i: (-most[i], -size[i]))
    yield sorted(every, key=lambda i: (-most[i], -size[i] * life[i]))
    yield sorted(every, key=lambda i: (-most[i], -life[i]))
    yield sorted(every, key=lambda i: (-size[i], buffers[i][0]))


def _place_in_order(buffers: Sequence[tuple[int, int, int]], order: Iterable[int]) -> tuple[list[int], int]:
    """Each in turn takes the smallest gap between those that live at the same time and have a place."""
    offsets, top = [0] * len(buffers), 0
    placed: list[tuple[int, int, int, int]] = []  # (offset, end, first step, last step), sorted
    for i in order:
        born, dies, nbytes = buffers[i]
        size, end, gap = align_up(nbytes), 0, -1
        for begin, stop, first, last in placed:
            if first <= dies and born <= last:
                if begin - end >= size and (gap < 0 or begin - end < gap):
                    offsets[i], gap = end, begin - end
                end = max(end, stop)
        if gap < 0:
            offsets[i] = end
        insort(placed, (offsets[i], offsets[i] + size, born, dies))
        top = max(top, offsets[i] + size)
    return offsets, top


def _best_fit(buffers: Sequence[tuple[int, int, int]]) -> tuple[list[int], int]:
    """Best fit over a list of free blocks in the order of birth; a buffer is free after its last step."""
    order = sorted(range(len(buffers)), key=lambda i: (buffers[i][0], -buffers[i][2]))
    offsets = [0] * len(buffers)
    free: list[tuple[int, int]] = []  # (offset, size), sorted, never touching each other
    busy: list[tuple[int, int, int]] = []  # (last step, offset, size), sorted
    top = 0
    for i in order:
        born, dies, nbytes = buffers[i]
        size = align_up(nbytes)
        while busy and busy[0][0] < born:
            _, offset, length = busy.pop(0)
            _free_block(free, offset, length)
        fits = [block for block in free if block[1] >= size]
        if fits:
            block = min(fits, key=lambda b: (b[1], b[0]))
            free.remove(block)
            if block[1] > size:
                insort(free, (block[0] + size, block[1] - size))
            offsets[i] = block[0]
        elif free and free[-1][0] + free[-1][1] == top:  # grow the last free block
            offset, _ = free.pop()
            offsets[i], top = offset, offset + size
        else:
            offsets[i], top = top, top + size
        insort(busy, (dies, offsets[i], size))
    return offsets, top


def _free_block(free: list[tuple[int, int]], offset: int, size: int) -> None:
    for block in list(free):
        if block[0] + block[1] == offset:
            free.remove(block)
            offset, size = block[0], size + block[1]
        elif offset + size == block[0]:
            free.remove(block)
            size += block[1]
    insort(free, (offset, size))
