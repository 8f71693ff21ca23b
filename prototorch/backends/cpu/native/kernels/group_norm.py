"""Group normalisation, in both layouts. Everything is said for channels: sums over a channel's numbers go to the
thread's scratch memory, are put together over each group, and come back as coefficients of the channel.

With the channels last the lanes of vectors are channels; in the plain layout they are a channel's numbers. An item is
some whole groups of one sample.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from prototorch.backends.core import channels_last
from prototorch.backends.cpu.native.call import CHANNELS_LAST, Tasks, code, native
from prototorch.backends.cpu.native.emit import Int, Kernel, Num, Pointer
from prototorch.backends.cpu.native.kernels.channel_rows import inverse_root, summed_line
from prototorch.backends.cpu.native.machine import lanes_of
from prototorch.backends.cpu.native.team import Task
from prototorch.spec import Spec

#: channels of an item with the channels last, vectors of channels that are summed together, and places added to a sum
#: before it is added to another
CHANNELS, TOGETHER, BLOCK = 64, 4, 64
#: the sample that a mean is guessed from is one of so many places
SHARE = 16
#: elements of a piece
PIECE = 1 << 14

Terms = Callable[["Sequence[Num]", "Sequence[Num]"], "list[Num]"]


@dataclass(frozen=True)
class Groups:
    """``samples`` of ``channels`` with ``places`` numbers each, in groups of ``size`` channels, of which an item does
    ``block`` channels; ``last``: the channels are last in memory."""

    samples: int
    channels: int
    places: int
    size: int
    block: int
    last: bool
    eps: float

    @property
    def row(self) -> int:
        """Numbers of a row of scratch memory: one for each channel of an item, and room for a vector."""
        return self.block + lanes_of("float32")

    @property
    def items(self) -> int:
        """Items of work."""
        return self.samples * (self.channels // self.block)

    @property
    def grain(self) -> int:
        """Items of a piece."""
        return max(PIECE // (self.block * self.places), 1)


#: rows of scratch memory
_SUMS, _CENTRE, _SCALE, _SLOPE, _LEVEL, ROWS = 0, 2, 3, 4, 5, 6


class _Item:
    """Some whole groups of a sample, from ``channel`` on."""

    def __init__(self, k: Kernel, p: Groups, item: Int):
        self.k, self.p = k, p
        blocks = p.channels // p.block
        self.sample: Int = item // blocks
        self.channel: Int = item % blocks * p.block
        whole = self.sample * (p.channels * p.places)
        self.begin: Any = whole + (self.channel if p.last else self.channel * p.places)

    def held(self, row: int) -> Pointer:
        """A row of scratch memory: a number for each channel."""
        return self.k.local.as_type("float32") + row * self.p.row

    def sums(self, arrays: Sequence[Pointer], coefficients: Sequence[Pointer], terms: Terms, count: int,
             places: int) -> None:  # fmt: skip
        """For each channel the sums of ``terms(the arrays' numbers, the channel's coefficients)`` at the first places,
        in the first rows."""
        (self._sums_last if self.p.last else self._sums_plain)(arrays, coefficients, terms, count, places)

    def _sums_plain(self, arrays: Sequence[Pointer], coefficients: Sequence[Pointer], terms: Any, count: int,
                    places: int) -> None:  # fmt: skip
        k, p = self.k, self.p
        with k.range(p.block) as c:
            own = [one.load(c).splat(k.lanes) for one in coefficients]

            def line(i: Int, mask: Num | None) -> list[Num]:
                return terms([a.load(i, k.lanes, mask) for a in arrays], own)

            found = summed_line(k, c * p.places + self.begin, places, line, count)
            for j, total in enumerate(found):
                self.held(_SUMS + j).store(total, c)

    def _sums_last(self, arrays: Sequence[Pointer], coefficients: Sequence[Pointer], terms: Any, count: int,
                   places: int) -> None:  # fmt: skip
        k, p = self.k, self.p

        def vectors(c: Any, many: int, mask: Num | None) -> None:
            own = [[one.load(c + v * k.lanes, k.lanes, mask) for one in coefficients] for v in range(many)]
            totals = [[k.variable(k.zero(k.lanes)) for _ in range(count)] for _ in range(many)]
            with k.range(0, places, BLOCK) as first:
                few = [[k.variable(k.zero(k.lanes)) for _ in range(count)] for _ in range(many)]
                with k.range(first, (first + BLOCK).minimum(places)) as place:
                    for v in range(many):
                        at = place * p.channels + c + v * k.lanes + self.begin
                        made = terms([a.load(at, k.lanes, mask) for a in arrays], own[v])
                        for s, value in zip(few[v], made, strict=True):
                            s.value = s.value + value
                for a, b in zip(totals, few, strict=True):
                    for s, t in zip(a, b, strict=True):
                        s.value = s.value + t.value
            for v in range(many):
                for j, s in enumerate(totals[v]):
                    self.held(_SUMS + j).store(s.value, c + v * k.lanes, mask)

        whole = p.block - p.block % (TOGETHER * k.lanes)
        with k.range(0, whole, TOGETHER * k.lanes) as c:
            vectors(c, TOGETHER, None)
        k.vectors(p.block - whole, lambda i, mask: vectors(i + whole, 1, mask))

    def groups(self, places: int, work: Callable[[Int, Callable[[Pointer], Num], Callable[[int, Num], None]],
                                                 None]) -> None:  # fmt: skip
        """``work(first channel, mean, put)`` for each group: ``mean`` adds a row up over the group, as sums over some
        places, and divides by their number; ``put(row, value)`` gives all of the channels a coefficient."""
        k, p = self.k, self.p

        def total(row: Pointer, first: Int) -> Num:
            (found,) = summed_line(k, first, p.size, lambda i, mask: [row.load(i, k.lanes, mask)], 1)
            return found * (1.0 / (p.size * places))

        def put(row: int, first: Int, value: Num) -> None:
            to = self.held(row) + first
            k.vectors(p.size, lambda i, mask: to.store(value.splat(k.lanes), i, mask))

        with k.range(0, p.block, p.size) as first:
            work(first, lambda row: total(row, first), lambda row, value: put(row, first, value))

    def statistics(self, x: Pointer) -> None:
        """Rows of each channel's centre, the factor 1 / deviation, and, as ``_LEVEL``, the mean less the centre times
        that factor.

        Distances are taken from a centre near the mean, the mean of a sample, so that one sweep gives mean and
        variance. If the sample is one of ``share`` numbers, its mean is no further from the group's than the root of
        ``share`` deviations: rounding grows by that at most.
        """
        sample = max(self.p.places // SHARE, 1)

        def centres(first: Int, total: Any, put: Any) -> None:
            put(_CENTRE, total(self.held(_SUMS)))

        def factors(first: Int, total: Any, put: Any) -> None:
            low, squares = total(self.held(_SUMS)), total(self.held(_SUMS + 1))
            scale = inverse_root(self.k, self.k.maximum(squares - low * low, 0.0), self.p.eps)
            put(_SCALE, scale)
            put(_LEVEL, low * scale)

        def distances(numbers: Any, own: Any) -> list[Num]:
            away = numbers[0] - own[0]
            return [away, away * away]

        self.sums([x], [], lambda numbers, own: [numbers[0]], 1, sample)
        self.groups(sample, centres)
        self.sums([x], [self.held(_CENTRE)], distances, 2, self.p.places)
        self.groups(self.p.places, factors)

    def each(self, work: Callable[[Int, Num | None], None]) -> None:
        """``work(first, mask)`` for vectors of the item's channels."""
        self.k.vectors(self.p.block, work)

    def made(self, arrays: Sequence[Pointer], coefficients: Sequence[Pointer], y: Pointer, value: Any) -> None:
        """Write ``value(the arrays' numbers, the channel's coefficients)`` everywhere."""
        k, p = self.k, self.p
        if not p.last:
            with k.range(p.block) as c:
                own = [one.load(c).splat(k.lanes) for one in coefficients]
                start = c * p.places + self.begin

                def line(i: Int, mask: Num | None) -> None:
                    y.store(value([a.load(start + i, k.lanes, mask) for a in arrays], own), start + i, mask)

                k.vectors(p.places, line)
            return
        with k.range(p.places) as place:
            start = place * p.channels + self.begin

            def channel(i: Int, mask: Num | None) -> None:
                own = [one.load(i, k.lanes, mask) for one in coefficients]
                y.store(value([a.load(start + i, k.lanes, mask) for a in arrays], own), start + i, mask)

            self.each(channel)


