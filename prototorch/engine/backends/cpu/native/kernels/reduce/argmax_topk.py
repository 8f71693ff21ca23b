"""Argmax, argmin and top-k. Argmax returns the first of equals and ranks NaN above all; top-k ranks NaN below all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import prod

from prototorch.engine.backends.capabilities import register_channels_last
from prototorch.engine.backends.cpu.native.ir_builder import Int64, KernelBuilder, Num, Pointer
from prototorch.engine.backends.cpu.native.kernel_api import TaskList, kernel_code, native_kernel
from prototorch.engine.backends.cpu.native.kernels.common.elementwise import memory_order
from prototorch.engine.backends.cpu.native.kernels.common.types import Attrs, Index, Mask, Specs
from prototorch.engine.backends.cpu.native.thread_pool import ParallelTask
from prototorch.engine.backends.cpu.native.trig import any_lane
from prototorch.ops.reduce import normalize_axes

PIECE = 1 << 14


class _RunningBest:
    """The best value so far in each lane, and its index."""

    def __init__(self, k: KernelBuilder, largest: bool):
        self.k, self.sign = k, ">" if largest else "<"
        self.value = k.variable(k.num(float("-inf" if largest else "inf")).splat(k.lanes))
        self.index = k.variable(k.num(-1, "int32").splat(k.lanes))

    def is_better(self, a: Num, b: Num) -> Num:
        """Whether a replaces b, where a comes later."""
        return a.compare(self.sign, b) | ((a != a) & (b == b))

    def update(self, x: Num, index: Num, mask: Mask) -> None:
        """Take values at an index above all earlier ones."""
        best = self.value.value
        wins = self.is_better(x, best) | (self.index.value < 0)
        wins = wins if mask is None else wins & mask
        self.value.value = self.k.select(wins, x, best)
        self.index.value = self.k.select(wins, index, self.index.value)

    def reduce_lanes(self) -> Num:
        """Return the index of the best of all lanes."""
        number, index, lanes = self.value.value, self.index.value, self.k.lanes
        while lanes > 1:
            lanes //= 2
            a, b = self.k.slice_lanes(number, 0, lanes), self.k.slice_lanes(number, lanes, lanes)
            i, j = self.k.slice_lanes(index, 0, lanes), self.k.slice_lanes(index, lanes, lanes)
            same = (a == b) | ((a != a) & (b != b))
            second = ((same & (j < i)) | (self.is_better(b, a)) | (i < 0)) & (j >= 0)
            number, index = self.k.select(second, b, a), self.k.select(second, j, i)
        return index


def _argmax(k: KernelBuilder, n: int, inner: int, largest: bool) -> None:
    """x [outer, n, inner]; work items are outer indices."""
    with k.range(k.first, k.last) as item:
        x, out = k.pointer(0) + item * (n * inner), k.pointer(1, "int32") + item * inner
        if inner == 1:
            _argmax_contiguous(k, x, out, n, largest)
        else:
            k.for_each_vector(inner, lambda i, mask: _argmax_strided(k, x + i, out + i, n, inner, largest, mask))


def _argmax_contiguous(k: KernelBuilder, x: Pointer, out: Pointer, n: int, largest: bool) -> None:
    best = _RunningBest(k, largest)

    def body(i: Int64, mask: Mask) -> None:
        best.update(x.load(i, k.lanes, mask), k.num(i, "int32").splat(k.lanes) + k.iota(k.lanes), mask)

    k.for_each_vector(n, body)
    out.store(best.reduce_lanes())


def _argmax_strided(k: KernelBuilder, x: Pointer, out: Pointer, n: int, inner: int, largest: bool, mask: Mask) -> None:
    best = _RunningBest(k, largest)
    with k.range(n) as i:
        best.update(x.load(i * inner, k.lanes, mask), k.num(i, "int32").splat(k.lanes), mask)
    out.store(best.index.value, 0, mask)


def _register(name: str) -> None:
    @native_kernel(name)
    def prepare(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList | None:
        (x,) = ins
        (axis,) = normalize_axes(attrs["axis"], x.ndim)
        if x.dtype != "float32" or x.size >= 1 << 31:
            return None
        shape = memory_order(x.shape, x.layout)
        axis_position = memory_order(tuple(range(x.ndim)), x.layout).index(axis)
        if x.layout is not None and axis != 1 and prod(x.shape[2:]) != 1:
            return None  # the result's memory would have another order
        outer, n, inner = prod(shape[:axis_position]), shape[axis_position], prod(shape[axis_position + 1 :])
        kernel = kernel_code(_argmax, n, inner, name == "argmax")
        grain = outer if x.size <= PIECE else max(PIECE // (n * inner), 1)
        return TaskList(lambda i, o: [ParallelTask(kernel.address, (*i, *o), outer, grain)])


def _top_k(k: KernelBuilder, n: int, count: int) -> None:
    """Insertion into the outputs themselves, in falling order. A vector with no element above the last of them is
    skipped."""
    lanes = k.lanes
    while lanes > 2 and lanes // 2 >= n:
        lanes //= 2
    with k.range(k.first, k.last) as row:
        x, best, index = k.pointer(0) + row * n, k.pointer(1) + row * count, k.pointer(2, "int32") + row * count
        with k.range(count) as j:
            best.store(k.num(float("nan")), j)
            index.store(k.num(-1, "int32"), j)

        def better(value: Num, j: Index) -> Num:
            current = best.load(j).splat(value.lanes)
            empty = (index.load(j) < 0).splat(value.lanes)
            return (value > current) | ((current != current) & (value == value)) | empty

        def put(i: Int64) -> None:
            value, at = x.load(i), k.variable(k.num(count - 1, "int64").to_int64())

            def should_shift() -> Num:
                """Whether the element before the insertion point is to be moved behind it."""
                return (at.value > 0) & better(value, (at.value - 1).maximum(0))

            with _while_loop(k, should_shift):
                previous, position = at.value - 1, at.value
                best.store(best.load(previous), position)
                index.store(index.load(previous), position)
                at.value = previous
            best.store(value, at.value)
            index.store(k.num(i, "int32"), at.value)

        def body(i: Int64, mask: Mask) -> None:
            wins = better(x.load(i, lanes, mask), count - 1)
            with k.if_then(any_lane(k, wins if mask is None else wins & mask)):
                end = (i + lanes).minimum(n) if mask is not None else i + lanes
                with k.range(i, end) as one, k.if_then(better(x.load(one), count - 1)):
                    put(one)

        k.for_each_vector(n, body, lanes)


@contextmanager
def _while_loop(k: KernelBuilder, holds: Callable[[], Num]) -> Iterator[None]:
    """Emit a while loop around what is emitted inside."""
    head, inner, after = (k.function.append_basic_block(name) for name in ("while", "again", "done"))
    k.b.branch(head)
    k.b.position_at_end(head)
    k.b.cbranch(holds().v, inner, after)
    k.b.position_at_end(inner)
    yield
    k.b.branch(head)
    k.b.position_at_end(after)


@native_kernel("top_k")
def top_k(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList | None:
    """The largest along the last axis and their indices."""
    x = ins[0]
    if x.dtype != "float32" or x.shape[-1] >= 1 << 31 or attrs["k"] > 64:
        return None
    n = x.shape[-1]
    kernel, rows = kernel_code(_top_k, n, attrs["k"]), x.size // n
    return TaskList(
        lambda i, o: [ParallelTask(kernel.address, (*i, *o), rows, rows if x.size <= PIECE else max(PIECE // n, 1))]
    )


_register("argmax")
_register("argmin")
register_channels_last(
    "native", "follows", "argmax", "argmin", when=lambda ins, attrs: attrs["axis"] in (1, 1 - ins[0].ndim)
)
