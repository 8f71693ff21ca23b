"""The index arithmetic of a convolution: along each axis, which input positions an output position sums up.

A convolution and its gradient with respect to the input have the same form. The latter, if strided, is several
convolutions (*phases*): input positions that are equal modulo the stride form an evenly spaced set, and each of them
sees every n-th tap.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import product
from math import gcd, prod
from typing import Any, NamedTuple

from prototorch.engine.backends.cpu.native.cpu_features import is_double_pumped, vector_lanes
from prototorch.engine.backends.cpu.native.kernels.common.register_tile import (
    max_tile_rows,
    split_evenly,
)
from prototorch.engine.backends.cpu.native.kernels.common.types import Attrs
from prototorch.spec import Spec

__all__ = [
    "PIECE_ELEMENTS",
    "ChannelPanels",
    "ConvAxis",
    "ConvGeometry",
    "choose_panels",
    "conv_axis",
    "conv_geometries",
    "expand_to_3d",
    "input_grad_axes",
]


@dataclass(frozen=True)
class ConvAxis:
    """One axis. Output i of ``count``, at position ``start + i * step`` of ``out``, sums the taps t at input
    position ``offset + i * stride + t * dilation`` (of ``size``; zeros outside), each times element ``first_tap + t
    * tap_step`` of the kernel."""

    count: int
    start: int
    step: int
    out: int
    size: int
    taps: int
    offset: int
    stride: int
    dilation: int
    first_tap: int
    tap_step: int

    @property
    def is_inside(self) -> bool:
        """Whether no tap lies outside the input."""
        return self.taps == 0 or (self.offset >= 0 and self.offset + self.extent(self.count) <= self.size)

    def extent(self, count: int) -> int:
        """Return the number of input positions from the first to the last that ``count`` adjacent outputs see."""
        return (count - 1) * self.stride + (self.taps - 1) * self.dilation + 1 if self.taps else 1


def conv_axis(size: int, out: int, kernel: int, stride: int, low: int, dilation: int) -> ConvAxis:
    """Return the axis of a forward convolution."""
    return ConvAxis(out, 0, 1, out, size, kernel, -low, stride, dilation, 0, 1)


def input_grad_axes(size: int, out: int, kernel: int, stride: int, low: int, dilation: int) -> list[ConvAxis]:
    """Return the phases of the gradient of the input [size] from that of the output [out]."""
    phases = []
    for a in range(min(stride, size)):
        taps = [j for j in range(kernel) if (a + low - j * dilation) % stride == 0]
        count = -(-(size - a) // stride)
        common = gcd(dilation, stride)
        last = taps[-1] if taps else 0
        offset = (a + low - last * dilation) // stride if taps else 0
        step = -(stride // common)
        phases.append(ConvAxis(count, a, stride, size, out, len(taps), offset, 1, dilation // common, last, step))
    return phases


class ChannelPanels(NamedTuple):
    """How the output channels of a group are divided into panels: the vectors of each panel, and the lanes of a
    vector."""

    vectors: tuple[int, ...]
    lanes: int

    @property
    def width(self) -> int:
        """Elements of all panels, with the padding of the last."""
        return sum(self.vectors) * self.lanes


def choose_panels(channels: int, row: int) -> ChannelPanels:
    """Return the cheapest panels for ``channels`` and rows of ``row`` positions. The cost model: one multiplication
    of vectors and one load a cycle (two multiplications of half vectors, on processors where these are free)."""
    best: tuple[float, ChannelPanels] | None = None
    full = vector_lanes("float32")
    for lanes in (full, full // 2) if is_double_pumped() else (full,):
        price = lanes / full
        vectors = -(-channels // lanes)
        for largest in range(1, min(vectors, 6) + 1):
            panel_vectors = tuple(sorted(split_evenly(vectors, largest), reverse=True))
            heights = _count_evenly(row, max_tile_rows(panel_vectors[0]))
            widths = Counter(panel_vectors).items()
            cost = price * sum(
                count * times * max(h * v, h + v, 4 / price) for h, count in heights for v, times in widths
            )
            if best is None or cost < best[0] * 0.999:
                best = cost, ChannelPanels(panel_vectors, lanes)
    assert best is not None
    return best[1]


def _count_evenly(size: int, largest: int) -> list[tuple[int, int]]:
    """The sizes of `split_evenly`, each with the number of its parts."""
    parts = -(-size // largest)
    return [(size // parts, parts - size % parts), (size // parts + 1, size % parts)]


class ConvGeometry(NamedTuple):
    """A convolution (or one phase of its input gradient) over channels-last arrays with three spatial axes."""

    n: int
    channels: int  # of the input, in all groups
    filters: int  # of the output, in all groups
    groups: int
    axes: tuple[ConvAxis, ConvAxis, ConvAxis]
    panels: ChannelPanels
    piece_rows: int  # output rows of a piece of work
    panel_shares: int  # pieces of work among which the panels are divided
    strides: tuple[int, int]  # of the weights: to the next output and to the next input channel of a group
    kernel: tuple[int, int, int]

    @property
    def depth(self) -> int:
        """Input channels of a group."""
        return self.channels // self.groups

    @property
    def width(self) -> int:
        """Output channels of a group."""
        return self.filters // self.groups

    @property
    def taps(self) -> int:
        """Taps of all axes together."""
        return self.axes[0].taps * self.axes[1].taps * self.axes[2].taps

    @property
    def packed_elements(self) -> int:
        """Elements of the packed weights."""
        return self.groups * self.panels.width * self.taps * self.depth

    @property
    def input_extent(self) -> tuple[int, int, int]:
        """The input region of a piece of work: planes, rows, columns."""
        d, h, w = self.axes
        return d.extent(1), h.extent(self.piece_rows), w.extent(w.count)


def expand_to_3d(values: Any, fill: Any) -> tuple[Any, Any, Any]:
    """Pad values of one to three axes to three."""
    values = tuple(values)
    return (*(fill,) * (3 - len(values)), *values)


_MIN_PIECES = 16  # pieces of work


PIECE_ELEMENTS = 1 << 16  # elements of the input rows of a piece, at most


def conv_geometries(
    x: Spec, w: Spec, y: Spec, attrs: Attrs, backward: bool, piece: int = PIECE_ELEMENTS
) -> list[ConvGeometry]:
    """Return the convolutions that make y of x: one, or the phases of an input gradient, where x is the gradient of the
    output.

    ``piece``: most elements of the input rows of a piece of work.
    """
    groups = attrs.get("groups", 1)
    kernel = expand_to_3d(w.shape[2:], 1)
    strides, dilation = expand_to_3d(attrs["strides"], 1), expand_to_3d(attrs["dilation"], 1)
    pads = expand_to_3d(attrs["pads"], (0, 0))
    in_size, out_size = expand_to_3d(x.shape[2:], 1), expand_to_3d(y.shape[2:], 1)
    rows = [
        (s, o, k, t, p[0], d)
        for s, o, k, t, p, d in zip(in_size, out_size, kernel, strides, pads, dilation, strict=True)
    ]
    num_taps = prod(kernel)
    if backward:
        axes_by_dim = [input_grad_axes(o, s, k, t, low, d) for s, o, k, t, low, d in rows]
        filters, steps = y.shape[1], (num_taps, w.shape[1] * num_taps)
    else:
        axes_by_dim = [[conv_axis(*row)] for row in rows]
        filters, steps = w.shape[0], (w.shape[1] * num_taps, num_taps)
    phases = []
    for axes in product(axes_by_dim[0], axes_by_dim[1], axes_by_dim[2]):
        if axes[1].count * axes[2].count * axes[0].count == 0:
            continue
        panels = choose_panels(filters // groups, axes[2].count)
        block, shares = _split_pieces(x, axes, len(panels.vectors) * groups, piece)
        phases.append(ConvGeometry(x.shape[0], x.shape[1], filters, groups, axes, panels, block, shares, steps, kernel))
    return phases


def _split_pieces(x: Spec, axes: Any, panels: int, piece: int) -> tuple[int, int]:
    """Return the rows of a piece and the shares of the panels: enough pieces for all threads, each small enough for
    the cache."""
    d, h, w = axes
    line = w.extent(w.count) * x.shape[1] * d.extent(1)
    block = h.count
    while block > 1 and (h.extent(block) * line > piece or x.shape[0] * d.count * -(-h.count // block) < _MIN_PIECES):
        block = -(-block // 2)
    pieces = x.shape[0] * d.count * -(-h.count // block)
    shares = min(-(-_MIN_PIECES // pieces), panels)
    return block, shares