def _forward(k: Kernel, p: Groups) -> None:
    x, gamma, beta, y = (k.pointer(i) for i in range(4))
    with k.range(k.first, k.last) as number:
        item = _Item(k, p, number)
        item.statistics(x)
        scale, shift = item.held(_SCALE), item.held(_LEVEL)

        def coefficients(i: Int, mask: Num | None) -> None:
            g, at = gamma.load(item.channel + i, k.lanes, mask), item.channel + i
            shift.store(beta.load(at, k.lanes, mask) - shift.load(i, k.lanes, mask) * g, i, mask)
            scale.store(scale.load(i, k.lanes, mask) * g, i, mask)

        item.each(coefficients)
        item.made([x], [item.held(_CENTRE), scale, shift], y, lambda n, own: k.fma(n[0] - own[0], own[1], own[2]))


def _backward(k: Kernel, p: Groups) -> None:
    """Arguments: g, x, gamma, dx; each item's shares of the gradients of gamma and beta go to shared scratch memory."""
    g, x, gamma, dx = (k.pointer(i) for i in range(4))
    with k.range(k.first, k.last) as number:
        item = _Item(k, p, number)
        item.statistics(x)
        centre, scale, slope, level = (item.held(r) for r in (_CENTRE, _SCALE, _SLOPE, _LEVEL))
        ours, theirs = item.held(_SUMS), item.held(_SUMS + 1)

        def shares(numbers: Any, own: Any) -> list[Num]:
            return [numbers[0], numbers[0] * k.fma(numbers[1] - own[0], own[1], -own[2])]

        item.sums([g, x], [centre, scale, level], shares, 2, p.places)
        sums = k.shared.as_type("float32") + (item.sample * (2 * p.channels) + item.channel)

        def weighted(i: Int, mask: Num | None) -> None:
            by_beta, by_gamma = ours.load(i, k.lanes, mask), theirs.load(i, k.lanes, mask)
            sums.store(by_gamma, i, mask)
            sums.store(by_beta, i + p.channels, mask)
            own = gamma.load(item.channel + i, k.lanes, mask)
            ours.store(by_beta * own, i, mask)
            theirs.store(by_gamma * own, i, mask)

        item.each(weighted)

        def means(first: Int, total: Any, put: Any) -> None:
            middle, steep = total(ours), total(theirs)
            put(_SUMS, middle)
            put(_SLOPE, steep)

        item.groups(p.places, means)

        def value(n: Any, own: Any) -> Num:
            centre, factor, low, weight, middle, steep = own
            normal = k.fma(n[1] - centre, factor, -low)
            return k.fma(-normal, steep, k.fma(n[0], weight, -middle)) * factor

        item.made([g, x], [centre, scale, level, gamma + item.channel, ours, slope], dx, value)


