"""Depthwise convolutions and their gradients by the input, channels last: groups have one channel.

Vectors lie along the channels. A register tile is some neighbouring output columns; an input column is loaded once for
all of them. Which columns have taps beyond the image is known when the code is made: their tiles are emitted apart,
without those taps, so that nothing is padded or copied. Weights are brought into [taps][channels] before.

Where a channel has several filters, the rows of a piece are copied first: each channel as often as it is read, or, for
the gradient, those that are added up one behind the other.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import prod
from typing import Any, NamedTuple

from prototorch.backends.cpu.native.arranged import Parts, arranged_once
from prototorch.backends.cpu.native.call import Bind, Tasks, code, native
from prototorch.backends.cpu.native.emit import Int, Kernel, Num, Pointer
from prototorch.backends.cpu.native.kernels.conv import Asked, Specs, for_convolutions, usable
from prototorch.backends.cpu.native.kernels.epilogue import Epilogue
from prototorch.backends.cpu.native.kernels.geometry import Axis, backward_axes, forward_axis, three
from prototorch.backends.cpu.native.kernels.products import turned
from prototorch.backends.cpu.native.kernels.tile import cut
from prototorch.backends.cpu.native.kernels.window import taps_inside
from prototorch.backends.cpu.native.machine import lanes_of, registers
from prototorch.backends.cpu.native.streams import streamed
from prototorch.backends.cpu.native.team import Task
from prototorch.spec import Spec

_FEWEST = 32  # pieces of work
_SERIAL = 1 << 16  # multiplications below which one piece is enough
_NEAR = 1 << 16  # elements of an image that is in the cache after its first rows
_APART = 6  # tiles at a row's ends that are emitted apart, at most
TAPS = 12  # along a row whose vectors of weights are held at once, at most

Axes = tuple[Axis, Axis, Axis]


class Depthwise(NamedTuple):
    """The convolution (or the phases of a gradient, see `geometry`) from ``channels`` to ``filters``: each output sums
    up ``parts`` channels, each channel goes to ``copies`` outputs; one of both is 1."""

    n: int
    channels: int
    filters: int
    parts: int
    copies: int
    phases: tuple[Axes, ...]
    kernel: tuple[int, int, int]
    block: int  # output rows of a piece

    @property
    def wide(self) -> int:
        """Output channels, with what fills up the last vector."""
        return _filled(self.filters)

    @property
    def weights(self) -> int:
        """Elements of the weights as they are read: [parts][taps][channels]."""
        return self.parts * prod(self.kernel) * self.wide

    @property
    def planes(self) -> int:
        """Output planes of the largest phase."""
        return max(d.count for d, _, _ in self.phases)

    @property
    def blocks(self) -> int:
        """Pieces of a plane."""
        return -(-max(h.count for _, h, _ in self.phases) // self.block)

    def scratch(self, axes: Axes, rows: int) -> int:
        """Elements of the copied input of so many output rows; 0 where it is read where it lies."""
        d, h, v = axes
        return d.taps * h.reach(rows) * v.size * self.filters * self.parts if self.parts * self.copies > 1 else 0


def _filled(channels: int) -> int:
    lanes = lanes_of("float32")
    return -(-channels // lanes) * lanes


def depthwise_of(x: Spec, w: Spec, y: Spec, attrs: dict[str, Any], backward: bool) -> Depthwise | None:
    """The convolution that makes y of x, if it is depthwise. For a gradient x is that of the output."""
    groups = attrs.get("groups", 1)
    if not usable(x, w, y) or groups == 1 or w.shape[1] != 1:
        return None
    kernel = three(w.shape[2:], 1)
    rows = zip(three(x.shape[2:], 1), three(y.shape[2:], 1), kernel, three(attrs["strides"], 1),
               three(attrs["pads"], (0, 0)), three(attrs["dilation"], 1), strict=True)  # fmt: skip
    if backward:
        along = [backward_axes(o, s, k, t, p[0], d) for s, o, k, t, p, d in rows]
    else:
        along = [[forward_axis(s, o, k, t, p[0], d)] for s, o, k, t, p, d in rows]
    phases = tuple(axes for axes in product(*along) if all(a.count for a in axes))
    many = w.shape[0] // groups
    parts, copies = (many, 1) if backward else (1, many)
    g = Depthwise(x.shape[0], x.shape[1], y.shape[1], parts, copies, phases, kernel, 1)  # type: ignore[arg-type]
    return g._replace(block=_block(g))


def _block(g: Depthwise) -> int:
    rows = max(h.count for _, h, _ in g.phases)
    block = rows
    while block > 1 and g.n * g.planes * -(-rows // block) < _FEWEST:
        block = -(-block // 2)
    return block


def arrange(k: Kernel, parts: int, filters: int, taps: int, kept: bool) -> None:
    """Plain weights (argument 0) [filters][parts][taps] to [parts][taps][filters], in shared memory or (``kept``)
    argument 1; items are parts."""
    wide = _filled(filters)
    with k.range(k.first, k.last) as j:
        to = (k.pointer(1) if kept else k.shared.as_type("float32")) + j * (taps * wide)
        turned(k, k.pointer(0) + j * taps, filters, taps, parts * taps, to, wide)


def wants_ahead(g: Depthwise, axes: Axes) -> bool:
    """Whether rows are to be asked for before they are needed: columns lie too far apart for the processor to guess."""
    d, h, v = axes
    return g.parts * g.copies == 1 and d.size * h.size * v.size * g.channels >= _NEAR


class Source:
    """The input rows of output rows ``oh`` ... of plane ``od`` of image ``n``: where tap 0 of column 0 of row ``oh``
    lies, and how far it is to the next column, row, plane tap, and to the next channel that is added up."""

    def __init__(self, k: Kernel, g: Depthwise, axes: Axes, x: Pointer, n: Int, od: Int, oh: Int,
                 many: Any, rows: int):  # fmt: skip
        self.axes = axes
        d, h, v = axes
        image = x + n * (d.size * h.size * v.size * g.channels)
        plane, top = od * d.stride + d.offset, oh * h.stride + h.offset
        self.part = v.size * g.filters
        if not g.scratch(axes, rows):
            self.column, self.line = g.channels, v.size * g.channels
            self.deep = d.dilation * h.size * self.line
            self.start = image + ((plane * h.size + top) * self.line + v.offset * self.column)
            return
        self.column, self.line = g.filters, g.parts * self.part
        self.deep = h.reach(rows) * self.line
        to = k.local.as_type("float32")
        self.start = to + v.offset * self.column
        low, high = taps_inside(k, d, plane)
        first = Int(k, k.word(0)).maximum(0 - top)
        last = (top + ((many - 1) * h.stride + (h.taps - 1) * h.dilation + 1)).minimum(h.size) - top
        with k.range(low, high) as td, k.range(first, last) as r:
            here = image + ((plane + td * d.dilation) * h.size + (top + r)) * (v.size * g.channels)
            there = to + (td * self.deep + r * self.line)
            if g.copies > 1:
                with k.range(v.size * g.channels) as i:
                    one = here.load(i)
                    with k.range(g.copies) as j:
                        there.store(one, i * g.copies + j)
            else:
                with k.range(g.parts) as j, k.range(v.size * g.filters) as i:
                    there.store(here.load(i * g.parts + j), i + j * self.part)

    def ahead(self, x: Pointer, columns: int) -> None:
        """Ask for what the next output row is the first to see in so many columns; this one sees its tap 0 at ``x``."""
        _, h, v = self.axes
        for row in range(h.stride):
            for i in range(columns * v.stride):
                x.prefetch(((h.taps - 1) * h.dilation + 1 + row) * self.line + i * self.column)


def seen(v: Axis, columns: Any) -> list[tuple[int, list[tuple[int, int]]]]:
    """For columns (known numbers): each input column they see, as its distance from tap 0 of the first of them, with
    the (column, tap) pairs that see it."""
    found: dict[int, list[tuple[int, int]]] = {}
    first = columns[0]
    for o in columns:
        for t in range(v.taps):
            at = o * v.stride + t * v.dilation
            if 0 <= at + v.offset < v.size:
                found.setdefault(at - first * v.stride, []).append((o - first, t))
    return sorted(found.items())


class Columns(NamedTuple):
    """Neighbouring tiles of one size that see their input in the same way: ``times`` from column ``first`` on."""

    first: int
    size: int
    times: int
    pairs: Any


def columns_of(v: Axis, largest: int) -> list[Columns] | None:
    """A row cut into tiles; None where too many of them have taps beyond the image."""
    made: list[Columns] = []
    first = 0
    for size in cut(v.count, largest):
        pairs = seen(v, range(first, first + size))
        last = made[-1] if made else None
        if last is not None and (last.size, last.pairs) == (size, pairs):
            made[-1] = last._replace(times=last.times + 1)
        else:
            made.append(Columns(first, size, 1, pairs))
        first += size
    return made if len(made) <= _APART else None


def tile_columns(taps: int) -> int:
    """Columns of a register tile beside the weights of so many taps."""
    return max(min(registers() - taps - 3, 8), 2)


class _Depthwise:
    """The code of one piece: some rows of one image. ``w`` is the input that holds the arranged weights; without it
    they lie in shared memory."""

    def __init__(self, k: Kernel, g: Depthwise, epilogue: Epilogue, x: int, w: int | None,
                 past: bool):  # fmt: skip
        self.k, self.g, self.epilogue = k, g, epilogue
        self.inputs = [k.pointer(i, t) for i, t in enumerate(epilogue.dtypes)]
        self.outputs = [k.pointer(len(self.inputs) + i, t, past) for i, t in enumerate(epilogue.results)]
        self.w = k.shared.as_type("float32") if w is None else self.inputs[w]
        with k.range(k.first, k.last) as item:
            block, rest = item % g.blocks, item // g.blocks
            od, n, oh = rest % g.planes, rest // g.planes, block * g.block
            for axes in g.phases:
                with k.when(od < axes[0].count):
                    self.phase(axes, self.inputs[x], n, od, oh)

    def phase(self, axes: Axes, x: Pointer, n: Int, od: Int, oh: Int) -> None:
        """The rows of one phase."""
        k, g = self.k, self.g
        d, h, v = axes
        many = (oh + g.block).minimum(h.count) - oh
        source = Source(k, g, axes, x, n, od, oh, many, g.block)
        planes = taps_inside(k, d, od * d.stride + d.offset)
        tiles = columns_of(v, tile_columns(v.taps)) if v.taps <= TAPS else None
        with k.range(many) as r:
            rows = taps_inside(k, h, (oh + r) * h.stride + h.offset)
            line = source.start + r * (h.stride * source.line)
            place = ((n * d.out + (od * d.step + d.start)) * h.out + ((oh + r) * h.step + h.start)) * v.out
            if tiles is None:
                with k.range(v.count) as o:
                    self.column(axes, _Rows(source, line, planes, rows), o, place)
            else:
                for c in tiles:
                    with k.range(c.times) as i:
                        self.tile(axes, _Rows(source, line, planes, rows), i * c.size + c.first, c, place)

    def summed(self, axes: Axes, rows: _Rows, step: Callable[[Pointer, Pointer], None]) -> None:
        """``step(x, w)`` for each row of taps: where its tap 0 of column 0 of channel 0 lies, and its weights."""
        k, g = self.k, self.g
        d, h, _ = axes
        source = rows.source
        with k.range(g.parts) as j, k.range(*rows.planes) as td, k.range(*rows.rows) as th:
            x = rows.line + (j * source.part + td * source.deep + th * (h.dilation * source.line))
            row = (j * g.kernel[0] + (td * d.each + d.first)) * g.kernel[1] + (th * h.each + h.first)
            step(x, self.w + row * (g.kernel[2] * g.wide))

    def tile(self, axes: Axes, rows: _Rows, first: Int, columns: Columns, place: Int) -> None:
        """All channels of neighbouring columns."""
        k, g, v = self.k, self.g, axes[2]

        def vector(c: Int, mask: Num | None) -> None:
            sums = [k.variable(k.zero(k.lanes)) for _ in range(columns.size)]

            def step(x: Pointer, w: Pointer) -> None:
                taps = sorted({t for _, pairs in columns.pairs for _, t in pairs})
                ws = {t: w.load(c + (t * v.each + v.first) * g.wide, k.lanes) for t in taps}
                here = x + (first * (v.stride * rows.source.column) + c)
                for at, pairs in columns.pairs:
                    one = here.load(at * rows.source.column, k.lanes, mask)
                    for o, t in pairs:
                        sums[o].value = k.fma(one, ws[t], sums[o].value)

            if wants_ahead(g, axes):
                rows.source.ahead(rows.line + (first * (v.stride * rows.source.column) + c), columns.size)
            self.summed(axes, rows, step)
            for o, made in enumerate(sums):
                self.store(v, place, first + o, c, made.value, mask)

        k.vectors(g.filters, vector)

    def column(self, axes: Axes, rows: _Rows, o: Int, place: Int) -> None:
        """All channels of one column; its taps inside are found at run time."""
        k, g, v = self.k, self.g, axes[2]
        low, high = taps_inside(k, v, o * v.stride + v.offset)

        def vector(c: Int, mask: Num | None) -> None:
            total = k.variable(k.zero(k.lanes))

            def step(x: Pointer, w: Pointer) -> None:
                with k.range(low, high) as t:
                    one = x.load((o * v.stride + t * v.dilation) * rows.source.column + c, k.lanes, mask)
                    weight = w.load((t * v.each + v.first) * g.wide + c, k.lanes)
                    total.value = k.fma(one, weight, total.value)

            self.summed(axes, rows, step)
            self.store(v, place, o, c, total.value, mask)

        k.vectors(g.filters, vector)

    def store(self, v: Axis, place: Int, o: Int, c: Int, made: Num, mask: Num | None) -> None:
        """Store a vector of column o, after what follows it."""
        at = (place + (o * v.step + v.start)) * self.g.filters + c
        self.epilogue.store(self.k, self.inputs, self.outputs, made, at, c, mask)


class _Rows(NamedTuple):
    """Where an output row sees its input: tap 0 of its planes and rows, and which of these taps lie inside."""

    source: Source
    line: Pointer
    planes: tuple[Any, Any]
    rows: tuple[Any, Any]


def convolve(k: Kernel, g: Depthwise, epilogue: Epilogue, x: int, w: int | None, past: bool) -> None:
    """The code; items are pieces."""
    _Depthwise(k, g, epilogue, x, w, past)


def _work(g: Depthwise, asked: Asked, outs: Specs, kept: bool) -> Bind:
    x, w = asked.where
    work = streamed(lambda past: code(convolve, g, asked.epilogue, x, w if kept else None, past), outs, g.filters)
    items = g.n * g.planes * g.blocks
    outputs = sum(prod(a.count for a in axes) for axes in g.phases)
    grain = items if g.n * outputs * g.filters * prod(g.kernel) * g.parts <= _SERIAL else 1
    local = 4 * max(g.scratch(axes, g.block) for axes in g.phases)
    shared = 0 if kept else 4 * g.weights
    return lambda i, o: [Task(work(i, o), (*i, *o), items, grain, local, shared)]


def _found(ins: Specs, outs: Specs, asked: Asked) -> Depthwise | None:
    x, w = (ins[i] for i in asked.where)
    return depthwise_of(x, w, outs[0], asked.attrs, asked.backward)


@for_convolutions(native, special=True)
def depthwise(ins: Specs, outs: Specs, asked: Asked) -> Tasks | None:
    """A depthwise convolution, and what follows it elementwise."""
    g = _found(ins, outs, asked)
    if g is None:
        return None
    arranging, work = code(arrange, g.parts, g.filters, prod(g.kernel), False), _work(g, asked, outs, False)
    return Tasks(
        lambda i, o: [Task(arranging.address, (i[asked.where[1]],), g.parts, 1, 0, 4 * g.weights), *work(i, o)]
    )


@for_convolutions(arranged_once, special=True)
def depthwise_of_arranged(ins: Specs, outs: Specs, asked: Asked) -> Parts | None:
    """The same with weights that are arranged once."""
    g = _found(ins, outs, asked)
    if g is None:
        return None
    arranging = code(arrange, g.parts, g.filters, prod(g.kernel), True)
    return Parts(asked.where[1], g.weights, lambda i, o: [Task(arranging.address, (i[0], o[0]), g.parts)],
                 _work(g, asked, outs, True), "depthwise", (g.parts, g.filters, g.kernel))  # fmt: skip
