"""The gradient of a convolution by its weights, channels last.

A piece of work is a part of the batch's rows and some filters. Its sums [taps][channels][filters] lie in shared memory,
a register tile of them at a time is summed over the places of a block of rows; in the end the parts are added in order
and written as weights are kept. The parts depend on sizes alone, so that the sum has the same bits for any number of
threads.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from prototorch.backends.core import channels_last
from prototorch.backends.cpu.native.call import Tasks, code, native
from prototorch.backends.cpu.native.emit import Int, Kernel, Num, Pointer
from prototorch.backends.cpu.native.kernels.conv import _runs, usable
from prototorch.backends.cpu.native.kernels.geometry import Geometry, forward_axis, panels_for, three
from prototorch.backends.cpu.native.kernels.memory import clear
from prototorch.backends.cpu.native.kernels.tile import Loop, Tile, accumulate, cut, most_rows
from prototorch.backends.cpu.native.kernels.window import Window, scratch_of
from prototorch.backends.cpu.native.team import Task
from prototorch.spec import Spec

_FEWEST = 16  # pieces of work
_PIECE = 1 << 16  # elements of the input rows of a block, at most
_PARTS = 1 << 24  # elements of all parts' sums, at most


class Parts(NamedTuple):
    """How the sum is divided: parts of the blocks of rows; sums of one part are ``size`` elements."""

    parts: int
    blocks: int  # of rows of an image plane
    units: int  # blocks of all images
    size: int
    merged: bool  # neighbouring columns' taps are one run of numbers with their channels


def _parts(g: Geometry) -> Parts:
    d, h, v = g.axes
    blocks = -(-h.count // g.block)
    units = g.n * d.count * blocks
    size = g.groups * g.taps * g.depth * g.panels.width
    pieces = g.groups * len(g.panels.vectors)
    parts = max(min(-(-_FEWEST // pieces), units, max(_PARTS // size, 1)), 1)
    return Parts(parts, blocks, units, size, g.groups == 1 and v.dilation == 1)


def _geometry(x: Spec, dy: Spec, w: Spec, attrs: dict[str, Any]) -> Geometry:
    groups = attrs.get("groups", 1)
    kernel = three(w.shape[2:], 1)
    rows = zip(three(x.shape[2:], 1), three(dy.shape[2:], 1), kernel, three(attrs["strides"], 1),
               three(attrs["pads"], (0, 0)), three(attrs["dilation"], 1), strict=True)  # fmt: skip
    axes = tuple(forward_axis(s, o, k, t, p[0], d) for s, o, k, t, p, d in rows)
    d, h, v = axes
    run = v.taps * x.shape[1] if groups == 1 and v.dilation == 1 else x.shape[1] // groups
    panels = panels_for(dy.shape[1] // groups, run)
    line = v.reach(v.count) * x.shape[1] * d.reach(1)
    block = h.count
    while block > 1 and h.reach(block) * line > _PIECE:
        block = -(-block // 2)
    return Geometry(x.shape[0], x.shape[1], dy.shape[1], groups, axes, panels, block, 1, (0, 0), kernel)  # type: ignore[arg-type]


class _Sums:
    """The code that sums up one part."""

    def __init__(self, k: Kernel, g: Geometry, p: Parts):
        self.k, self.g, self.p = k, g, p
        self.x, self.dy = k.pointer(0), k.pointer(1)
        d = g.axes[0]
        self.rows = k.local.as_type("float32") + scratch_of(g)  # of dy: [places of a block][width]
        count = len(g.panels.vectors)
        with k.range(k.first, k.last) as item:
            panel, rest = item % count, item // count
            self.group, part = rest % g.groups, rest // g.groups
            before = 0
            for number, (vectors, times) in enumerate(_runs(g.panels.vectors)):
                done = sum(t for _, t in _runs(g.panels.vectors)[:number])
                with k.when((panel >= done) & (panel < done + times)):
                    width = vectors * g.panels.lanes
                    channel = (panel - done) * width + before
                    at = part * p.size + self.group * (g.taps * g.depth * g.panels.width) + channel * (g.taps * g.depth)
                    self.sums = k.shared.as_type("float32") + at
                    size = g.taps * g.depth * width
                    clear(k, self.sums, size)
                    first, last = part * p.units // p.parts, (part + 1) * p.units // p.parts
                    with k.range(first, last) as unit:
                        block, rest = unit % p.blocks, unit // p.blocks
                        self.unit(rest // d.count, rest % d.count, block, channel, vectors)
                before += vectors * times * g.panels.lanes

    def unit(self, n: Int, od: Int, block: Int, channel: Int, vectors: int) -> None:
        """Add the places of one block of rows."""
        k, g = self.k, self.g
        d, h, v = g.axes
        oh = block * g.block
        many = (oh + g.block).minimum(h.count) - oh
        window = Window(k, g, self.x, n, od, oh, many)
        width = vectors * g.panels.lanes
        self.gather(((n * d.count + od) * h.count + oh) * v.count, many * v.count, channel, vectors)
        tile_rows = g.depth * v.taps if self.p.merged else g.depth
        with k.range(d.taps) as td, k.range(h.taps) as th:
            plane = od * d.stride + (td * d.dilation + d.offset)
            first = oh * h.stride + (th * h.dilation + h.offset)
            low, high = Int(k, k.word(0)), many
            if not h.inside:
                low = low.maximum((h.stride - 1) - first) // h.stride
                high = low.maximum(many.minimum(Int(k, k.word(0)).maximum((h.size + h.stride - 1) - first) // h.stride))
            with k.when((plane >= 0) & (plane < d.size)), k.range(1 if self.p.merged else v.taps) as tv:
                row = th * h.dilation + low * h.stride
                start = window.start + (td * (window.deep * window.plane) + row * window.line)
                start = start + (tv * (v.dilation * g.channels) + self.group * g.depth)
                at = self.sums + ((td * h.taps + th) * v.taps + tv) * (g.depth * width)
                depth = [
                    Loop(high - low, h.stride * window.line, v.count * width),
                    Loop(v.count, v.stride * g.channels, width),
                ]
                self.tiles(start, at, self.rows + low * (v.count * width), depth, tile_rows, vectors)

    def gather(self, first: Int, count: Any, channel: Int, vectors: int) -> None:
        """dy of the block's places for the filters of the panel, side by side; zeros beyond the group's filters."""
        k, g = self.k, self.g
        lanes = g.panels.lanes
        width = vectors * lanes
        edge = g.width % lanes
        with k.range(count) as i:
            source = self.dy + ((first + i) * g.filters + (self.group * g.width + channel))
            for v in range(vectors):
                mask: Num | None = None
                if edge and v == vectors - 1:
                    mask = k.mask(g.width - (channel + v * lanes), lanes)
                self.rows.store(source.load(v * lanes, lanes, mask), i * width + v * lanes)

    def tiles(self, x: Pointer, sums: Pointer, dy: Pointer, depth: list[Loop], rows: int, vectors: int) -> None:
        """All register tiles of one tap."""
        k, lanes = self.k, self.g.panels.lanes
        width = vectors * lanes
        done = 0
        for size, times in _runs(tuple(cut(rows, most_rows(vectors)))):
            with k.range(times) as t:
                row = t * size + done
                tile = Tile(size, vectors, lanes)
                at = sums + row * width
                start = [[at.load(r * width + v * lanes, lanes) for v in range(vectors)] for r in range(size)]
                made = accumulate(k, tile, x + row, 1, dy, depth, start)
                for r in range(size):
                    for v in range(vectors):
                        at.store(made[r][v], r * width + v * lanes)
            done += size * times


def sum_part(k: Kernel, g: Geometry, p: Parts) -> None:
    """Items are parts of the rows and panels of filters."""
    _Sums(k, g, p)


def add_parts(k: Kernel, g: Geometry, p: Parts) -> None:
    """Add the parts and write the weights [filters][channels][taps]; items are panels of a group."""
    out = k.pointer(2)
    sums = k.shared.as_type("float32")
    count = len(g.panels.vectors)
    with k.range(k.first, k.last) as item:
        panel, group = item % count, item // count
        before = done = 0
        for vectors, times in _runs(g.panels.vectors):
            with k.when((panel >= done) & (panel < done + times)):
                width = vectors * g.panels.lanes
                channel = (panel - done) * width + before
                base = sums + (group * (g.taps * g.depth * g.panels.width) + channel * (g.taps * g.depth))
                real = (channel + width).minimum(g.width) - channel
                with k.range(g.taps) as tap, k.range(g.depth) as c:
                    row = base + (tap * g.depth + c) * width
                    for v in range(vectors):
                        total = k.variable(row.load(v * g.panels.lanes, g.panels.lanes))
                        if p.parts > 1:
                            with k.range(1, p.parts) as i:
                                total.value = total.value + row.load(i * p.size + v * g.panels.lanes, g.panels.lanes)
                        row.store(total.value, v * g.panels.lanes)
                    to = out + ((group * g.width + channel) * (g.depth * g.taps) + c * g.taps + tap)
                    with k.range(real) as f:
                        to.store(row.load(f), f * (g.depth * g.taps))
            before += vectors * times * g.panels.lanes
            done += times


channels_last("native", "prefers", "conv_weight_grad", ins=(0, 1), outs=())


@native("conv_weight_grad")
def conv_weight_grad(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Tasks | None:
    """dw [filters, channels of a group, *kernel] from x and dy."""
    x, dy = ins
    if not usable(x, outs[0], dy):
        return None
    g = _geometry(x, dy, outs[0], attrs)
    p = _parts(g)
    sums, adding = code(sum_part, g, p), code(add_parts, g, p)
    pieces = g.groups * len(g.panels.vectors)
    local = 4 * (scratch_of(g) + g.block * g.axes[2].count * max(g.panels.vectors) * g.panels.lanes)
    shared = 4 * p.size * p.parts

    def bind(i: Any, o: Any) -> list[Task]:
        given = (*i, *o)
        return [
            Task(sums.address, given, pieces * p.parts, 1, local, shared),
            Task(adding.address, given, pieces, 1, 0, shared),
        ]

    return Tasks(bind, "direct")
