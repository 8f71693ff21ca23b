"""Group normalization in both layouts. Sums over each channel's elements go to the thread's scratch memory, are added
over each group, and become coefficients of the channel.

With channels last the lanes of vectors are channels; in the plain layout they are a channel's elements. A work item is
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

#: channels of a work item (channels last), vectors of channels summed together, and positions added to a sum before it
#: is added to another
ITEM_CHANNELS, VECTORS_TOGETHER, SUM_BLOCK = 64, 4, 64
#: the center is the mean of one of so many positions
SAMPLE_STRIDE = 16
#: elements of a piece
PIECE_ELEMENTS = 1 << 14

Terms = Callable[["Sequence[Num]", "Sequence[Num]"], "list[Num]"]


@dataclass(frozen=True)
class GroupNormShape:
    """``samples`` of ``channels`` with ``positions`` elements each, in groups of ``group_channels``; a work item
    does ``item_channels``."""

    samples: int
    channels: int
    positions: int
    group_channels: int
    item_channels: int
    is_channels_last: bool
    eps: float

    @property
    def scratch_stride(self) -> int:
        """Elements of a row of scratch memory: one for each channel of a work item, and room for a vector."""
        return self.item_channels + vector_lanes("float32")

    @property
    def items(self) -> int:
        """The number of work items."""
        return self.samples * (self.channels // self.item_channels)

    @property
    def grain_size(self) -> int:
        """Work items of a piece."""
        return max(PIECE_ELEMENTS // (self.item_channels * self.positions), 1)


#: rows of scratch memory, and their number
_SUMS, _CENTER, _SCALE, _NORMAL_MEAN, _SHIFT, SCRATCH_ROWS = 0, 2, 3, 4, 5, 6


class _GroupItem:
    """Some whole groups of a sample, from ``channel`` on."""

    def __init__(self, k: KernelBuilder, p: GroupNormShape, item: Int64):
        self.k, self.p = k, p
        blocks = p.channels // p.item_channels
        self.sample: Int64 = item // blocks
        self.channel: Int64 = item % blocks * p.item_channels
        sample_offset = self.sample * (p.channels * p.positions)
        self.offset: Any = sample_offset + (self.channel if p.is_channels_last else self.channel * p.positions)

    def scratch(self, row: int) -> Pointer:
        """Return a row of scratch memory: one element for each channel."""
        return self.k.local.as_type("float32") + row * self.p.scratch_stride

    def sum_channels(self, arrays: Sequence[Pointer], coefficients: Sequence[Pointer], terms: Terms, count: int,
             positions: int) -> None:  # fmt: skip
        """Sum ``terms(the arrays' elements, the channel's coefficients)`` over the first positions, for each
        channel, into the first rows."""
        (self._sums_last if self.p.is_channels_last else self._sums_plain)(
            arrays, coefficients, terms, count, positions
        )

    def _sums_plain(self, arrays: Sequence[Pointer], coefficients: Sequence[Pointer], terms: Any, count: int,
                    positions: int) -> None:  # fmt: skip
        k, p = self.k, self.p
        with k.range(p.item_channels) as c:
            factors = [one.load(c).splat(k.lanes) for one in coefficients]

            def line(i: Int64, mask: Num | None) -> list[Num]:
                return terms([a.load(i, k.lanes, mask) for a in arrays], factors)

            totals = sum_line(k, c * p.positions + self.offset, positions, line, count)
            for j, total in enumerate(totals):
                self.scratch(_SUMS + j).store(total, c)

    def _sums_last(self, arrays: Sequence[Pointer], coefficients: Sequence[Pointer], terms: Any, count: int,
                   positions: int) -> None:  # fmt: skip
        k, p = self.k, self.p

        def vectors(c: Any, num_vectors: int, mask: Num | None) -> None:
            factors = [[one.load(c + v * k.lanes, k.lanes, mask) for one in coefficients] for v in range(num_vectors)]
            totals = [[k.variable(k.zero(k.lanes)) for _ in range(count)] for _ in range(num_vectors)]
            with k.range(0, positions, SUM_BLOCK) as first:
                block_sums = [[k.variable(k.zero(k.lanes)) for _ in range(count)] for _ in range(num_vectors)]
                with k.range(first, (first + SUM_BLOCK).minimum(positions)) as position:
                    for v in range(num_vectors):
                        at = position * p.channels + c + v * k.lanes + self.offset
                        values = terms([a.load(at, k.lanes, mask) for a in arrays], factors[v])
                        for s, value in zip(block_sums[v], values, strict=True):
                            s.value = s.value + value
                for a, b in zip(totals, block_sums, strict=True):
                    for s, t in zip(a, b, strict=True):
                        s.value = s.value + t.value
            for v in range(num_vectors):
                for j, s in enumerate(totals[v]):
                    self.scratch(_SUMS + j).store(s.value, c + v * k.lanes, mask)

        main_end = p.item_channels - p.item_channels % (VECTORS_TOGETHER * k.lanes)
        with k.range(0, main_end, VECTORS_TOGETHER * k.lanes) as c:
            vectors(c, VECTORS_TOGETHER, None)
        k.for_each_vector(p.item_channels - main_end, lambda i, mask: vectors(i + main_end, 1, mask))

    def for_each_group(
        self, positions: int, work: Callable[[Int64, Callable[[Pointer], Num], Callable[[int, Num], None]], None]
    ) -> None:
        """Emit ``work(first channel, mean, put)`` for each group: ``mean(row)`` is the mean over the group of sums
        over so many positions; ``put(row, value)`` sets a coefficient of all its channels."""
        k, p = self.k, self.p

        def total(row: Pointer, first: Int64) -> Num:
            (group_sum,) = sum_line(k, first, p.group_channels, lambda i, mask: [row.load(i, k.lanes, mask)], 1)
            return group_sum * (1.0 / (p.group_channels * positions))

        def put(row: int, first: Int64, value: Num) -> None:
            to = self.scratch(row) + first
            k.for_each_vector(p.group_channels, lambda i, mask: to.store(value.splat(k.lanes), i, mask))

        with k.range(0, p.item_channels, p.group_channels) as first:
            work(first, lambda row: total(row, first), lambda row, value: put(row, first, value))

    def statistics(self, x: Pointer) -> None:
        """Compute rows of each channel's center, of the factor 1 / deviation, and (``_SHIFT``) of the mean less the
        center times that factor.

        Deviations are taken from a center near the mean, the mean of a sample of the elements, so that one pass gives
        mean and variance. If the sample is one of ``share`` elements, its mean is within sqrt(share) deviations of the
        group's: rounding grows by that at most.
        """
        sample = max(self.p.positions // SAMPLE_STRIDE, 1)

        def centres(first: Int64, total: Any, put: Any) -> None:
            put(_CENTER, total(self.scratch(_SUMS)))

        def factors(first: Int64, total: Any, put: Any) -> None:
            low, squares = total(self.scratch(_SUMS)), total(self.scratch(_SUMS + 1))
            scale = rsqrt(self.k, self.k.maximum(squares - low * low, 0.0), self.p.eps)
            put(_SCALE, scale)
            put(_SHIFT, low * scale)

        def distances(numbers: Any, row_factors: Any) -> list[Num]:
            deviation = numbers[0] - row_factors[0]
            return [deviation, deviation * deviation]

        self.sum_channels([x], [], lambda numbers, row_factors: [numbers[0]], 1, sample)
        self.for_each_group(sample, centres)
        self.sum_channels([x], [self.scratch(_CENTER)], distances, 2, self.p.positions)
        self.for_each_group(self.p.positions, factors)

    def for_each_vector(self, work: Callable[[Int64, Num | None], None]) -> None:
        """Emit ``work(first, mask)`` for vectors of the item's channels."""
        self.k.for_each_vector(self.p.item_channels, work)

    def store_map(self, arrays: Sequence[Pointer], coefficients: Sequence[Pointer], y: Pointer, value: Any) -> None:
        """Store ``value(the arrays' elements, the channel's coefficients)`` everywhere."""
        k, p = self.k, self.p
        if not p.is_channels_last:
            with k.range(p.item_channels) as c:
                factors = [one.load(c).splat(k.lanes) for one in coefficients]
                start = c * p.positions + self.offset

                def line(i: Int64, mask: Num | None) -> None:
                    y.store(value([a.load(start + i, k.lanes, mask) for a in arrays], factors), start + i, mask)

                k.for_each_vector(p.positions, line)
            return
        with k.range(p.positions) as position:
            start = position * p.channels + self.offset

            def channel(i: Int64, mask: Num | None) -> None:
                factors = [one.load(i, k.lanes, mask) for one in coefficients]
                y.store(value([a.load(start + i, k.lanes, mask) for a in arrays], factors), start + i, mask)

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
    """Arguments: g, x, gamma, dx; each work item's parts of the gradients of gamma and beta go to shared scratch
    memory."""
    g, x, gamma, dx = (k.pointer(i) for i in range(4))
    with k.range(k.first, k.last) as number:
        item = _GroupItem(k, p, number)
        item.statistics(x)
        centre, scale, normal_mean, level = (item.scratch(r) for r in (_CENTER, _SCALE, _NORMAL_MEAN, _SHIFT))
        sum_of_grads, sum_of_products = item.scratch(_SUMS), item.scratch(_SUMS + 1)

        def shares(numbers: Any, factors: Any) -> list[Num]:
            return [numbers[0], numbers[0] * k.fma(numbers[1] - factors[0], factors[1], -factors[2])]

        item.sum_channels([g, x], [centre, scale, level], shares, 2, p.positions)
        sums = k.shared.as_type("float32") + (item.sample * (2 * p.channels) + item.channel)

        def store_weighted(i: Int64, mask: Num | None) -> None:
            by_beta, by_gamma = sum_of_grads.load(i, k.lanes, mask), sum_of_products.load(i, k.lanes, mask)
            sums.store(by_gamma, i, mask)
            sums.store(by_beta, i + p.channels, mask)
            factors = gamma.load(item.channel + i, k.lanes, mask)
            sum_of_grads.store(by_beta * factors, i, mask)
            sum_of_products.store(by_gamma * factors, i, mask)

        item.for_each_vector(store_weighted)

        def means(first: Int64, total: Any, put: Any) -> None:
            mean_grad, mean_product = total(sum_of_grads), total(sum_of_products)
            put(_SUMS, mean_grad)
            put(_NORMAL_MEAN, mean_product)

        item.for_each_group(p.positions, means)

        def value(n: Any, factors: Any) -> Num:
            centre, factor, low, weight, mean_grad, mean_product = factors
            normal = k.fma(n[1] - centre, factor, -low)
            return k.fma(-normal, mean_product, k.fma(n[0], weight, -mean_grad)) * factor

        item.store_map([g, x], [centre, scale, level, gamma + item.channel, sum_of_grads, normal_mean], dx, value)


