"""Pooling windows in the plain layout (NCHW): adjacent windows of a row are lanes of a vector, whose elements are
one stride apart."""

from __future__ import annotations

from collections.abc import Callable

from prototorch.engine.backends.cpu.native.ir_builder import Int64, KernelBuilder, Num, Pointer
from prototorch.engine.backends.cpu.native.kernels.common.types import Index
from prototorch.engine.backends.cpu.native.kernels.pool.pool_geometry import PoolGeometry

__all__ = ["for_each_column_vector", "has_row_vectors", "load_strided", "store_interleaved"]

#: strides along a row up to which vectors are loaded by shuffles
MAX_STRIDE = 4


def has_row_vectors(w: PoolGeometry) -> bool:
    """Whether windows of a row are done as lanes of vectors."""
    return w.channels == 1 and w.strides[2] <= MAX_STRIDE and w.out[2] > 1


def load_strided(k: KernelBuilder, p: Pointer, at: Index, step: int, lanes: int, count: int) -> Num:
    """Load ``count`` elements, ``step`` apart, as the first lanes of a vector; nothing beyond them is read."""
    if step == 1:
        return p.load(at, lanes, None if count == lanes else k.mask(count, lanes))
    source_vector = [(step * i) // lanes for i in range(count)]
    result: Num | None = None
    for part in range(source_vector[-1] + 1):
        reach = step * (count - 1) + 1 - part * lanes
        vector = p.load(at + part * lanes, lanes, None if reach >= lanes else k.mask(reach, lanes))
        if result is None:
            result = k.shuffle(vector, vector, [step * i if step * i < lanes else 0 for i in range(lanes)])
            continue
        order = list(range(lanes))
        for i in range(count):
            if source_vector[i] == part:
                order[i] = lanes + step * i - part * lanes
        result = k.shuffle(result, vector, order)
    assert result is not None
    return result


def store_interleaved(k: KernelBuilder, p: Pointer, at: Index, vectors: list[Num], count: int) -> None:
    """Store the first ``count`` lanes of vectors interleaved: lane 0 of each, then lane 1 of each, ..."""
    lanes, n = vectors[0].lanes, len(vectors)
    if n == 1:
        p.store(vectors[0], at, None if count == lanes else k.mask(count, lanes))
        return
    for part in range(-(-count * n // lanes)):
        positions = [divmod(part * lanes + i, n) for i in range(lanes)]  # lane, vector
        vector = k.shuffle(vectors[0], vectors[1], [min(c, lanes - 1) + lanes * (v == 1) for c, v in positions])
        for other in range(2, n):
            order = [c + lanes if v == other else i for i, (c, v) in enumerate(positions)]
            vector = k.shuffle(vector, vectors[other], order)
        reach = count * n - part * lanes
        p.store(vector, at + part * lanes, None if reach >= lanes else k.mask(reach, lanes))


def for_each_column_vector(
    k: KernelBuilder,
    inside: tuple[int, int],
    count: int,
    vector: Callable[[Int64, int, int], None],
    single: Callable[[Int64], None],
) -> None:
    """Emit ``vector(first, lanes, count)`` for the columns in a range, ``single(column)`` for all others of
    ``count``."""
    a, b = inside
    if b <= a:
        a = b = 0
    lanes = k.lanes
    while lanes > 2 and lanes // 2 >= b - a:
        lanes //= 2
    main_count, rest = (b - a) - (b - a) % lanes, (b - a) % lanes
    if main_count:
        with k.range(a, a + main_count, lanes) as i:
            vector(i, lanes, lanes)
    if rest:
        vector(Int64(k, k.word(a + main_count)), lanes, rest)
    for begin, end in ((0, a), (b, count)):
        if begin < end:
            with k.range(begin, end) as i:
                single(i)
