"""Convolutions and their gradients by the input, channels last, by register tiles over rows of the image.

A piece of work is some rows of one image (see `window.py`). Weights are brought into panels
[panel][taps][channels][width] before.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import prod
from typing import Any, NamedTuple, TypeVar

from prototorch.backends.core import channels_last, fusable
from prototorch.backends.cpu.native.arranged import Parts, arranged_once
from prototorch.backends.cpu.native.call import CHANNELS_LAST, Bind, Tasks, code, native
from prototorch.backends.cpu.native.emit import Int, Kernel, Num
from prototorch.backends.cpu.native.kernels.epilogue import Epilogue, bare, epilogue_of
from prototorch.backends.cpu.native.kernels.geometry import (
    Geometry,
    backward_axes,
    forward_axis,
    panels_for,
    three,
)
from prototorch.backends.cpu.native.kernels.tile import Loop, Tile, accumulate, cut, most_rows
from prototorch.backends.cpu.native.kernels.window import Window, scratch_of, taps_inside
from prototorch.backends.cpu.native.streams import streamed
from prototorch.backends.cpu.native.team import Task
from prototorch.spec import Spec

CONVOLUTIONS = ("conv", "conv_input_grad")
_FEWEST = 16  # pieces of work
_PIECE = 1 << 16  # elements of the input rows of a piece, at most


def geometries(x: Spec, w: Spec, y: Spec, attrs: dict[str, Any], backward: bool,
               piece: int = _PIECE) -> list[Geometry]:  # fmt: skip
    """The convolutions that make y of x: one, or the phases of a gradient. For a gradient x is that of the output.

    piece: elements of the input rows of a piece of work, at most."""
    groups = attrs.get("groups", 1)
    kernel = three(w.shape[2:], 1)
    strides, dilation = three(attrs["strides"], 1), three(attrs["dilation"], 1)
    pads = three(attrs["pads"], (0, 0))
    here, there = three(x.shape[2:], 1), three(y.shape[2:], 1)
    rows = [
        (s, o, k, t, p[0], d) for s, o, k, t, p, d in zip(here, there, kernel, strides, pads, dilation, strict=True)
    ]
    places = prod(kernel)
    if backward:
        along = [backward_axes(o, s, k, t, low, d) for s, o, k, t, low, d in rows]
        filters, steps = y.shape[1], (places, w.shape[1] * places)
    else:
        along = [[forward_axis(*row)] for row in rows]
        filters, steps = w.shape[0], (w.shape[1] * places, places)
    made = []
    for axes in product(along[0], along[1], along[2]):
        if axes[1].count * axes[2].count * axes[0].count == 0:
            continue
        panels = panels_for(filters // groups, axes[2].count)
        block, shares = _pieces(x, axes, len(panels.vectors) * groups, piece)
        made.append(Geometry(x.shape[0], x.shape[1], filters, groups, axes, panels, block, shares, steps, kernel))
    return made


def _pieces(x: Spec, axes: Any, panels: int, piece: int) -> tuple[int, int]:
    """Rows of a piece, and shares of the panels, so that there are pieces enough and each fits the cache."""
    d, h, w = axes
    line = w.reach(w.count) * x.shape[1] * d.reach(1)
    block = h.count
    while block > 1 and (h.reach(block) * line > piece or x.shape[0] * d.count * -(-h.count // block) < _FEWEST):
        block = -(-block // 2)
    pieces = x.shape[0] * d.count * -(-h.count // block)
    shares = min(-(-_FEWEST // pieces), panels)
    return block, shares


def pack(k: Kernel, g: Geometry, kept: bool) -> None:
    """Plain weights (argument 0) into panels, in shared memory or (``kept``) argument 1; items are taps of a group."""
    w, packed = k.pointer(0), k.pointer(1) if kept else k.shared.as_type("float32")
    d, h, v = g.axes
    out_step, in_step = g.strides
    with k.range(k.first, k.last) as item:
        group, tap = item // g.taps, item % g.taps
        td, th, tv = tap // (h.taps * v.taps), (tap // v.taps) % h.taps, tap % v.taps
        place = ((td * d.each + d.first) * g.kernel[1] + (th * h.each + h.first)) * g.kernel[2] + (
            tv * v.each + v.first
        )
        base = w + (place + group * _group_step(g))
        done = 0
        for vectors in g.panels.vectors:
            width = vectors * g.panels.lanes
            real = min(width, g.width - done)
            to = packed + (
                group * (g.panels.width * g.taps * g.depth) + tap * (g.depth * width) + done * g.taps * g.depth
            )
            with k.range(g.depth) as i:
                with k.range(real) as o:
                    to.store(base.load(i * in_step + (o + done) * out_step), i * width + o)
                with k.range(real, width) as o:
                    to.store(k.zero(), i * width + o)
            done += width


def _group_step(g: Geometry) -> int:
    """Elements of the plain weights from one group to the next; filters come first in them, forward and backward."""
    out_step, in_step = g.strides
    return g.width * out_step if out_step > in_step else g.depth * in_step


class _Convolution:
    """The code of one geometry. ``where`` is the input x; ``packed`` the one with the packed weights, without which
    they lie in shared memory."""

    def __init__(self, k: Kernel, g: Geometry, epilogue: Epilogue, where: int, packed: int | None,
                 past: bool):  # fmt: skip
        self.k, self.g, self.epilogue = k, g, epilogue
        self.inputs = [k.pointer(i, t) for i, t in enumerate(epilogue.dtypes)]
        self.outputs = [k.pointer(len(self.inputs) + i, t, past) for i, t in enumerate(epilogue.results)]
        self.x = self.inputs[where]
        self.w = k.shared.as_type("float32") if packed is None else self.inputs[packed]
        d, h, _ = g.axes
        blocks = -(-h.count // g.block)
        with k.range(k.first, k.last) as item:
            share, rest = item % g.shares, item // g.shares
            block, rest = rest % blocks, rest // blocks
            self.od, self.n = rest % d.count, rest // d.count
            self.oh = block * g.block
            self.many = (self.oh + g.block).minimum(h.count) - self.oh
            self.window = Window(k, g, self.x, self.n, self.od, self.oh, self.many, tile_rows(g))
            self.panels(share)

    def panels(self, share: Int) -> None:
        """All panels of the piece's share, group by group."""
        k, g = self.k, self.g
        each = -(-len(g.panels.vectors) * g.groups // g.shares)
        run = list(_runs(g.panels.vectors))
        with k.range(g.groups) as group:
            done = 0
            for vectors, times in run:
                with k.range(times) as t:
                    number = group * len(g.panels.vectors) + (t + done)
                    mine = (number // each).equals(share) if g.shares > 1 else None
                    channel = (t + done) * (vectors * g.panels.lanes) if done == 0 else None
                    first = channel if channel is not None else t * (vectors * g.panels.lanes) + self._before(done)
                    if mine is None:
                        self.panel(group, first, vectors)
                    else:
                        with k.when(mine):
                            self.panel(group, first, vectors)
                done += times

    def _before(self, panels: int) -> int:
        return sum(self.g.panels.vectors[:panels]) * self.g.panels.lanes

    def panel(self, group: Int, channel: Int, vectors: int) -> None:
        """All rows of the piece for some neighbouring channels of a group."""
        k, g = self.k, self.g
        lanes = g.panels.lanes
        d, h, v = g.axes
        w = self.w + (group * (g.panels.width * g.taps * g.depth) + channel * (g.taps * g.depth))
        edge = g.width % lanes
        width = vectors * lanes
        per = g.depth * width
        runs = [(size, times) for size, times in _runs(tuple(cut(v.count, most_rows(vectors))))]
        planes = taps_inside(k, d, self.od * d.stride + d.offset)
        with k.range(self.many) as r:
            rows = taps_inside(k, h, (self.oh + r) * h.stride + h.offset)
            line = self.window.start + (r * (h.stride * self.window.line) + group * g.depth)
            line = line + (
                planes[0] * (self.window.deep * self.window.plane) + rows[0] * (h.dilation * self.window.line)
            )
            seen = w + (planes[0] * (h.taps * v.taps * per) + rows[0] * (v.taps * per))
            depth = self.depth(width, planes[1] - planes[0], rows[1] - rows[0])
            out_row = (
                (self.n * d.out + (self.od * d.step + d.start)) * h.out + ((self.oh + r) * h.step + h.start)
            ) * v.out
            done = 0
            for size, times in runs:
                with k.range(times) as t:
                    column = t * size + done
                    tile = Tile(size, vectors, lanes)
                    step = v.stride * self.window.column
                    sums = accumulate(k, tile, line + column * step, step, seen, depth)
                    place = (out_row + (column * v.step + v.start)) * g.filters + group * g.width + channel
                    self.store(sums, tile, place, group * g.width + channel, channel, edge)
                done += size * times

    def depth(self, width: int, planes: Any, rows: Any) -> list[Loop]:
        """The loops over taps and channels; neighbouring columns and their channels are one run of numbers."""
        g = self.g
        _, h, v = g.axes
        per = g.depth * width
        window = self.window
        loops = [
            Loop(planes, window.deep * window.plane, h.taps * v.taps * per),
            Loop(rows, h.dilation * window.line, v.taps * per),
        ]
        if g.groups == 1 and v.dilation == 1 and window.column == g.channels:
            loops.append(Loop(v.taps * g.depth, 1, width))
        else:
            loops += [Loop(v.taps, v.dilation * window.column, per), Loop(g.depth, 1, width)]
        few = [one for one in loops[:-1] if not (isinstance(one.count, int) and one.count == 1)]
        return few + loops[-1:] if g.taps else [Loop(0, 0, 0)]

    def store(self, sums: list[list[Num]], tile: Tile, place: Int, channel: Int, inner: Int, edge: int) -> None:
        """Store a tile's sums, which belong at ``place`` and further ``v.step`` places on."""
        k, g = self.k, self.g
        step = g.axes[2].step * g.filters
        last = tile.vectors - 1

        def write(mask: Num | None) -> None:
            for r in range(tile.rows):
                for v in range(tile.vectors):
                    self.epilogue.store(k, self.inputs, self.outputs, sums[r][v], place + (r * step + v * tile.lanes),
                                        channel + v * tile.lanes, mask if v == last else None)  # fmt: skip

        if not edge:
            write(None)
            return
        if tile.vectors == g.panels.vectors[-1] and g.panels.vectors.count(tile.vectors) == 1:
            write(k.mask(edge, tile.lanes))
            return
        if tile.vectors != g.panels.vectors[-1]:
            write(None)
            return
        with k.b.if_else((inner + tile.width <= g.width).v) as (then, otherwise):
            with then:
                write(None)
            with otherwise:
                write(k.mask(edge, tile.lanes))


def _runs(sizes: tuple[int, ...]) -> list[tuple[int, int]]:
    """Equal neighbours counted: (size, times)."""
    made: list[tuple[int, int]] = []
    for size in sizes:
        if made and made[-1][0] == size:
            made[-1] = (size, made[-1][1] + 1)
        else:
            made.append((size, 1))
    return made


def convolve(k: Kernel, g: Geometry, epilogue: Epilogue, where: int, packed: int | None, past: bool) -> None:
    """The code of a convolution; items are pieces of rows. ``past``: results go past the caches."""
    _Convolution(k, g, epilogue, where, packed, past)


class Asked(NamedTuple):
    """A convolution, or a group that begins with one: the op, its attributes, the inputs that are x and w, and what
    follows."""

    name: str
    attrs: dict[str, Any]
    where: tuple[int, int]
    epilogue: Epilogue

    @property
    def backward(self) -> bool:
        """Whether it is the gradient by the input."""
        return self.name == "conv_input_grad"


Specs = tuple[Spec, ...]


def tile_rows(g: Geometry) -> int:
    """Rows of the highest register tile."""
    return max(cut(g.axes[2].count, most_rows(vectors))[0] for vectors in g.panels.vectors)


def _work(g: Geometry, asked: Asked, outs: Specs, packed: int | None) -> Bind:
    made = streamed(lambda past: code(convolve, g, asked.epilogue, asked.where[0], packed, past), outs, g.width)
    items = g.n * g.axes[0].count * -(-g.axes[1].count // g.block) * g.shares
    local, shared = 4 * scratch_of(g, tile_rows(g)), 4 * g.packed if packed is None else 0
    return lambda i, o: [Task(made(i, o), (*i, *o), items, 1, local, shared)]


def _tasks(found: list[Geometry], asked: Asked, outs: Specs) -> Tasks:
    steps = [(g, code(pack, g, False), _work(g, asked, outs, None)) for g in found]

    def bind(i: Any, o: Any) -> list[Task]:
        tasks = []
        for g, packing, work in steps:
            if g.taps:
                tasks.append(Task(packing.address, (i[asked.where[1]],), g.groups * g.taps, 1, 0, 4 * g.packed))
            tasks += work(i, o)
        return tasks

    return Tasks(bind, "direct")


def _parts(found: list[Geometry], asked: Asked, outs: Specs) -> Parts:
    """The same with weights that are packed before, those of one phase behind those of the other."""
    w = asked.where[1]
    starts = [sum(g.packed for g in found[:n]) for n in range(len(found))]
    packing = [code(pack, g, True) for g in found]
    works = [_work(g, asked, outs, w) for g in found]

    def arrange(i: Any, o: Any) -> list[Task]:
        return [Task(p.address, (i[0], o[0] + 4 * start), g.groups * g.taps)
                for g, p, start in zip(found, packing, starts, strict=True) if g.taps]  # fmt: skip

    def work(i: Any, o: Any) -> list[Task]:
        return [task for one, start in zip(works, starts, strict=True)
                for task in one([*i[:w], i[w] + 4 * start, *i[w + 1 :]], o)]  # fmt: skip

    return Parts(w, sum(g.packed for g in found), arrange, work, "direct",
                 tuple(g._replace(n=0, block=0, shares=0) for g in found))  # fmt: skip


def usable(x: Spec, w: Spec, y: Spec) -> bool:
    """Whether these are float32 arrays, channels last, with weights as they are kept."""
    last = x.layout == CHANNELS_LAST and y.layout == CHANNELS_LAST
    return last and w.layout is None and x.dtype == w.dtype == y.dtype == "float32" and 3 <= x.ndim <= 5


Given = TypeVar("Given")


def for_convolutions(enter: Callable[..., Any],
                     **options: Any) -> Callable[[Callable[[Specs, Specs, Asked], Given]], Any]:  # fmt: skip
    """Enter (`native` or `arranged_once`) a function for convolutions, their gradients by the input, and fused groups
    that begin with one."""

    def decorate(give: Callable[[Specs, Specs, Asked], Given]) -> Any:
        def alone(name: str) -> Any:
            def prepare(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> Given | None:
                return give(ins, outs, Asked(name, attrs, (0, 1), bare(2)))

            return prepare

        def group(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> Given | None:
            name, refs, own = attrs["program"][0]
            if name not in CONVOLUTIONS or any(ref[0] != "in" for ref in refs):
                return None
            return give(ins, outs, Asked(name, dict(own), (refs[0][1], refs[1][1]), epilogue_of(ins, outs, attrs, 1)))

        for name, prepare in (*((n, alone(n)) for n in CONVOLUTIONS), ("fused", group)):
            prepare.__module__ = give.__module__
            enter(name, **options)(prepare)
        return give

    return decorate


def _found(ins: Specs, outs: Specs, asked: Asked) -> list[Geometry] | None:
    x, w = (ins[i] for i in asked.where)
    return geometries(x, w, outs[0], asked.attrs, asked.backward) if usable(x, w, outs[0]) else None


@for_convolutions(native)
def convolution(ins: Specs, outs: Specs, asked: Asked) -> Tasks | None:
    """Any convolution, and what follows it elementwise."""
    found = _found(ins, outs, asked)
    return None if found is None else _tasks(found, asked, outs)


@for_convolutions(arranged_once)
def convolution_of_packed(ins: Specs, outs: Specs, asked: Asked) -> Parts | None:
    """Any convolution whose weights are packed once."""
    found = _found(ins, outs, asked)
    return None if found is None else _parts(found, asked, outs)


def _smaller(ins: Specs, outs: Specs, asked: Asked) -> list[Geometry] | None:
    """In pieces of a quarter of the size; None where that changes nothing."""
    whole = _found(ins, outs, asked)
    x, w = (ins[i] for i in asked.where)
    if whole is None:
        return None
    found = geometries(x, w, outs[0], asked.attrs, asked.backward, _PIECE // 4)
    return found if found != whole else None


@for_convolutions(native, level="smaller")
def in_smaller_pieces(ins: Specs, outs: Specs, asked: Asked) -> Tasks | None:
    """The same in smaller pieces of work, which only a measurement chooses."""
    found = _smaller(ins, outs, asked)
    return None if found is None else _tasks(found, asked, outs)


@for_convolutions(arranged_once, level="smaller")
def packed_in_smaller_pieces(ins: Specs, outs: Specs, asked: Asked) -> Parts | None:
    """The same with packed weights."""
    found = _smaller(ins, outs, asked)
    return None if found is None else _parts(found, asked, outs)


channels_last("smaller", "prefers", *CONVOLUTIONS, ins=(0,), outs=(0,))
channels_last("smaller", "follows", "fused")
channels_last("native", "prefers", *CONVOLUTIONS, ins=(0,), outs=(0,))
fusable("native", "anchor", *CONVOLUTIONS)
