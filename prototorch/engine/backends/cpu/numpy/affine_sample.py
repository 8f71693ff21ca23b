"""Affine transformation of images: the elements of the reference implementation, bit for bit, in a fraction of its
time.

Where the neighbours of a position are is looked up in a table for each axis instead of being computed for
every pixel and neighbour. As many samples are processed at a time as stay in the cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from prototorch.engine.backends.cpu.worker_pool import parallel_for, scratch_arrays
from prototorch.engine.backends.registry import KernelFn, kernel
from prototorch.ops.resize import apply_border_mode
from prototorch.spec import Spec

_PIXELS_PER_BLOCK = 1 << 14  # of the images that are processed at a time
_MAX_TABLE_REACH = 1 << 14  # a table extends at most this far beyond an image


class _AxisNeighbours(NamedTuple):
    """The two neighbours of each position on one axis: offsets, whether they are inside (or None), weights."""

    offsets: tuple[Any, Any]
    is_inside: tuple[Any, Any] | None
    weights: tuple[Any, Any]


def _axis_neighbours(at: Any, size: int, step: int, mode: str, buffer: Any) -> _AxisNeighbours:
    """Of positions [n, h, w] on an axis of ``size`` pixels that are ``step`` elements apart. Overwrites ``at`` and
    ``buffer``."""
    before = np.floor(at, out=buffer)
    fraction = np.subtract(at, before, out=at)
    first, last = before.min(), before.max()
    is_inside = None
    if first > -_MAX_TABLE_REACH and last < _MAX_TABLE_REACH + size:
        coordinates = np.arange(int(first), int(last) + 2)
        table = (apply_border_mode(np, coordinates.astype(np.float64), size, mode) * step).astype(np.int64)
        row = before.astype(np.int64)
        row -= coordinates[0]
        offsets = table[:-1].take(row), table[1:].take(row)
        if mode == "constant":
            in_range = (coordinates >= 0) & (coordinates < size)
            is_inside = in_range[:-1].take(row), in_range[1:].take(row)
    else:
        neighbours = [before, before + 1]
        offsets = tuple(
            (apply_border_mode(np, neighbour, size, mode) * step).astype(np.int64) for neighbour in neighbours
        )
        if mode == "constant":
            is_inside = tuple((neighbour >= 0) & (neighbour < size) for neighbour in neighbours)
    return _AxisNeighbours(offsets, is_inside, (np.subtract(1, fraction, out=before), fraction))


@kernel("numpy", "affine_sample")
def affine_sample(ins: Sequence[Spec], outs: Sequence[Spec], attrs: Any) -> KernelFn | None:
    """Some samples at a time, neighbour by neighbour."""
    n, c, h, w = ins[0].shape
    dtype = ins[0].dtype
    if attrs.get("interpolation", "bilinear") != "bilinear" or dtype not in ("float32", "float64") or not c * h * w:
        return None
    mode, fill = attrs.get("fill_mode", "reflect"), attrs.get("fill_value", 0.0)
    rows, columns = np.arange(h, dtype=np.float64)[:, None], np.arange(w, dtype=np.float64)

    def sample(x: Any, matrices: Any, out: Any) -> None:
        size = (len(x), h, w)
        m = matrices.astype(np.float64)[:, :, :, None, None]
        y, x_, spare_y, spare_x = scratch_arrays(*[(size, "float64")] * 4, use="affine")
        for axis, at in enumerate((y, x_)):
            np.add(m[:, axis, 0] * rows, m[:, axis, 1] * columns, out=at)
            np.add(at, m[:, axis, 2], out=at)
        vertical = _axis_neighbours(y, h, w, mode, spare_y)
        horizontal = _axis_neighbours(x_, w, 1, mode, spare_x)
        image_starts = np.arange(len(x))[:, None, None] * (c * h * w)
        for index in vertical.offsets:
            index += image_starts
        index, weight, cast_weight, pixels = scratch_arrays(
            (size, "int64"), (size, "float64"), (size, dtype), (size, dtype), use="corner"
        )
        flat = x.reshape(-1)
        out[...] = 0
        for a in (0, 1):
            for b in (0, 1):
                np.add(vertical.offsets[a], horizontal.offsets[b], out=index)
                np.multiply(vertical.weights[a], horizontal.weights[b], out=weight)
                np.copyto(cast_weight, weight, casting="same_kind")
                outside = None
                if vertical.is_inside is not None and horizontal.is_inside is not None:
                    outside = ~(vertical.is_inside[a] & horizontal.is_inside[b])
                for k in range(c):
                    np.take(flat[k * h * w :], index, out=pixels, mode="clip")
                    if outside is not None:
                        pixels[outside] = fill
                    np.multiply(pixels, cast_weight, out=pixels)
                    np.add(out[:, k], pixels, out=out[:, k])

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        x, matrices, out = np.ascontiguousarray(inputs[0]), inputs[1], outputs[0]

        def work(start: int, stop: int) -> None:
            sample(x[start:stop], matrices[start:stop], out[start:stop])

        parallel_for(work, n, max(1, _PIXELS_PER_BLOCK // (h * w)))

    return run
