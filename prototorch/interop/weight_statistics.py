"""Statistics and digests of the arrays of a weight file, computed block by block: large arrays are never copied."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

__all__ = ["ArrayStatistics", "array_statistics"]

_BLOCK_ELEMENTS = 1 << 18


@dataclass(frozen=True)
class ArrayStatistics:
    """Of the finite elements: minimum, maximum, mean and standard deviation (divided by n), None where there are none
    and for complex arrays. nan, infinite: numbers of these elements. sha256: of the elements in C order, little-endian,
    in hexadecimal."""

    elements: int
    minimum: float | None
    maximum: float | None
    mean: float | None
    std: float | None
    nan: int
    infinite: int
    sha256: str


def array_statistics(array: np.ndarray) -> ArrayStatistics:
    """The statistics of an array of numbers, in float64. The blocks are joined as by Chan, Golub and LeVeque (1979)."""
    digest = hashlib.sha256()
    count = nan = infinite = 0
    low, high, mean, square = math.inf, -math.inf, 0.0, 0.0
    for block in _blocks(array):
        digest.update(np.ascontiguousarray(block, block.dtype.newbyteorder("<")).view(np.uint8).data)
        if block.dtype.kind == "c":
            nan += int(np.isnan(block).sum())
            infinite += int(np.isinf(block).sum())
            continue
        values = block.astype(np.float64)
        finite = values[np.isfinite(values)]
        block_nan = int(np.isnan(values).sum())
        nan, infinite = nan + block_nan, infinite + values.size - finite.size - block_nan
        if not finite.size:
            continue
        low, high = min(low, float(finite.min())), max(high, float(finite.max()))
        with np.errstate(over="ignore", invalid="ignore"):
            block_mean = float(finite.mean())
            block_square = float(((finite - block_mean) ** 2).sum())
        total, delta = count + finite.size, block_mean - mean
        mean += delta * finite.size / total
        square += block_square + delta * delta * count * finite.size / total
        count = total
    if not count:
        return ArrayStatistics(array.size, None, None, None, None, nan, infinite, digest.hexdigest())
    std = math.sqrt(max(square / count, 0.0)) if math.isfinite(square) else math.inf
    return ArrayStatistics(array.size, low, high, mean, std, nan, infinite, digest.hexdigest())


def _blocks(array: np.ndarray) -> Iterator[np.ndarray]:
    """The elements in C order, in one-dimensional blocks; of an array that is not contiguous, copies of its rows."""
    if array.flags.c_contiguous or array.ndim <= 1:
        flat = array.reshape(-1)
        for start in range(0, flat.size, _BLOCK_ELEMENTS):
            yield flat[start : start + _BLOCK_ELEMENTS]
        return
    rows = _BLOCK_ELEMENTS * len(array) // max(array.size, 1)
    if rows == 0:
        for row in array:
            yield from _blocks(row)
    else:
        for start in range(0, len(array), rows):
            yield np.ascontiguousarray(array[start : start + rows]).reshape(-1)
