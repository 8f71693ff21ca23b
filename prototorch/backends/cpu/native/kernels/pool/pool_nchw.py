"""Windows in the plain layout: neighbouring windows of a row are the lanes of a vector, whose numbers lie as far apart
as the windows' stride."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prototorch.backends.cpu.native.ir_builder import Int64, KernelBuilder, Num, Pointer
from prototorch.backends.cpu.native.kernels.pool.pool_geometry import PoolGeometry

#: strides along a row up to which vectors are put together by shuffles
MAX_STRIDE = 4


def has_row_vectors(w: PoolGeometry) -> bool:
    """Whether windows of a row are done as the lanes of vectors."""
    return w.channels == 1 and w.strides[2] <= MAX_STRIDE and w.out[2] > 1


def load_strided(k: KernelBuilder, p: Pointer, at: Any, step: int, lanes: int, count: int) -> Num:
    """``count`` numbers that are ``step`` apart, as the first lanes of a vector; nothing between others is read."""
    if step == 1:
        return p.load(at, lanes, None if count == lanes else k.mask(count, lanes))
    wanted = [(step * i) // lanes for i in range(count)]
    made: Num | None = None
    for part in range(wanted[-1] + 1):
        reach = step * (count - 1) + 1 - part * lanes
        seen = p.load(at + part * lanes, lanes, None if reach >= lanes else k.mask(reach, lanes))
        if made is None:
            made = k.shuffle(seen, seen, [step * i if step * i < lanes else 0 for i in range(lanes)])
            continue
        order = list(range(lanes))
        for i in range(count):
            if wanted[i] == part:
                order[i] = lanes + step * i - part * lanes
        made = k.shuffle(made, seen, order)
    assert made is not None
    return made


def store_interleaved(k: KernelBuilder, p: Pointer, at: Any, vectors: list[Num], count: int) -> None:
    """Store the first ``count`` lanes of vectors in turn: lane 0 of each, then lane 1 of each, ..."""
    lanes, n = vectors[0].lanes, len(vectors)
    if n == 1:
        p.store(vectors[0], at, None if count == lanes else k.mask(count, lanes))
        return
    for part in range(-(-count * n // lanes)):
        places = [divmod(part * lanes + i, n) for i in range(lanes)]  # lane, vector
        made = k.shuffle(vectors[0], vectors[1], [min(c, lanes - 1) + lanes * (v == 1) for c, v in places])
        for other in range(2, n):
            order = [c + lanes if v == other else i for i, (c, v) in enumerate(places)]
            made = k.shuffle(made, vectors[other], order)
        reach = count * n - part * lanes
        p.store(made, at + part * lanes, None if reach >= lanes else k.mask(reach, lanes))


def for_each_column_vector(
    k: KernelBuilder,
    inside: tuple[int, int],
    count: int,
    vector: Callable[[Int64, int, int], None],
    single: Callable[[Int64], None],
) -> None:
    """``vector(first, lanes, how many)`` for the columns in a range, ``single(column)`` for all others of ``count``."""
    a, b = inside
    if b <= a:
        a = b = 0
    lanes = k.lanes
    while lanes > 2 and lanes // 2 >= b - a:
        lanes //= 2
    whole, rest = (b - a) - (b - a) % lanes, (b - a) % lanes
    if whole:
        with k.range(a, a + whole, lanes) as i:
            vector(i, lanes, lanes)
    if rest:
        vector(Int64(k, k.word(a + whole)), lanes, rest)
    for begin, end in ((0, a), (b, count)):
        if begin < end:
            with k.range(begin, end) as i:
                single(i)
