"""What a convolution is to the kernels: along each axis, which places of the input an output place sums up.

A convolution and its gradient by the input are the same thing here. The latter, with strides, is several convolutions
(*phases*): the input places with one remainder by the stride are an evenly spaced set, and each sees every so-manieth
tap.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import gcd
from typing import Any, NamedTuple

from prototorch.backends.cpu.native.cpu_features import is_double_pumped, vector_lanes
from prototorch.backends.cpu.native.kernels.common.register_tile import max_tile_rows, split_evenly


@dataclass(frozen=True)
class ConvAxis:
    """Output i (of ``count``, lying at ``start + i * step`` of ``out``) sums taps t at ``offset + i * stride + t *
    dilation`` of the input (of ``size``; zeros beyond), with the kernel's element ``first + t * each``."""

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
        """Whether no tap ever lies beyond the input."""
        return self.taps == 0 or (self.offset >= 0 and self.offset + self.extent(self.count) <= self.size)

    def extent(self, count: int) -> int:
        """Input places from the first to the last that ``count`` neighbouring outputs see."""
        return (count - 1) * self.stride + (self.taps - 1) * self.dilation + 1 if self.taps else 1


def conv_axis(size: int, out: int, kernel: int, stride: int, low: int, dilation: int) -> ConvAxis:
    """The axis of a convolution."""
    return ConvAxis(out, 0, 1, out, size, kernel, -low, stride, dilation, 0, 1)


def input_grad_axes(size: int, out: int, kernel: int, stride: int, low: int, dilation: int) -> list[ConvAxis]:
    """The phases of the gradient by the input [size] from that of the output [out]."""
    made = []
    for a in range(min(stride, size)):
        taps = [j for j in range(kernel) if (a + low - j * dilation) % stride == 0]
        count = -(-(size - a) // stride)
        common = gcd(dilation, stride)
        last = taps[-1] if taps else 0
        offset = (a + low - last * dilation) // stride if taps else 0
        step = -(stride // common)
        made.append(ConvAxis(count, a, stride, size, out, len(taps), offset, 1, dilation // common, last, step))
    return made


class ChannelPanels(NamedTuple):
    """How the channels of a group are cut into register tiles: vectors of each panel, the lanes of a vector."""

    vectors: tuple[int, ...]
    lanes: int

    @property
    def width(self) -> int:
        """Numbers of all panels, with those that only fill up the last."""
        return sum(self.vectors) * self.lanes


def choose_panels(channels: int, row: int) -> ChannelPanels:
    """The cheapest panels for so many channels and rows of ``row`` places: a processor does one multiplication of
    vectors a cycle (of half vectors two, where it makes no difference to it), and one load."""
    best: tuple[float, ChannelPanels] | None = None
    full = vector_lanes("float32")
    for lanes in (full, full // 2) if is_double_pumped() else (full,):
        price = lanes / full
        vectors = -(-channels // lanes)
        for largest in range(1, min(vectors, 6) + 1):
            made = tuple(sorted(split_evenly(vectors, largest), reverse=True))
            heights = split_evenly(row, max_tile_rows(made[0]))
            cost = price * sum(max(h * v, h + v, 4 / price) for h, v in product(heights, made))
            if best is None or cost < best[0] * 0.999:
                best = cost, ChannelPanels(made, lanes)
    assert best is not None
    return best[1]


class ConvGeometry(NamedTuple):
    """A convolution (or one phase of its gradient by the input) over channels-last arrays, three spatial axes."""

    n: int
    channels: int  # of the input, all groups
    filters: int  # of the output, all groups
    groups: int
    axes: tuple[ConvAxis, ConvAxis, ConvAxis]
    panels: ChannelPanels
    piece_rows: int  # output rows of a piece of work
    panel_shares: int  # pieces into which the panels of a group are divided
    strides: tuple[int, int]  # of the plain weights: to the next output and input channel of a group
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
        """The input a piece sees: planes, rows, columns."""
        d, h, w = self.axes
        return d.extent(1), h.extent(self.piece_rows), w.extent(w.count)


def expand_to_3d(values: Any, fill: Any) -> tuple[Any, Any, Any]:
    """Values of one to three axes as those of three."""
    values = tuple(values)
    return (*(fill,) * (3 - len(values)), *values)
