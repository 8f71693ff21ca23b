"""Statistics of the groups of group normalization, in both layouts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from prototorch.engine.backends.cpu.native.cpu_features import vector_lanes
from prototorch.engine.backends.cpu.native.ir_builder import Int64, KernelBuilder, Num, Pointer
from prototorch.engine.backends.cpu.native.kernels.common.types import Index, Mask
from prototorch.engine.backends.cpu.native.kernels.norm.channel_stats import rsqrt, sum_line

__all__ = [
    "CENTER",
    "ITEM_CHANNELS",
    "NORMAL_MEAN",
    "SCALE",
    "SCRATCH_ROWS",
    "SHIFT",
    "SUMS",
    "GroupItem",
    "GroupNormShape",
]

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
SUMS, CENTER, SCALE, NORMAL_MEAN, SHIFT, SCRATCH_ROWS = 0, 2, 3, 4, 5, 6


class GroupItem:
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

    def sum_channels(
        self, arrays: Sequence[Pointer], coefficients: Sequence[Pointer], terms: Terms, count: int, positions: int
    ) -> None:
        """Sum ``terms(the arrays' elements, the channel's coefficients)`` over the first positions, for each
        channel, into the first rows."""
        (self._sums_last if self.p.is_channels_last else self._sums_plain)(
            arrays, coefficients, terms, count, positions
        )

    def _sums_plain(
        self, arrays: Sequence[Pointer], coefficients: Sequence[Pointer], terms: Any, count: int, positions: int
    ) -> None:
        k, p = self.k, self.p
        with k.range(p.item_channels) as c:
            factors = [one.load(c).splat(k.lanes) for one in coefficients]

            def line(i: Int64, mask: Mask) -> list[Num]:
                return terms([a.load(i, k.lanes, mask) for a in arrays], factors)

            totals = sum_line(k, c * p.positions + self.offset, positions, line, count)
            for j, total in enumerate(totals):
                self.scratch(SUMS + j).store(total, c)

    def _sums_last(
        self, arrays: Sequence[Pointer], coefficients: Sequence[Pointer], terms: Any, count: int, positions: int
    ) -> None:
        k, p = self.k, self.p

        def vectors(c: Index, num_vectors: int, mask: Mask) -> None:
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
                    self.scratch(SUMS + j).store(s.value, c + v * k.lanes, mask)

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
        """Compute rows of each channel's center, of the factor 1 / deviation, and (``SHIFT``) of the mean less the
        center times that factor.

        Deviations are taken from a center near the mean, the mean of a sample of the elements, so that one pass gives
        mean and variance. If the sample is one of ``share`` elements, its mean is within sqrt(share) deviations of the
        group's: rounding grows by that at most.
        """
        sample = max(self.p.positions // SAMPLE_STRIDE, 1)

        def centres(first: Int64, total: Any, put: Any) -> None:
            put(CENTER, total(self.scratch(SUMS)))

        def factors(first: Int64, total: Any, put: Any) -> None:
            low, squares = total(self.scratch(SUMS)), total(self.scratch(SUMS + 1))
            scale = rsqrt(self.k, self.k.maximum(squares - low * low, 0.0), self.p.eps)
            put(SCALE, scale)
            put(SHIFT, low * scale)

        def deviations(values: Any, row_factors: Any) -> list[Num]:
            deviation = values[0] - row_factors[0]
            return [deviation, deviation * deviation]

        self.sum_channels([x], [], lambda values, row_factors: [values[0]], 1, sample)
        self.for_each_group(sample, centres)
        self.sum_channels([x], [self.scratch(CENTER)], deviations, 2, self.p.positions)
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

                def line(i: Int64, mask: Mask) -> None:
                    y.store(value([a.load(start + i, k.lanes, mask) for a in arrays], factors), start + i, mask)

                k.for_each_vector(p.positions, line)
            return
        with k.range(p.positions) as position:
            start = position * p.channels + self.offset

            def channel(i: Int64, mask: Mask) -> None:
                factors = [one.load(i, k.lanes, mask) for one in coefficients]
                y.store(value([a.load(start + i, k.lanes, mask) for a in arrays], factors), start + i, mask)

            self.for_each_vector(channel)