def _sum_weight_grads(k: KernelBuilder, p: GroupNormShape) -> None:
    """Sum the gradients of gamma and beta over all samples, in order. Work items are vectors of channels."""
    outputs, shares = (k.pointer(0), k.pointer(1)), k.shared.as_type("float32")
    with k.range(k.first, k.last) as item:
        i = item * k.lanes
        mask = k.mask((p.channels - i).minimum(k.lanes), k.lanes)
        for position, y in enumerate(outputs):
            total = k.variable(k.zero(k.lanes))
            with k.range(p.samples) as sample:
                at = (sample * 2 + position) * p.channels + i
                total.value = total.value + shares.load(at, k.lanes, mask)
            y.store(total.value, i, mask)


def _group_norm_shape(x: Spec, others: Sequence[Spec], attrs: dict[str, Any]) -> GroupNormShape | None:
    if any((s.shape, s.layout) != (x.shape, x.layout) for s in others):
        return None
    n, c = x.shape[:2]
    size, positions = c // attrs["groups"], prod(x.shape[2:])
    last = x.layout == CHANNELS_LAST or positions == 1
    block = size
    if last:  # whole groups of some vectors of channels: several work items a sample
        block = min((b for b in range(size, c + 1, size) if c % b == 0 and b >= ITEM_CHANNELS), default=c)
    return GroupNormShape(n, c, positions, size, block, last, attrs["eps"])


