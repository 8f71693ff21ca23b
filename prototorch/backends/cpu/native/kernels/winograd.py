"""Convolutions of 3 x 3 and 5 x 5 windows by Winograd's minimal filtering (Lavin and Gray, 2016), channels last.

A tile of outputs, 4 x 4 for windows of 3 and 2 x 2 for windows of 5, sees 6 x 6 inputs. Inputs and weights are changed
to another basis (their polynomials' values at 0, 1, -1, 2, -2 and infinity), in which the sum over the window is one
product a place: 36 matrix products [tiles, channels] x [channels, filters], with 4 and 2.8 times fewer multiplications.
The change of basis rounds: about 1e-5 of the largest element. These kernels are a level of their own, which `precision:
strict` leaves out.

The gradient by the input is the same with filters and channels exchanged and the window turned round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from prototorch.backends.core import channels_last
from prototorch.backends.cpu.native.arranged import Parts, arranged_once
from prototorch.backends.cpu.native.call import Bind, Tasks, code, native
from prototorch.backends.cpu.native.emit import Int, Kernel, Num, Pointer
from prototorch.backends.cpu.native.kernels.conv import CONVOLUTIONS, Asked, Specs, _runs, for_convolutions, usable
from prototorch.backends.cpu.native.kernels.epilogue import Epilogue
from prototorch.backends.cpu.native.kernels.geometry import Panels, panels_for
from prototorch.backends.cpu.native.kernels.tile import Loop, Tile, accumulate, cut, most_rows, transposed
from prototorch.backends.cpu.native.machine import lanes_of
from prototorch.backends.cpu.native.streams import streamed
from prototorch.backends.cpu.native.team import Task
from prototorch.spec import Spec

_PLACES = 36
_CACHE = 160_000  # elements of a thread's tiles, in both bases, that stay near it
_MOST = 200_000  # and of as few tiles as go together
_RUN = 64  # channels of an item that changes weights
_TOGETHER = 1 << 22  # elements of the tiles of all threads together


class Winograd(NamedTuple):
    """The convolution [n, rows, columns, channels] -> [n, out_rows, out_columns, filters]; output (0, 0) sees input
    (-top, -left) first. ``backward``: by the turned window of exchanged weights."""

    n: int
    rows: int
    columns: int
    out_rows: int
    out_columns: int
    top: int
    left: int
    channels: int  # of all groups
    filters: int
    groups: int
    backward: bool
    window: int  # its side: 3 or 5
    panels: Panels
    block: int  # tiles that are done together
    kept: bool = False  # the changed weights are an input; else they lie in shared memory, before all else

    @property
    def side(self) -> int:
        """Outputs of a tile along an axis."""
        return 7 - self.window

    @property
    def taps(self) -> int:
        """Weights of a window."""
        return self.window**2

    @property
    def down(self) -> int:
        """Tiles below each other in an image."""
        return -(-self.out_rows // self.side)

    @property
    def across(self) -> int:
        """Tiles side by side."""
        return -(-self.out_columns // self.side)

    @property
    def tiles(self) -> int:
        """Tiles of all images."""
        return self.n * self.down * self.across

    @property
    def depth(self) -> int:
        """Channels of a group."""
        return self.channels // self.groups

    @property
    def width(self) -> int:
        """Filters of a group."""
        return self.filters // self.groups

    @property
    def wide(self) -> int:
        """Filters of all groups, with what fills up the panels."""
        return self.groups * self.panels.width

    @property
    def weights(self) -> int:
        """Elements of the changed weights."""
        return _PLACES * self.wide * self.depth

    @property
    def shared(self) -> int:
        """Elements of shared memory that the changed weights take."""
        return 0 if self.kept else self.weights

    def pair(self, tiles: int) -> int:
        """Elements of so many tiles, changed inputs and products."""
        return _PLACES * tiles * (self.channels + self.wide)


def _inputs(d: Sequence[Num]) -> list[Num]:
    """The change of basis of six inputs."""
    a, b = d[4] - d[2] * 4.0, d[3] - d[1] * 4.0
    c, e = d[4] - d[2], (d[3] - d[1]) * 2.0
    return [d[0] * 4.0 - d[2] * 5.0 + d[4], a + b, a - b, c + e, c - e, d[1] * 4.0 - d[3] * 5.0 + d[5]]


def _products(m: Sequence[Num], side: int) -> list[Num]:
    """Six products back to the outputs."""
    a, b, c, d = m[1] + m[2], m[1] - m[2], m[3] + m[4], m[3] - m[4]
    if side == 2:
        return [m[0] + a + c, b + d * 2.0 + m[5]]
    return [m[0] + a + c, b + d * 2.0, a + c * 4.0, b + d * 8.0 + m[5]]


def _window(g: Sequence[Num]) -> list[Num]:
    """The change of basis of three or five weights."""
    even, odd = g[0], g[1]
    twice_even, twice_odd = g[0], g[1] * 2.0
    for i, one in enumerate(g[2:], 2):
        if i % 2:
            odd, twice_odd = odd + one, twice_odd + one * 2.0**i
        else:
            even, twice_even = even + one, twice_even + one * 2.0**i
    a, b = even * (-1 / 6), odd * (1 / 6)
    c, d = twice_even * (1 / 24), twice_odd * (1 / 24)
    return [g[0] * 0.25, a - b, a + b, c + d, c - d, g[-1]]


def change_weights(k: Kernel, g: Winograd) -> None:
    """Plain weights (argument 0) to [36][groups][panel][channels][width]; items are as `by_panel` has them, so that the
    36 places that are written to go on evenly."""
    w, to = k.pointer(0), k.pointer(1) if g.kept else k.shared.as_type("float32")
    lanes, r = g.panels.lanes, g.window
    out_step, in_step = (g.taps, g.width * g.taps) if g.backward else (g.depth * g.taps, g.taps)

    def one(group: Int, channel: Int, vectors: int, c: Int) -> None:
        base = w + (group * (g.width * g.depth * g.taps) + c * in_step)
        at = to + (group * (g.panels.width * g.depth) + channel * g.depth + c * (vectors * lanes))
        with k.range(vectors) as v:
            first = channel + v * lanes
            taps = _taps(k, base + first * out_step, out_step, g.width - first, lanes, g.taps)
            if g.backward:
                taps = taps[::-1]
            half = [_window([taps[r * i + j] for i in range(r)]) for j in range(r)]
            for i in range(6):
                for j, value in enumerate(_window([half[x][i] for x in range(r)])):
                    at.store(value, v * lanes + (6 * i + j) * (g.wide * g.depth))

    by_panel(k, g, one)


def by_panel(k: Kernel, g: Winograd, work: Callable[[Int, Int, int, Int], None]) -> None:
    """``work(group, first filter, vectors, channel)`` for each channel of each panel; items are runs of channels of a
    panel, `panel_items` of them."""
    chunks = -(-g.depth // _RUN)
    with k.range(k.first, k.last) as item:
        chunk, rest = item % chunks, item // chunks
        panel, group = rest % len(g.panels.vectors), rest // len(g.panels.vectors)
        done = 0
        for vectors, times, before in _panel_runs(g):
            with k.when((panel >= done) & (panel < done + times)):
                channel = (panel - done) * (vectors * g.panels.lanes) + before
                first = chunk * _RUN
                with k.range(first, (first + _RUN).minimum(g.depth)) as c:
                    work(group, channel, vectors, c)
            done += times


def panel_items(g: Winograd) -> int:
    """The items of a kernel that goes by panels."""
    return g.groups * len(g.panels.vectors) * -(-g.depth // _RUN)


def _taps(k: Kernel, base: Pointer, step: int, left: Int, lanes: int, taps: int) -> list[Num]:
    """The taps of ``lanes`` neighbouring filters, ``step`` apart, as vectors; 0 for filters that are not there."""
    made: list[Num] = []
    for start in range(0, taps, lanes):
        some = min(lanes, taps - start)
        few = k.mask(some, lanes)
        rows = [base.load(r * step + start, lanes, (left > r).splat(lanes) & few) for r in range(lanes)]
        made += transposed(k, rows)[:some]
    return made


def change_inputs(k: Kernel, g: Winograd, x: Pointer, to: Pointer, many: int, first: Int, start: Any, stop: Any,
                  zeros: Pointer) -> None:  # fmt: skip
    """Tiles ``first + start ...`` of the input to [36][many][channels], in places start ... stop; ``zeros`` are a place
    of zeros."""
    with k.range(start, stop) as p:
        tile = first + p
        column, rest = tile % g.across, tile // g.across
        row, n = rest % g.down, rest // g.down
        top, left = row * g.side - g.top, column * g.side - g.left
        image = x + n * (g.rows * g.columns * g.channels)
        rows = [((top + i >= 0) & (top + i < g.rows), top + i) for i in range(6)]
        columns = [((left + j >= 0) & (left + j < g.columns), left + j) for j in range(6)]
        at = [[k.choose(a & b, image + (r * g.columns + c) * g.channels, zeros) for b, c in columns] for a, r in rows]
        there = to + p * g.channels

        def vector(i: Int, mask: Num | None, at: list[list[Pointer]] = at, there: Pointer = there) -> None:
            half = [_inputs([at[y][x].load(i, k.lanes, mask) for y in range(6)]) for x in range(6)]
            for y in range(6):
                for x, value in enumerate(_inputs([half[j][y] for j in range(6)])):
                    there.store(value, i + (6 * y + x) * (many * g.channels), mask)

        k.vectors(g.channels, vector)


def multiply(k: Kernel, g: Winograd, tiles: Pointer, weights: Pointer, out: Pointer, many: int, place: Int, group: Int,
             run: tuple[int, int, int], t: Any, count: Any) -> None:  # fmt: skip
    """The product of one place for one panel: panel ``t`` of those of ``run`` (vectors, times, channels before)."""
    vectors, _, before = run
    lanes = g.panels.lanes
    width = vectors * lanes
    channel = t * width + before
    w = weights + (place * (g.wide * g.depth) + group * (g.panels.width * g.depth) + channel * g.depth)
    x = tiles + (place * (many * g.channels) + group * g.depth)
    to = out + (place * (many * g.wide) + group * g.panels.width + channel)
    height = cut(many, most_rows(vectors))[0]

    def rows(size: int, row: Any) -> None:
        made = accumulate(k, Tile(size, vectors, lanes), x + row * g.channels, g.channels, w, [Loop(g.depth, 1, width)])
        for r in range(size):
            for v in range(vectors):
                to.store(made[r][v], (row + r) * g.wide + v * lanes)

    # The last rows of a block that is not full are done too: their place is there, and nobody reads them.
    whole = (count + (height - 1)) // height
    with k.range(whole) as i:
        rows(height, (i * height).minimum(many - height))


def change_products(k: Kernel, g: Winograd, products: Pointer, epilogue: Epilogue, inputs: list[Pointer],
                    outputs: list[Pointer], many: int, first: Int, start: Any, stop: Any,
                    held: Pointer) -> None:  # fmt: skip
    """Places start ... stop of the products to outputs; ``held`` is scratch memory [side][side][filters]."""
    with k.range(start, stop) as p:
        tile = first + p
        column, rest = tile % g.across, tile // g.across
        row, n = rest % g.down, rest // g.down
        source = products + p * g.wide
        place = (n * g.out_rows + row * g.side) * g.out_columns + column * g.side

        def group(i: Any, wide: int, narrow: int) -> None:
            def vector(f: Int, mask: Num | None) -> None:
                half = []
                for x in range(6):
                    held_here = [
                        source.load(f + (i * wide + (6 * y + x) * (many * g.wide)), k.lanes, mask) for y in range(6)
                    ]
                    half.append(_products(held_here, g.side))
                for y in range(g.side):
                    for x, value in enumerate(_products([half[j][y] for j in range(6)], g.side)):
                        held.store(value, f + (i * narrow + (g.side * y + x) * g.filters), mask)

            k.vectors(narrow, vector)

        with k.range(g.groups) as i:
            group(i, g.panels.width, g.width)
        below, beside = (g.out_rows - row * g.side).minimum(g.side), (g.out_columns - column * g.side).minimum(g.side)
        with k.range(below) as y, k.range(beside) as x:
            here = (place + y * g.out_columns + x) * g.filters
            line = held + (y * g.side + x) * g.filters
            k.vectors(g.filters, lambda f, mask: epilogue.store(
                k, inputs, outputs, line.load(f, k.lanes, mask), here + f, f, mask))  # fmt: skip


def _arguments(k: Kernel, epilogue: Epilogue, past: bool) -> tuple[list[Pointer], list[Pointer]]:
    inputs = [k.pointer(i, t) for i, t in enumerate(epilogue.dtypes)]
    return inputs, [k.pointer(len(inputs) + i, t, past) for i, t in enumerate(epilogue.results)]


def _panel_runs(g: Winograd) -> list[tuple[int, int, int]]:
    made, before = [], 0
    for vectors, times in _runs(g.panels.vectors):
        made.append((vectors, times, before))
        before += vectors * times * g.panels.lanes
    return made


def _weights(k: Kernel, g: Winograd, where: tuple[int, int]) -> Pointer:
    """The changed weights."""
    return k.pointer(where[1]) if g.kept else k.shared.as_type("float32")


def near(k: Kernel, g: Winograd, epilogue: Epilogue, where: tuple[int, int], past: bool) -> None:
    """Blocks of tiles, all three steps in the thread's own memory; items are blocks."""
    inputs, outputs = _arguments(k, epilogue, past)
    weights = _weights(k, g, where)
    tiles = k.local.as_type("float32")
    products = tiles + _PLACES * g.block * g.channels
    held = products + _PLACES * g.block * g.wide
    zeros = held + g.side**2 * g.filters
    k.vectors(g.channels, lambda i, m: zeros.store(k.zero(k.lanes), i, m))
    with k.range(k.first, k.last) as item:
        first = item * g.block
        count = (first + g.block).minimum(g.tiles) - first
        change_inputs(k, g, inputs[where[0]], tiles, g.block, first, 0, count, zeros)
        with k.range(_PLACES) as place, k.range(g.groups) as group:
            for run in _panel_runs(g):
                with k.range(run[1]) as t:
                    multiply(k, g, tiles, weights, products, g.block, place, group, run, t, count)
        change_products(k, g, products, epilogue, inputs, outputs, g.block, first, 0, count, held)


