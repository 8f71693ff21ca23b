"""The gradient of a depthwise convolution by its weights, channels last.

A piece of work is a part of all output rows. For some neighbouring columns, a vector of channels and a row of taps the
sums stay in registers; they wait in the part's own memory [taps][channels]. At last the parts are added in order. The
parts depend on sizes alone, so that the sum has the same bits for any number of threads.
"""

from __future__ import annotations

from math import prod
from typing import Any

from prototorch.backends.cpu.native.call import Tasks, code, native
from prototorch.backends.cpu.native.emit import Int, Kernel, Num, Pointer
from prototorch.backends.cpu.native.kernels.depthwise import (
    TAPS,
    Columns,
    Depthwise,
    Source,
    columns_of,
    depthwise_of,
    wants_ahead,
)
from prototorch.backends.cpu.native.kernels.window import taps_inside
from prototorch.backends.cpu.native.machine import lanes_of, registers
from prototorch.backends.cpu.native.team import Task
from prototorch.spec import Spec

_PARTS = 32  # at most
_LARGE = 1 << 22  # elements of all parts' sums, at most
_SERIAL = 1 << 16  # multiplications below which one part is enough
_COLUMNS = 16  # of a tile


def sum_parts(k: Kernel, g: Depthwise, parts: int) -> None:
    """Items are parts of the output rows of all images."""
    axes = g.phases[0]
    d, h, v = axes
    units = g.n * d.count * h.count
    tiles = columns_of(v, _COLUMNS if registers() >= 32 else _COLUMNS // 2) if v.taps <= TAPS else None
    with k.range(k.first, k.last) as part:
        sums = k.shared.as_type("float32") + part * g.weights
        k.vectors(g.weights, lambda i, m: sums.store(k.zero(k.lanes), i, m))
        with k.range(part * units // parts, (part + 1) * units // parts) as unit:
            oh, rest = unit % h.count, unit // h.count
            od, n = rest % d.count, rest // d.count
            source = Source(k, g, axes, k.pointer(0), n, od, oh, 1, 1)
            dy = k.pointer(1) + unit * (v.count * g.filters)
            planes = taps_inside(k, d, od * d.stride + d.offset)
            rows = taps_inside(k, h, oh * h.stride + h.offset)
            at = _Taps(k, g, source, dy, sums, (planes, rows))
            if tiles is None:
                with k.range(v.count) as o:
                    at.column(o)
            else:
                for c in tiles:
                    with k.range(c.times) as i:
                        at.tile(i * c.size + c.first, c)


class _Taps:
    """One output row: its gradients, the input it sees, and the sums they go to."""

    def __init__(self, k: Kernel, g: Depthwise, source: Source, dy: Pointer, sums: Pointer, inside: Any):
        self.k, self.g, self.source, self.dy, self.sums = k, g, source, dy, sums
        self.planes, self.rows = inside

    def tile(self, first: Int, columns: Columns) -> None:
        """Neighbouring columns, all channels."""
        k, g, source = self.k, self.g, self.source
        v = g.phases[0][2]

        def vector(c: Int, mask: Num | None) -> None:
            if wants_ahead(g, g.phases[0]):
                source.ahead(source.start + (first * (v.stride * source.column) + c), columns.size)
                for o in range(columns.size):
                    self.dy.prefetch((first + (v.count + o)) * g.filters + c)
            given = [self.dy.load((first + o) * g.filters + c, k.lanes, mask) for o in range(columns.size)]
            with k.range(*self.planes) as td, k.range(*self.rows) as th:
                x, at = self._row(td, th)
                here, at = x + (first * (v.stride * source.column) + c), at + c
                taps = sorted({t for _, pairs in columns.pairs for _, t in pairs})
                sums = {t: at.load(t * g.wide, k.lanes) for t in taps}
                for place, pairs in columns.pairs:
                    one = here.load(place * source.column, k.lanes, mask)
                    for o, t in pairs:
                        sums[t] = k.fma(one, given[o], sums[t])
                for t in taps:
                    at.store(sums[t], t * g.wide)

        k.vectors(g.filters, vector)

    def column(self, o: Int) -> None:
        """One column; its taps inside are found at run time."""
        k, g = self.k, self.g
        v = g.phases[0][2]
        low, high = taps_inside(k, v, o * v.stride + v.offset)

        def vector(c: Int, mask: Num | None) -> None:
            given = self.dy.load(o * g.filters + c, k.lanes, mask)
            with k.range(*self.planes) as td, k.range(*self.rows) as th:
                x, at = self._row(td, th)
                with k.range(low, high) as t:
                    one = x.load((o * v.stride + t * v.dilation) * self.source.column + c, k.lanes, mask)
                    there = at + (t * g.wide + c)
                    there.store(k.fma(one, given, there.load(0, k.lanes)))

        k.vectors(g.filters, vector)

    def _row(self, td: Any, th: Any) -> tuple[Pointer, Pointer]:
        """Where a row of taps sees the input, and its sums."""
        g, source = self.g, self.source
        _, h, v = g.phases[0]
        x = source.start + (td * source.deep + th * (h.dilation * source.line))
        return x, self.sums + (td * h.taps + th) * (v.taps * g.wide)


def add_parts(k: Kernel, g: Depthwise, parts: int) -> None:
    """Add the parts and write the weights [filters][taps] (argument 2); items are vectors of filters."""
    sums, taps = k.shared.as_type("float32"), prod(g.kernel)
    with k.range(k.first, k.last) as item:
        c = item * k.lanes
        real = (c + k.lanes).minimum(g.filters) - c
        with k.range(taps) as tap:
            row = sums + (tap * g.wide + c)
            total = k.variable(row.load(0, k.lanes))
            with k.range(1, parts) as i:
                total.value = total.value + row.load(i * g.weights, k.lanes)
            row.store(total.value)
            with k.range(real) as f:
                k.pointer(2).store(row.load(f), (c + f) * taps + tap)


@native("conv_weight_grad", special=True)
def depthwise_weight_grad(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Tasks | None:
    """dw [filters, 1, *kernel] from x and dy."""
    x, dy = ins
    g = depthwise_of(x, outs[0], dy, attrs, False)
    if g is None:
        return None
    units = g.n * g.phases[0][0].count * g.phases[0][1].count
    parts = max(min(_PARTS, units, _LARGE // g.weights), 1)
    if dy.size * prod(g.kernel) <= _SERIAL:
        parts = 1
    sums, adding = code(sum_parts, g, parts), code(add_parts, g, parts)
    local, shared = 4 * g.scratch(g.phases[0], 1), 4 * g.weights * parts
    vectors = g.wide // lanes_of("float32")

    def bind(i: Any, o: Any) -> list[Task]:
        given = (*i, *o)
        return [Task(sums.address, given, parts, 1, local, shared),
                Task(adding.address, given, vectors, max(vectors // 8, 1), 0, shared)]  # fmt: skip

    return Tasks(bind, "depthwise")
