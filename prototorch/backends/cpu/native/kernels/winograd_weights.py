"""The gradient by the weights of 3 x 3 and 5 x 5 convolutions by Winograd's minimal filtering; see `winograd.py`.

In the other basis the sum over the places of a tile is one product a place, so that the gradient there is 36 products
[channels, tiles] x [tiles, filters], added up over blocks of tiles in their order, and changed back in the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prototorch.backends.core import channels_last
from prototorch.backends.cpu.native.call import Tasks, code, native
from prototorch.backends.cpu.native.emit import Int, Kernel, Num, Pointer
from prototorch.backends.cpu.native.kernels.conv import _runs
from prototorch.backends.cpu.native.kernels.geometry import panels_for
from prototorch.backends.cpu.native.kernels.memory import clear
from prototorch.backends.cpu.native.kernels.tile import Loop, Tile, accumulate, cut, most_rows, transposed
from prototorch.backends.cpu.native.kernels.winograd import Winograd, applies, by_panel, change_inputs, panel_items
from prototorch.backends.cpu.native.machine import lanes_of
from prototorch.backends.cpu.native.team import Task
from prototorch.spec import Spec

_PLACES = 36
_TOGETHER = 1 << 21  # elements of a block's tiles in the other basis
_FAR = 1 << 20  # sums that do not stay in a near cache, and that each block reads and writes: blocks are larger then
_MANY, _MOST = 200, 1 << 23  # tiles of such a block, as long as it has no more elements


def _outputs(d: Sequence[Num]) -> list[Num]:
    """The change of basis of the gradients of a tile's outputs along an axis, four or two."""
    if len(d) == 2:
        twice = d[1] * 2.0
        return [d[0], d[0] + d[1], d[0] - d[1], d[0] + twice, d[0] - twice, d[1]]
    a, b = d[0] + d[2], d[1] + d[3]
    c, e = d[0] + d[2] * 4.0, (d[1] + d[3] * 4.0) * 2.0
    return [d[0], a + b, a - b, c + e, c - e, d[3]]


def _back(m: Sequence[Num], window: int) -> list[Num]:
    """Six sums back to three or five weights."""
    a, b = (m[1] + m[2]) * (1 / 6), (m[2] - m[1]) * (1 / 6)
    c, d = (m[3] + m[4]) * (1 / 24), (m[3] - m[4]) * (1 / 24)
    made = [m[0] * 0.25 - a + c, b + d * 2.0, c * 4.0 - a]
    if window == 5:
        made += [b + d * 8.0, c * 16.0 - a]
    return [*made[:-1], made[-1] + m[5]]


def _parts(k: Kernel, g: Winograd) -> tuple[Pointer, Pointer, Pointer]:
    """The sums [36][groups][panel][channels][width], the inputs and the gradients of a block, in shared memory."""
    sums = k.shared.as_type("float32")
    tiles = sums + g.weights
    return sums, tiles, tiles + _PLACES * g.block * g.channels


def inputs(k: Kernel, g: Winograd) -> None:
    """Items are tiles of the block that begins at tile (argument 3)."""
    zeros = k.local.as_type("float32")
    clear(k, zeros, g.channels)
    change_inputs(k, g, k.pointer(0), _parts(k, g)[1], g.block, k.argument(3), k.first, k.last, zeros)


def gradients(k: Kernel, g: Winograd) -> None:
    """Items are tiles of the block: gradients of outputs to [36][block][filters, with what fills up the panels]."""
    dy, to, first = k.pointer(1), _parts(k, g)[2], k.argument(3)
    zeros = k.local.as_type("float32")
    clear(k, zeros, g.filters)
    with k.range(k.first, k.last) as p:
        tile = first + p
        column, rest = tile % g.across, tile // g.across
        row, n = rest % g.down, rest // g.down
        image = dy + n * (g.out_rows * g.out_columns * g.filters)
        rows, columns = ([i * g.side + s for s in range(g.side)] for i in (row, column))
        at = [
            [k.choose((y < g.out_rows) & (x < g.out_columns), image + (y * g.out_columns + x) * g.filters, zeros)
             for x in columns]
            for y in rows
        ]  # fmt: skip
        there = to + p * g.wide
        with k.range(g.groups) as group:

            def vector(f: Int, mask: Num | None, group: Int = group, at: Any = at, there: Pointer = there) -> None:
                here = f + group * g.width
                half = [_outputs([at[y][x].load(here, k.lanes, mask) for y in range(g.side)]) for x in range(g.side)]
                for y in range(6):
                    for x, value in enumerate(_outputs([half[j][y] for j in range(g.side)])):
                        there.store(value, f + group * g.panels.width + (6 * y + x) * (g.block * g.wide), mask)

            k.vectors(g.width, vector)
            fill = g.panels.width - g.width
            if fill:
                with k.range(_PLACES) as place:
                    line = there + (place * (g.block * g.wide) + group * g.panels.width + g.width)
                    clear(k, line, fill)


