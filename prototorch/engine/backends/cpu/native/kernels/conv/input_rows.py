"""The input of a piece of a convolution: some rows of one image, with zeros beside them where there is padding.

Rows and planes outside the image are not read: their taps are left out. Columns outside it are: rows are then copied to
the thread's scratch memory with zeros at both ends. They are also copied where the columns of a register tile would
evict each other from the L1 cache (equal addresses modulo its way size); the copies are padded to avoid that.
"""

from __future__ import annotations

from math import gcd
from typing import Any

from prototorch.engine.backends.cpu.native.ir_builder import Int64, KernelBuilder, Pointer
from prototorch.engine.backends.cpu.native.kernels.common.memory import clear, copy
from prototorch.engine.backends.cpu.native.kernels.common.types import Index
from prototorch.engine.backends.cpu.native.kernels.conv.conv_geometry import ConvAxis, ConvGeometry

__all__ = ["InputRows", "clip_taps", "has_cache_conflicts", "scratch_elements"]

_CACHE_WAY_BYTES = 4096  # bytes: addresses equal modulo this share a set of L1,
_CACHE_WAYS = 8  # which holds so many lines
_COLUMN_PADDING = 16  # elements between columns that would evict each other


class InputRows:
    """Input rows of output rows ``oh`` ... of output plane ``od`` of image ``n``.

    ``start`` is the address of the first element that output row ``oh`` sees; ``column_stride`` and ``row_stride`` are
    in elements. ``rows``: those of a register tile, if it reads so many columns at once.
    """

    def __init__(
        self,
        k: KernelBuilder,
        g: ConvGeometry,
        x: Pointer,
        n: Int64,
        od: Int64,
        oh: Int64,
        out_rows: Index,
        rows: int = 0,
    ):
        self.k, self.g, self.od, self.oh = k, g, od, oh
        self.column_stride = column_stride(g, rows)
        d, h, v = g.axes
        image = x + n * (d.size * h.size * v.size * g.channels)
        if not scratch_elements(g, rows):
            self.row_stride, self.plane_stride = v.size * g.channels, h.size * v.size * g.channels
            first = (od * d.stride + d.offset) * self.plane_stride + (oh * h.stride + h.offset) * self.row_stride
            self.start = image + (first + v.offset * g.channels)
            self.plane_step = d.dilation
            return
        self.row_stride = g.input_extent[2] * self.column_stride
        self.plane_stride = g.input_extent[1] * self.row_stride
        self.start = k.local.as_type("float32")
        self.plane_step = 1
        self._copy(image, out_rows)

    def _copy(self, image: Pointer, out_rows: Index) -> None:
        k, g = self.k, self.g
        d, h, v = g.axes
        columns = g.input_extent[2]
        low = min(max(-v.offset, 0), columns)  # columns of zeros before, columns copied, and zeros behind
        copied_columns = max(min(v.offset + columns, v.size) - max(v.offset, 0), 0)
        from_plane, planes = clip_taps(k, d, self.od * d.stride + d.offset)
        top = self.oh * h.stride + h.offset
        lowest = Int64(k, k.word(0)).maximum(0 - top)
        highest = (top + ((out_rows - 1) * h.stride + (h.taps - 1) * h.dilation + 1)).minimum(h.size) - top
        with k.range(from_plane, planes) as p:
            plane = self.od * d.stride + (p * d.dilation + d.offset)
            with k.range(lowest, highest) as r:
                to = self.start + (p * self.plane_stride + r * self.row_stride)
                source = image + ((plane * h.size + (top + r)) * v.size + max(v.offset, 0)) * g.channels

                clear(k, to, low * self.column_stride)
                if self.column_stride == g.channels:
                    copy(k, source, to + low * g.channels, copied_columns * g.channels)
                else:
                    with k.range(copied_columns) as c:
                        copy(k, source + c * g.channels, to + (c + low) * self.column_stride, g.channels)
                clear(
                    k,
                    to + (low + copied_columns) * self.column_stride,
                    (columns - low - copied_columns) * self.column_stride,
                )


def column_stride(g: ConvGeometry, rows: int) -> int:
    """Return the elements from one input column to the next."""
    return g.channels + _COLUMN_PADDING if has_cache_conflicts(4 * g.axes[2].stride * g.channels, rows) else g.channels


def has_cache_conflicts(step: int, rows: int) -> bool:
    """Whether ``rows`` addresses that are ``step`` bytes apart evict each other from the L1 cache."""
    return rows > _CACHE_WAYS * (_CACHE_WAY_BYTES // gcd(step, _CACHE_WAY_BYTES))


def scratch_elements(g: ConvGeometry, rows: int = 0) -> int:
    """Return the elements of scratch memory that the input rows of a piece take; 0 if they are read in place."""
    column = column_stride(g, rows)
    if g.axes[2].is_inside and column == g.channels:
        return 0
    return g.axes[0].taps * g.input_extent[1] * g.input_extent[2] * column


def clip_taps(k: KernelBuilder, axis: ConvAxis, first: Index) -> tuple[Any, Any]:
    """Return the half-open range of the taps inside the input, where tap 0 is at position ``first``."""
    if axis.is_inside:
        return 0, axis.taps
    zero = Int64(k, k.word(0))
    low = zero.maximum(0 - first)
    high = zero.maximum(axis.size - first)
    if axis.dilation > 1:
        low, high = (low + (axis.dilation - 1)) // axis.dilation, (high + (axis.dilation - 1)) // axis.dilation
    high = high.minimum(axis.taps)
    return low.minimum(high), high
