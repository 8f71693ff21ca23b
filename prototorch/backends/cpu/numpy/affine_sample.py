"""Pictures seen through an affine map each: the numbers of the plain body, bit for bit, in a fraction of its time.

Where the neighbours of a place lie is looked up along each axis (a table from rows to rows, one from columns to
columns) in the place of being worked out for every pixel and corner; and so many samples are done at a time as stay in
the cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from prototorch.backends.cpu.worker_pool import parallel_for, scratch_arrays
from prototorch.backends.registry import KernelFn, kernel
from prototorch.ops.resize import apply_border_mode
from prototorch.spec import Spec

_PIXELS_PER_BLOCK = 1 << 14  # of the pictures that are done at a time
_MAX_TABLE_REACH = 1 << 14  # a table reaches so far beyond a picture at most


class _AxisNeighbours(NamedTuple):
    """The two neighbours of each place on one axis: where they are, whether inside (or None), and their shares."""

    places: tuple[Any, Any]
    inside: tuple[Any, Any] | None
    shares: tuple[Any, Any]


def _axis_neighbours(at: Any, size: int, step: int, mode: str, spare: Any) -> _AxisNeighbours:
    """Of places [n, h, w] on an axis of ``size`` pixels that lie ``step`` apart. ``at`` and ``spare`` are used up."""
    before = np.floor(at, out=spare)
    behind = np.subtract(at, before, out=at)
    first, last = before.min(), before.max()
    inside = None
    if first > -_MAX_TABLE_REACH and last < _MAX_TABLE_REACH + size:
        line = np.arange(int(first), int(last) + 2)
        table = (apply_border_mode(np, line.astype(np.float64), size, mode) * step).astype(np.int64)
        row = before.astype(np.int64)
        row -= line[0]
        places = table[:-1].take(row), table[1:].take(row)
        if mode == "constant":
            known = (line >= 0) & (line < size)
            inside = known[:-1].take(row), known[1:].take(row)
    else:
        far = [before, before + 1]
        places = tuple((apply_border_mode(np, one, size, mode) * step).astype(np.int64) for one in far)
        if mode == "constant":
            inside = tuple((one >= 0) & (one < size) for one in far)
    return _AxisNeighbours(places, inside, (np.subtract(1, behind, out=before), behind))


@kernel("numpy", "affine_sample")
def affine_sample(ins: Sequence[Spec], outs: Sequence[Spec], attrs: Any) -> KernelFn | None:
    """Some samples at a time, corner by corner."""
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
        down = _axis_neighbours(y, h, w, mode, spare_y)
        right = _axis_neighbours(x_, w, 1, mode, spare_x)
        begins = np.arange(len(x))[:, None, None] * (c * h * w)
        for place in down.places:
            place += begins
        place, weight, share, seen = scratch_arrays(
            (size, "int64"), (size, "float64"), (size, dtype), (size, dtype), use="corner"
        )
        flat = x.reshape(-1)
        out[...] = 0
        for a in (0, 1):
            for b in (0, 1):
                np.add(down.places[a], right.places[b], out=place)
                np.multiply(down.shares[a], right.shares[b], out=weight)
                np.copyto(share, weight, casting="same_kind")
                outside = None
                if down.inside is not None and right.inside is not None:
                    outside = ~(down.inside[a] & right.inside[b])
                for k in range(c):
                    np.take(flat[k * h * w :], place, out=seen, mode="clip")
                    if outside is not None:
                        seen[outside] = fill
                    np.multiply(seen, share, out=seen)
                    np.add(out[:, k], seen, out=out[:, k])

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        x, matrices, out = np.ascontiguousarray(inputs[0]), inputs[1], outputs[0]

        def work(start: int, stop: int) -> None:
            sample(x[start:stop], matrices[start:stop], out[start:stop])

        parallel_for(work, n, max(1, _PIXELS_PER_BLOCK // (h * w)))

    return run
