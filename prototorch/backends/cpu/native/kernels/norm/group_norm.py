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

from prototorch.backends.core import register_channels_last
from prototorch.backends.cpu.native.cpu_features import vector_lanes
from prototorch.backends.cpu.native.ir_builder import Int64, KernelBuilder, Num, Pointer
from prototorch.backends.cpu.native.kernel_api import CHANNELS_LAST, TaskList, kernel_code, native_kernel
from prototorch.backends.cpu.native.kernels.norm.channel_stats import rsqrt, sum_line
from prototorch.backends.cpu.native.thread_pool import ParallelTask
from prototorch.spec import Spec

#: channels of an item with the channels last, vectors of channels that are summed together, and places added to a sum
#: before it is added to another
ITEM_CHANNELS, VECTORS_TOGETHER, SUM_BLOCK = 64, 4, 64
#: the sample that a mean is guessed from is one of so many places
SAMPLE_STRIDE = 16
#: elements of a piece
PIECE_ELEMENTS = 1 << 14

Terms = Callable[["Sequence[Num]", "Sequence[Num]"], "list[Num]"]


@dataclass(frozen=True)
class GroupNormShape:
    """``samples`` of ``channels`` with ``places`` numbers each, in groups of ``size`` channels, of which an item does
    ``block`` channels; ``last``: the channels are last in memory."""

    samples: int
    channels: int
    positions: int
    group_channels: int
    item_channels: int
    is_channels_last: bool
    eps: float

    @property
    def scratch_stride(self) -> int:
        """Numbers of a row of scratch memory: one for each channel of an item, and room for a vector."""
        return self.item_channels + vector_lanes("float32")

    @property
    def items(self) -> int:
        """Items of work."""
        return self.samples * (self.channels // self.item_channels)

    @property
    def grain_size(self) -> int:
        """Items of a piece."""
        return max(PIECE_ELEMENTS // (self.item_channels * self.positions), 1)


#: rows of scratch memory
_SUMS, _CENTER, _SCALE, _NORMAL_MEAN, _SHIFT, SCRATCH_ROWS = 0, 2, 3, 4, 5, 6


class _GroupItem:
    """Some whole groups of a sample, from ``channel`` on."""

    def __init__(self, k: KernelBuilder, p: GroupNormShape, item: Int64):
        self.k, self.p = k, p
        blocks = p.channels // p.item_channels
        self.sample: Int64 = item // blocks
        self.channel: Int64 = item % blocks * p.item_channels
        whole = self.sample * (p.channels * p.positions)
        self.offset: Any = whole + (self.channel if p.is_channels_last else self.channel * p.positions)

    def scratch(self, row: int) -> Pointer:
        """A row of scratch memory: a number for each channel."""
        return self.k.local.as_type("float32") + row * self.p.scratch_stride

    def sum_channels(self, arrays: Sequence[Pointer], coefficients: Sequence[Pointer], terms: Terms, count: int,
             places: int) -> None:  # fmt: skip
        """For each channel the sums of ``terms(the arrays' numbers, the channel's coefficients)`` at the first places,
        in the first rows."""
        (self._sums_last if self.p.is_channels_last else self._sums_plain)(arrays, coefficients, terms, count, places)

    def _sums_plain(self, arrays: Sequence[Pointer], coefficients: Sequence[Pointer], terms: Any, count: int,
                    places: int) -> None:  # fmt: skip
        k, p = self.k, self.p
        with k.range(p.item_channels) as c:
            own = [one.load(c).splat(k.lanes) for one in coefficients]

            def line(i: Int64, mask: Num | None) -> list[Num]:
                return terms([a.load(i, k.lanes, mask) for a in arrays], own)

            found = sum_line(k, c * p.positions + self.offset, places, line, count)
            for j, total in enumerate(found):
                self.scratch(_SUMS + j).store(total, c)

    def _sums_last(self, arrays: Sequence[Pointer], coefficients: Sequence[Pointer], terms: Any, count: int,
                   places: int) -> None:  # fmt: skip
        k, p = self.k, self.p

        def vectors(c: Any, many: int, mask: Num | None) -> None:
            own = [[one.load(c + v * k.lanes, k.lanes, mask) for one in coefficients] for v in range(many)]
            totals = [[k.variable(k.zero(k.lanes)) for _ in range(count)] for _ in range(many)]
            with k.range(0, places, SUM_BLOCK) as first:
                few = [[k.variable(k.zero(k.lanes)) for _ in range(count)] for _ in range(many)]
                with k.range(first, (first + SUM_BLOCK).minimum(places)) as place:
                    for v in range(many):
                        at = place * p.channels + c + v * k.lanes + self.offset
                        made = terms([a.load(at, k.lanes, mask) for a in arrays], own[v])
                        for s, value in zip(few[v], made, strict=True):
                            s.value = s.value + value
                for a, b in zip(totals, few, strict=True):
                    for s, t in zip(a, b, strict=True):
                        s.value = s.value + t.value
            for v in range(many):
                for j, s in enumerate(totals[v]):
                    self.scratch(_SUMS + j).store(s.value, c + v * k.lanes, mask)

        whole = p.item_channels - p.item_channels % (VECTORS_TOGETHER * k.lanes)
        with k.range(0, whole, VECTORS_TOGETHER * k.lanes) as c:
            vectors(c, VECTORS_TOGETHER, None)
        k.for_each_vector(p.item_channels - whole, lambda i, mask: vectors(i + whole, 1, mask))

    def for_each_group(self, places: int, work: Callable[[Int64, Callable[[Pointer], Num], Callable[[int, Num], None]],
                                                 None]) -> None:  # fmt: skip
        """``work(first channel, mean, put)`` for each group: ``mean`` adds a row up over the group, as sums over some
        places, and divides by their number; ``put(row, value)`` gives all of the channels a coefficient."""
        k, p = self.k, self.p

        def total(row: Pointer, first: Int64) -> Num:
            (found,) = sum_line(k, first, p.group_channels, lambda i, mask: [row.load(i, k.lanes, mask)], 1)
            return found * (1.0 / (p.group_channels * places))

        def put(row: int, first: Int64, value: Num) -> None:
            to = self.scratch(row) + first
            k.for_each_vector(p.group_channels, lambda i, mask: to.store(value.splat(k.lanes), i, mask))

        with k.range(0, p.item_channels, p.group_channels) as first:
            work(first, lambda row: total(row, first), lambda row, value: put(row, first, value))

    def statistics(self, x: Pointer) -> None:
        """Rows of each channel's centre, the factor 1 / deviation, and, as ``_SHIFT``, the mean less the centre times
        that factor.

        Distances are taken from a centre near the mean, the mean of a sample, so that one sweep gives mean and
        variance. If the sample is one of ``share`` numbers, its mean is no further from the group's than the root of
        ``share`` deviations: rounding grows by that at most.
        """
        sample = max(self.p.positions // SAMPLE_STRIDE, 1)

        def centres(first: Int64, total: Any, put: Any) -> None:
            put(_CENTER, total(self.scratch(_SUMS)))

        def factors(first: Int64, total: Any, put: Any) -> None:
            low, squares = total(self.scratch(_SUMS)), total(self.scratch(_SUMS + 1))
            scale = rsqrt(self.k, self.k.maximum(squares - low * low, 0.0), self.p.eps)
            put(_SCALE, scale)
            put(_SHIFT, low * scale)

        def distances(numbers: Any, own: Any) -> list[Num]:
            away = numbers[0] - own[0]
            return [away, away * away]

        self.sum_channels([x], [], lambda numbers, own: [numbers[0]], 1, sample)
        self.for_each_group(sample, centres)
        self.sum_channels([x], [self.scratch(_CENTER)], distances, 2, self.p.positions)
        self.for_each_group(self.p.positions, factors)

    def for_each_vector(self, work: Callable[[Int64, Num | None], None]) -> None:
        """``work(first, mask)`` for vectors of the item's channels."""
        self.k.for_each_vector(self.p.item_channels, work)

    def store_map(self, arrays: Sequence[Pointer], coefficients: Sequence[Pointer], y: Pointer, value: Any) -> None:
        """Write ``value(the arrays' numbers, the channel's coefficients)`` everywhere."""
        k, p = self.k, self.p
        if not p.is_channels_last:
            with k.range(p.item_channels) as c:
                own = [one.load(c).splat(k.lanes) for one in coefficients]
                start = c * p.positions + self.offset

                def line(i: Int64, mask: Num | None) -> None:
                    y.store(value([a.load(start + i, k.lanes, mask) for a in arrays], own), start + i, mask)

                k.for_each_vector(p.positions, line)
            return
        with k.range(p.positions) as place:
            start = place * p.channels + self.offset

            def channel(i: Int64, mask: Num | None) -> None:
                own = [one.load(i, k.lanes, mask) for one in coefficients]
                y.store(value([a.load(start + i, k.lanes, mask) for a in arrays], own), start + i, mask)

            self.for_each_vector(channel)


def _forward(k: KernelBuilder, p: GroupNormShape) -> None:
    x, gamma, beta, y = (k.pointer(i) for i in range(4))
    with k.range(k.first, k.last) as number:
        item = _GroupItem(k, p, number)
        item.statistics(x)
        scale, shift = item.scratch(_SCALE), item.scratch(_SHIFT)

        def coefficients(i: Int64, mask: Num | None) -> None:
            g, at = gamma.load(item.channel + i, k.lanes, mask), item.channel + i
            shift.store(beta.load(at, k.lanes, mask) - shift.load(i, k.lanes, mask) * g, i, mask)
            scale.store(scale.load(i, k.lanes, mask) * g, i, mask)

        item.for_each_vector(coefficients)
        item.store_map(
            [x], [item.scratch(_CENTER), scale, shift], y, lambda n, own: k.fma(n[0] - own[0], own[1], own[2])
        )


def _backward(k: KernelBuilder, p: GroupNormShape) -> None:
    """Arguments: g, x, gamma, dx; each item's shares of the gradients of gamma and beta go to shared scratch memory."""
    g, x, gamma, dx = (k.pointer(i) for i in range(4))
    with k.range(k.first, k.last) as number:
        item = _GroupItem(k, p, number)
        item.statistics(x)
        centre, scale, slope, level = (item.scratch(r) for r in (_CENTER, _SCALE, _NORMAL_MEAN, _SHIFT))
        ours, theirs = item.scratch(_SUMS), item.scratch(_SUMS + 1)

        def shares(numbers: Any, own: Any) -> list[Num]:
            return [numbers[0], numbers[0] * k.fma(numbers[1] - own[0], own[1], -own[2])]

        item.sum_channels([g, x], [centre, scale, level], shares, 2, p.positions)
        sums = k.shared.as_type("float32") + (item.sample * (2 * p.channels) + item.channel)

        def weighted(i: Int64, mask: Num | None) -> None:
            by_beta, by_gamma = ours.load(i, k.lanes, mask), theirs.load(i, k.lanes, mask)
            sums.store(by_gamma, i, mask)
            sums.store(by_beta, i + p.channels, mask)
            own = gamma.load(item.channel + i, k.lanes, mask)
            ours.store(by_beta * own, i, mask)
            theirs.store(by_gamma * own, i, mask)

        item.for_each_vector(weighted)

        def means(first: Int64, total: Any, put: Any) -> None:
            middle, steep = total(ours), total(theirs)
            put(_SUMS, middle)
            put(_NORMAL_MEAN, steep)

        item.for_each_group(p.positions, means)

        def value(n: Any, own: Any) -> Num:
            centre, factor, low, weight, middle, steep = own
            normal = k.fma(n[1] - centre, factor, -low)
            return k.fma(-normal, steep, k.fma(n[0], weight, -middle)) * factor

        item.store_map([g, x], [centre, scale, level, gamma + item.channel, ours, slope], dx, value)


def _sum_weight_grads(k: KernelBuilder, p: GroupNormShape) -> None:
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


def _group_norm_shape(x: Spec, others: Sequence[Spec], attrs: dict[str, Any]) -> GroupNormShape | None:
    if any((s.shape, s.layout) != (x.shape, x.layout) for s in others):
        return None
    n, c = x.shape[:2]
    size, places = c // attrs["groups"], prod(x.shape[2:])
    last = x.layout == CHANNELS_LAST or places == 1
    block = size
    if last:  # whole groups of some vectors of channels, so that a sample is several items
        block = min((b for b in range(size, c + 1, size) if c % b == 0 and b >= ITEM_CHANNELS), default=c)
    return GroupNormShape(n, c, places, size, block, last, attrs["eps"])


@native_kernel("group_norm")
def group_norm(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> TaskList | None:
    """Each group less its mean, over its deviation, times gamma, plus beta."""
    p = _group_norm_shape(ins[0], outs, attrs)
    if p is None or any(s.dtype != "float32" for s in ins):
        return None
    made, local = kernel_code(_forward, p), 4 * SCRATCH_ROWS * p.scratch_stride
    return TaskList(lambda i, o: [ParallelTask(made.address, (*i, *o), p.items, p.grain_size, local)])


@native_kernel("group_norm_grad")
def group_norm_grad(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> TaskList | None:
    """The gradients of x, gamma and beta."""
    p = _group_norm_shape(ins[1], (ins[0], outs[0]), attrs)
    if p is None or any(s.dtype != "float32" for s in ins):
        return None
    made, added, local, shared = (
        kernel_code(_backward, p),
        kernel_code(_sum_weight_grads, p),
        4 * SCRATCH_ROWS * p.scratch_stride,
        4 * 2 * p.channels * p.samples,
    )
    vectors = -(-p.channels // vector_lanes("float32"))
    return TaskList(lambda i, o: [ParallelTask(made.address, (*i, o[0]), p.items, p.grain_size, local, shared),
                               ParallelTask(added.address, tuple(o[1:]), vectors, vectors, 0, shared)])  # fmt: skip


register_channels_last("native", "follows", "group_norm", ins=(0,), outs=(0,))
register_channels_last("native", "follows", "group_norm_grad", ins=(0, 1), outs=(0,))
