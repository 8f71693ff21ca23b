"""Where each buffer of a plan lies: buffers whose lives do not overlap share memory."""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence

ALIGN = 64


def aligned(nbytes: int) -> int:
    """The size rounded up, so that the next buffer begins at a multiple of 64 bytes."""
    return -(-max(nbytes, 1) // ALIGN) * ALIGN


def arrange(buffers: Sequence[tuple[int, int, int]]) -> tuple[list[int], int]:
    """Offsets for buffers given as (first step, last step, bytes), and the bytes needed in all.

    Best fit over a list of free blocks in the order of birth; a buffer is free after its last step.
    """
    order = sorted(range(len(buffers)), key=lambda i: (buffers[i][0], -buffers[i][2]))
    offsets = [0] * len(buffers)
    free: list[tuple[int, int]] = []  # (offset, size), sorted, never touching each other
    busy: list[tuple[int, int, int]] = []  # (last step, offset, size), sorted
    top = 0
    for i in order:
        born, dies, nbytes = buffers[i]
        size = aligned(nbytes)
        while busy and busy[0][0] < born:
            _, offset, length = busy.pop(0)
            _release(free, offset, length)
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


def _release(free: list[tuple[int, int]], offset: int, size: int) -> None:
    for block in list(free):
        if block[0] + block[1] == offset:
            free.remove(block)
            offset, size = block[0], size + block[1]
        elif offset + size == block[0]:
            free.remove(block)
            size += block[1]
    insort(free, (offset, size))