def far_inputs(k: Kernel, g: Winograd, where: tuple[int, int], inputs: int) -> None:
    """Items are tiles of the block that the last argument numbers."""
    zeros = k.local.as_type("float32")
    k.vectors(g.channels, lambda i, m: zeros.store(k.zero(k.lanes), i, m))
    tiles = k.shared.as_type("float32") + g.shared
    change_inputs(k, g, k.pointer(where[0]), tiles, g.block, k.argument(inputs), k.first, k.last, zeros)


def far_products(k: Kernel, g: Winograd, where: tuple[int, int], inputs: int) -> None:
    """Items are places, groups and panels."""
    weights = _weights(k, g, where)
    tiles = k.shared.as_type("float32") + g.shared
    products = tiles + _PLACES * g.block * g.channels
    count = (k.argument(inputs) + g.block).minimum(g.tiles) - k.argument(inputs)
    panels = len(g.panels.vectors)
    with k.range(k.first, k.last) as item:
        panel, rest = item % panels, item // panels
        group, place = rest % g.groups, rest // g.groups
        done = 0
        for run in _panel_runs(g):
            with k.when((panel >= done) & (panel < done + run[1])):
                multiply(k, g, tiles, weights, products, g.block, place, group, run, panel - done, count)
            done += run[1]