def products(k: Kernel, g: Winograd) -> None:
    """Items are places, groups and panels: add the block's products to the sums."""
    sums, tiles, grads = _parts(k, g)
    first = k.argument(3)
    count = (first + g.block).minimum(g.tiles) - first
    panels = len(g.panels.vectors)
    lanes = g.panels.lanes
    with k.range(k.first, k.last) as item:
        panel, rest = item % panels, item // panels
        group, place = rest % g.groups, rest // g.groups
        done = before = 0
        for vectors, times in _runs(g.panels.vectors):
            with k.when((panel >= done) & (panel < done + times)):
                width = vectors * lanes
                channel = (panel - done) * width + before
                x = tiles + (place * (g.block * g.channels) + group * g.depth)
                w = grads + (place * (g.block * g.wide) + group * g.panels.width + channel)
                to = sums + (place * (g.wide * g.depth) + group * (g.panels.width * g.depth) + channel * g.depth)
                row = 0
                for size, many in _runs(tuple(cut(g.depth, most_rows(vectors)))):
                    with k.range(many) as i:
                        at = to + (i * size + row) * width
                        start = [[k.select(first > 0, at.load(r * width + v * lanes, lanes), k.zero(lanes))
                                  for v in range(vectors)] for r in range(size)]  # fmt: skip
                        made = accumulate(k, Tile(size, vectors, lanes), x + (i * size + row), 1, w,
                                          [Loop(count, g.channels, g.wide)], start)  # fmt: skip
                        for r in range(size):
                            for v in range(vectors):
                                at.store(made[r][v], r * width + v * lanes)
                    row += size * many
            done += times
            before += vectors * times * lanes


def weights(k: Kernel, g: Winograd) -> None:
    """The sums back to weights [filters][channels][window][window] (argument 2); items as `winograd.by_panel` has
    them."""
    sums, out = k.shared.as_type("float32"), k.pointer(2)
    lanes, r, step = g.panels.lanes, g.window, g.wide * g.depth

    def one(group: Int, channel: Int, vectors: int, c: Int) -> None:
        at = sums + (group * (g.panels.width * g.depth) + channel * g.depth + c * (vectors * lanes))
        with k.range(vectors) as v:
            f = channel + v * lanes
            half = [_back([at.load(v * lanes + (6 * i + j) * step, lanes) for i in range(6)], r) for j in range(6)]
            taps = [value for i in range(r) for value in _back([half[j][i] for j in range(6)], r)]
            to = out + ((group * g.width + f) * (g.depth * g.taps) + c * g.taps)
            _scatter(k, taps, to, g.depth * g.taps, g.width - f, lanes)

    by_panel(k, g, one)


def _scatter(k: Kernel, taps: list[Num], to: Pointer, step: int, left: Int, lanes: int) -> None:
    """Vectors of taps as neighbours, for each of the filters that are there."""
    for start in range(0, len(taps), lanes):
        some = taps[start : start + lanes]
        few = k.mask(len(some), lanes)
        for r, row in enumerate(transposed(k, some + [k.zero(lanes)] * (lanes - len(some)))):
            to.store(row, r * step + start, (left > r).splat(lanes) & few)


def winograd_of(x: Spec, dy: Spec, w: Spec, attrs: dict[str, Any]) -> Winograd | None:
    """The gradient by Winograd; None where it does not apply, or is no gain."""
    if not applies(x, w, dy, attrs):
        return None
    groups = attrs.get("groups", 1)
    pads = attrs["pads"]
    filters = dy.shape[1]
    if x.shape[1] // groups < 16 or filters // groups < 16:
        return None
    (rows, columns), (down, across) = x.shape[2:], dy.shape[2:]
    g = Winograd(x.shape[0], rows, columns, down, across, pads[0][0], pads[1][0], x.shape[1], filters, groups, False,
                 w.shape[2], panels_for(filters // groups, x.shape[1] // groups), 1)  # fmt: skip
    block = max(_TOGETHER // g.pair(1), 32)
    if g.weights > _FAR:
        block = max(block, min(_MANY, _MOST // g.pair(1)))
    g = g._replace(block=cut(g.tiles, block)[0])
    lanes = lanes_of("float32")
    direct = g.taps * g.n * g.out_rows * g.out_columns * g.depth * g.filters / lanes
    here = g.tiles * (_PLACES * g.depth * g.wide + 6 * _PLACES * (g.channels + g.wide)) / lanes
    here += (1.0 + -(-g.tiles // g.block) / 8) * g.weights  # the sums, and their change back; measured
    return g if here < 0.8 * direct else None


channels_last("winograd", "prefers", "conv_weight_grad", ins=(0, 1), outs=())


@native("conv_weight_grad", level="winograd")
def conv_weight_grad(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Tasks | None:
    """dw [filters, channels of a group, window, window] from x and dy."""
    g = winograd_of(ins[0], ins[1], outs[0], attrs)
    if g is None:
        return None
    steps = [code(one, g) for one in (inputs, gradients, products, weights)]
    shared = 4 * (g.weights + g.pair(g.block))
    local = 4 * max(g.channels, g.filters)

    def bind(i: Any, o: Any) -> list[Task]:
        made = []
        for first in range(0, g.tiles, g.block):
            many = min(g.block, g.tiles - first)
            given = (*i, *o, first)
            made += [
                Task(steps[0].address, given, many, max(many // 32, 1), local, shared),
                Task(steps[1].address, given, many, max(many // 32, 1), local, shared),
                Task(steps[2].address, given, _PLACES * g.groups * len(g.panels.vectors), 1, 0, shared),
            ]
        return [*made, Task(steps[3].address, (*i, *o), panel_items(g), 1, 0, shared)]

    return Tasks(bind, "winograd")
