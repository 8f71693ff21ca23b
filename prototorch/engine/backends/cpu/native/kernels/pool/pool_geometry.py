"""Pooling windows as loops: their geometry, which is known to the plan, and the traversal of a row of windows.

Everything has three spatial axes here; missing ones have size, window and stride 1. An image is one image of the batch
with its channels last, or one channel of an image (plain layout); vectors run along the channels, if there are several.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

from prototorch.engine.backends.cpu.native.ir_builder import Int64, KernelBuilder, Num, UnsupportedError
from prototorch.engine.backends.cpu.native.kernel_api import CHANNELS_LAST
from prototorch.engine.backends.cpu.native.kernels.common.types import Attrs, Specs
from prototorch.ops.pool import pooled_size
from prototorch.spec import Spec

__all__ = ["MAX_UNROLLED_TAPS", "PoolGeometry", "for_each_column", "is_within", "pool_geometry", "unravel_row"]

Triple = tuple[int, int, int]
#: taps of a window inside the input up to which its loops are unrolled
MAX_UNROLLED_TAPS = 36
#: elements of the input up to which all is one piece, and those of a piece above it
SERIAL_ELEMENTS, PIECE_ELEMENTS = 1 << 14, 1 << 15


@dataclass(frozen=True)
class PoolGeometry:
    """The windows over an input of ``images`` with ``channels`` elements at each position; ``pad_before`` and
    ``pad_after`` are the padding."""

    images: int
    channels: int
    size: Triple
    out: Triple
    kernel: Triple
    strides: Triple
    pad_before: Triple
    pad_after: Triple

    def full_windows(self, axis: int) -> tuple[int, int]:
        """Return the range of windows that lie inside the input along an axis."""
        n, o, k = self.size[axis], self.out[axis], self.kernel[axis]
        s, p = self.strides[axis], self.pad_before[axis]
        first = min(-(-p // s), o)
        return first, max(first, min((n - k + p) // s + 1, o)) if n - k + p >= 0 else first

    @property
    def taps(self) -> int:
        """Elements of a window."""
        return prod(self.kernel)

    def grain_size(self, items: int) -> int:
        """Return the work items of a piece."""
        total = self.images * self.channels * prod(self.size)
        return items if total <= SERIAL_ELEMENTS else max(PIECE_ELEMENTS * items // total, 1)


def pool_geometry(x: Spec, others: Specs, size: tuple[int, ...], attrs: Attrs) -> PoolGeometry:
    """Return the windows of an op; ``x`` and the others must have the same layout, ``size`` is that of the op's
    input."""
    if any(s.layout != x.layout for s in others) or x.dtype != "float32":
        raise UnsupportedError("arrays of different memory layouts, or not of float32")
    rank = len(size)
    if rank > 3:
        raise UnsupportedError("more than three dimensions")
    n, c = x.shape[:2]
    last = x.layout == CHANNELS_LAST or c == 1
    kernel, strides, pads = (tuple(attrs[name]) for name in ("kernel", "strides", "pads"))
    out = pooled_size(size, kernel, strides, pads, attrs.get("ceil", False))

    def triple(values: Any, fill: int) -> Any:
        return ((fill,) * (3 - rank)) + tuple(int(v) for v in values)

    return PoolGeometry(
        n if last else n * c,
        c if last else 1,
        triple(size, 1),
        triple(out, 1),
        triple(kernel, 1),
        triple(strides, 1),
        triple((p[0] for p in pads), 0),
        triple((p[1] for p in pads), 0),
    )


def unravel_row(row: Int64, inner: tuple[int, ...]) -> list[Int64]:
    """Return a row's index along the outermost axis and along each of the inner ones."""
    indices: list[Int64] = []
    for n in reversed(inner):
        indices.append(row % n if n > 1 else row * 0)
        row = row // n
    return [row, *reversed(indices)]


def for_each_column(
    k: KernelBuilder,
    inside: Num,
    fast: tuple[int, int],
    count: int,
    quick: Callable[[Int64], None],
    careful: Callable[[Int64], None],
) -> None:
    """Emit ``quick`` for the columns in the range ``fast`` if the row is inside, ``careful`` for all others of
    ``count``."""
    a, b = fast
    if a < b:
        flag = inside.cast("int64").to_int64()
        start, stop = flag * a, flag * b
        with k.range(start, stop) as i:
            quick(i)
        skip = stop - start
        with k.range(0, count - skip) as i:
            careful(i + (i >= start).cast("int64").to_int64() * skip)
        return
    with k.range(count) as i:
        careful(i)


def is_within(i: Int64, bounds: tuple[int, int]) -> Num:
    """Whether an index lies in a range."""
    return (i >= bounds[0]) & (i < bounds[1])