def _added(k: Kernel, p: Groups) -> None:
    """The gradients of gamma and beta: the shares of all samples, in order. An item is a vector of channels."""
    outputs, shares = (k.pointer(0), k.pointer(1)), k.shared.as_type("float32")
    with k.range(k.first, k.last) as item:
        i = item * k.lanes
        mask = k.mask((p.channels - i).minimum(k.lanes), k.lanes)
        for place, y in enumerate(outputs):
            total = k.variable(k.zero(k.lanes))
            with k.range(p.samples) as sample:
                at = (sample * 2 + place) * p.channels + i
                total.value = total.value + shares.load(at, k.lanes, mask)
            y.store(total.value, i, mask)


def _groups(x: Spec, others: Sequence[Spec], attrs: dict[str, Any]) -> Groups | None:
    if any((s.shape, s.layout) != (x.shape, x.layout) for s in others):
        return None
    n, c = x.shape[:2]
    size, places = c // attrs["groups"], prod(x.shape[2:])
    last = x.layout == CHANNELS_LAST or places == 1
    block = size
    if last:  # whole groups of some vectors of channels, so that a sample is several items
        block = min((b for b in range(size, c + 1, size) if c % b == 0 and b >= CHANNELS), default=c)
    return Groups(n, c, places, size, block, last, attrs["eps"])


@native("group_norm")
def group_norm(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Tasks | None:
    """Each group less its mean, over its deviation, times gamma, plus beta."""
    p = _groups(ins[0], outs, attrs)
    if p is None or any(s.dtype != "float32" for s in ins):
        return None
    made, local = code(_forward, p), 4 * ROWS * p.row
    return Tasks(lambda i, o: [Task(made.address, (*i, *o), p.items, p.grain, local)])


@native("group_norm_grad")
def group_norm_grad(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Tasks | None:
    """The gradients of x, gamma and beta."""
    p = _groups(ins[1], (ins[0], outs[0]), attrs)
    if p is None or any(s.dtype != "float32" for s in ins):
        return None
    made, added, local, shared = code(_backward, p), code(_added, p), 4 * ROWS * p.row, 4 * 2 * p.channels * p.samples
    vectors = -(-p.channels // lanes_of("float32"))
    return Tasks(lambda i, o: [Task(made.address, (*i, o[0]), p.items, p.grain, local, shared),
                               Task(added.address, tuple(o[1:]), vectors, vectors, 0, shared)])  # fmt: skip


channels_last("native", "follows", "group_norm", ins=(0,), outs=(0,))
channels_last("native", "follows", "group_norm_grad", ins=(0, 1), outs=(0,))