def far_outputs(k: Kernel, g: Winograd, epilogue: Epilogue, past: bool) -> None:
    """Items are tiles of the block."""
    inputs, outputs = _arguments(k, epilogue, past)
    products = k.shared.as_type("float32") + (g.shared + _PLACES * g.block * g.channels)
    first = k.argument(len(inputs) + len(outputs))
    change_products(
        k, g, products, epilogue, inputs, outputs, g.block, first, k.first, k.last, k.local.as_type("float32")
    )


def applies(x: Spec, w: Spec, y: Spec, attrs: dict[str, Any]) -> bool:
    """Whether a convolution of x with w that gives y can be done so at all."""
    plain = tuple(attrs["strides"]) == (1, 1) and tuple(attrs["dilation"]) == (1, 1)
    return usable(x, w, y) and plain and w.shape[2:] in ((3, 3), (5, 5))


def winograd_of(x: Spec, w: Spec, y: Spec, attrs: dict[str, Any], backward: bool,
                kept: bool = False, gain: bool = True) -> Winograd | None:  # fmt: skip
    """The convolution by Winograd; None where it does not apply, or is no gain (not ``gain``: or is one)."""
    if not applies(x, w, y, attrs):
        return None
    groups, window = attrs.get("groups", 1), w.shape[2]
    (top, _), (left, _) = attrs["pads"]
    if backward:
        top, left = window - 1 - top, window - 1 - left
    filters = y.shape[1]
    depth, width = x.shape[1] // groups, filters // groups
    if depth < 16 or width < 16:
        return None
    (rows, columns), (down, across) = x.shape[2:], y.shape[2:]
    g = Winograd(x.shape[0], rows, columns, down, across, top, left, x.shape[1], filters, groups, backward, window,
                 panels_for(width, 14), 1, kept)  # fmt: skip
    rows = most_rows(max(g.panels.vectors))
    if g.pair(rows) <= _MOST and g.tiles >= 16 * rows:
        times = max(min(_CACHE // g.pair(rows), 4), 1)
        g = g._replace(block=rows * times)
    else:
        most = max(_TOGETHER // g.pair(1), rows)
        parts = cut(g.tiles, most)
        g = g._replace(block=parts[0])
    return g if _gain(g) is gain else None


def _gain(g: Winograd) -> bool:
    """Whether the multiplications saved are worth the changes of basis, counted in operations on vectors."""
    lanes = lanes_of("float32")
    direct = g.taps * g.n * g.out_rows * g.out_columns * g.depth * g.filters / lanes
    here = g.tiles * (_PLACES * g.depth * g.wide + 4 * _PLACES * (g.channels + 2 * g.wide)) / lanes
    here += 0.5 * g.weights if g.kept else 1.0 * g.weights  # reading them, or changing their basis, too; measured
    return here < 0.8 * direct


def _work(g: Winograd, asked: Asked, outs: Specs) -> Bind:
    """All but the change of the weights."""
    epilogue, where = asked.epilogue, asked.where
    if g.pair(1) * g.block <= _MOST:
        whole = streamed(lambda past: code(near, g, epilogue, where, past), outs, g.filters)
        local, shared = 4 * (g.pair(g.block) + g.side**2 * g.filters + g.channels), 4 * g.shared
        return lambda i, o: [Task(whole(i, o), (*i, *o), -(-g.tiles // g.block), 1, local, shared)]
    count = len(epilogue.dtypes) + len(epilogue.results)
    first_step, second_step = code(far_inputs, g, where, count), code(far_products, g, where, count)
    third_step = streamed(lambda past: code(far_outputs, g, epilogue, past), outs, g.filters)
    shared = 4 * (g.shared + g.pair(g.block))

    def bind(i: Any, o: Any) -> list[Task]:
        made: list[Task] = []
        for first in range(0, g.tiles, g.block):
            many = min(g.block, g.tiles - first)
            given = (*i, *o, first)
            made += [
                Task(first_step.address, given, many, max(many // 32, 1), 4 * g.channels, shared),
                Task(second_step.address, given, _PLACES * g.groups * len(g.panels.vectors), 1, 0, shared),
                Task(third_step(i, o), given, many, max(many // 32, 1), 4 * g.side**2 * g.filters, shared),
            ]
        return made

    return bind


def _found(ins: Specs, outs: Specs, asked: Asked, kept: bool, gain: bool = True) -> Winograd | None:
    x, w = (ins[i] for i in asked.where)
    return winograd_of(x, w, outs[0], asked.attrs, asked.backward, kept, gain)


@for_convolutions(native, level="winograd")
def winograd(ins: Specs, outs: Specs, asked: Asked) -> Tasks | None:
    """A convolution, and what follows it elementwise."""
    return _tasks(_found(ins, outs, asked, False), outs, asked)


@for_convolutions(native, level="measured")
def measured(ins: Specs, outs: Specs, asked: Asked) -> Tasks | None:
    """The same where the count of operations sees no gain."""
    return _tasks(_found(ins, outs, asked, False, False), outs, asked)


def _tasks(g: Winograd | None, outs: Specs, asked: Asked) -> Tasks | None:
    if g is None:
        return None
    change, work = code(change_weights, g), _work(g, asked, outs)
    return Tasks(lambda i, o: [Task(change.address, (i[asked.where[1]],), panel_items(g), 1, 0, 4 * g.weights),
                               *work(i, o)], "winograd")  # fmt: skip


@for_convolutions(arranged_once, level="winograd")
def winograd_of_changed(ins: Specs, outs: Specs, asked: Asked) -> Parts | None:
    """The same with weights whose basis is changed once."""
    return _parts(_found(ins, outs, asked, True), outs, asked)


@for_convolutions(arranged_once, level="measured")
def measured_of_changed(ins: Specs, outs: Specs, asked: Asked) -> Parts | None:
    """The same where the count of operations sees no gain."""
    return _parts(_found(ins, outs, asked, True, False), outs, asked)


def _parts(g: Winograd | None, outs: Specs, asked: Asked) -> Parts | None:
    if g is None:
        return None
    change, work = code(change_weights, g), _work(g, asked, outs)
    return Parts(asked.where[1], g.weights, lambda i, o: [Task(change.address, (i[0], o[0]), panel_items(g))],
                 work, "winograd", (g.channels, g.filters, g.groups, g.backward, g.window, g.panels))  # fmt: skip


for _level in ("winograd", "measured"):
    channels_last(_level, "prefers", *CONVOLUTIONS, ins=(0,), outs=(0,))
    channels_last(_level, "follows", "fused")