@native_kernel("group_norm")
def group_norm(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> TaskList | None:
    """(x - mean) / deviation * gamma + beta, over each group."""
    p = _group_norm_shape(ins[0], outs, attrs)
    if p is None or any(s.dtype != "float32" for s in ins):
        return None
    kernel, local = kernel_code(_forward, p), 4 * SCRATCH_ROWS * p.scratch_stride
    return TaskList(lambda i, o: [ParallelTask(kernel.address, (*i, *o), p.items, p.grain_size, local)])


@native_kernel("group_norm_grad")
def group_norm_grad(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> TaskList | None:
    """The gradients of x, gamma and beta."""
    p = _group_norm_shape(ins[1], (ins[0], outs[0]), attrs)
    if p is None or any(s.dtype != "float32" for s in ins):
        return None
    kernel, sum_grads, local, shared = (
        kernel_code(_backward, p),
        kernel_code(_sum_weight_grads, p),
        4 * SCRATCH_ROWS * p.scratch_stride,
        4 * 2 * p.channels * p.samples,
    )
    vectors = -(-p.channels // vector_lanes("float32"))
    return TaskList(lambda i, o: [ParallelTask(kernel.address, (*i, o[0]), p.items, p.grain_size, local, shared),
                               ParallelTask(sum_grads.address, tuple(o[1:]), vectors, vectors, 0, shared)])  # fmt: skip


register_channels_last("native", "follows", "group_norm", ins=(0,), outs=(0,))
register_channels_last("native", "follows", "group_norm_grad", ins=(0, 1), outs=(0,))
