"""Softmax along an axis that is not the last in memory: each lane is a softmax of its own, some vectors at a time."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from prototorch.engine.backends.cpu.native import exp_log
from prototorch.engine.backends.cpu.native.ir_builder import Int64, KernelBuilder, Num, Pointer
from prototorch.engine.backends.cpu.native.kernel_api import TaskList, kernel_code
from prototorch.engine.backends.cpu.native.kernels.common.elementwise import memory_order
from prototorch.engine.backends.cpu.native.kernels.common.types import Index, Mask
from prototorch.engine.backends.cpu.native.thread_pool import ParallelTask
from prototorch.ops.reduce import normalize_axes
from prototorch.spec import Spec

__all__ = ["column_tasks", "split_at_axis"]

#: elements of a piece, columns of a work item, and vectors done together
PIECE_ELEMENTS, BLOCK_COLUMNS, VECTORS_TOGETHER = 1 << 14, 256, 4

#: (accumulators, elements of a step) -> accumulators
AccumulateStep = Callable[[Num, list[Num]], Num]


def split_at_axis(x: Spec, axis: int) -> tuple[int, int, int]:
    """Return the product of the sizes outside of an axis, its size, and the product of those inside, in memory."""
    (axis,) = normalize_axes(axis, x.ndim)
    shape = memory_order(x.shape, x.layout)
    axis_position = memory_order(tuple(range(x.ndim)), x.layout).index(axis)
    return prod(shape[:axis_position]), shape[axis_position], prod(shape[axis_position + 1 :])


class _SoftmaxColumns:
    """Some adjacent vectors of columns, each over all steps of the axis."""

    def __init__(self, k: KernelBuilder, n: int, inner: int, at: Index, vectors: int, mask: Mask):
        self.k, self.n, self.inner, self.offset, self.vectors, self.mask = k, n, inner, at, vectors, mask

    def load(self, p: Pointer, step: Index, v: int) -> Num:
        """Load a vector of one step of the axis."""
        return p.load(step * self.inner + self.offset + v * self.k.lanes, self.k.lanes, self.mask)

    def store(self, p: Pointer, value: Num, step: Index, v: int) -> None:
        """Store a vector of one step of the axis."""
        p.store(value, step * self.inner + self.offset + v * self.k.lanes, self.mask)

    def accumulate(self, start: float, work: Callable[[Any, int, Num], Num]) -> list[Num]:
        """Return, for each vector, what ``work(step, vector, so far)`` makes of ``start`` after all steps."""
        accumulators = [self.k.variable(self.k.num(start).splat(self.k.lanes)) for _ in range(self.vectors)]
        with self.k.range(self.n) as step:
            for v, one in enumerate(accumulators):
                one.value = work(step, v, one.value)
        return [one.value for one in accumulators]

    def column_max(self, x: Pointer) -> list[Num]:
        """Return the maximum of each column; a NaN may be skipped, since the exponentials of the column are NaN all
        the same."""

        def larger(step: Index, v: int, best: Num) -> Num:
            value = self.load(x, step, v)
            return self.k.select(value > best, value, best)

        return self.accumulate(float("-inf"), larger)

    def store_map(self, y: Pointer, work: Callable[[Any, int], Num]) -> None:
        """Store ``work(step, vector)`` everywhere."""
        with self.k.range(self.n) as step:
            for v in range(self.vectors):
                self.store(y, work(step, v), step, v)


def _softmax(k: KernelBuilder, c: _SoftmaxColumns) -> None:
    x, y = k.pointer(0), k.pointer(1)
    high = c.column_max(x)

    def power(step: Index, v: int, total: Num) -> Num:
        e = exp_log.exp(k, c.load(x, step, v) - high[v])
        c.store(y, e, step, v)
        return total + e

    share = [k.num(1.0) / total for total in c.accumulate(0.0, power)]
    c.store_map(y, lambda step, v: c.load(y, step, v) * share[v])


def _log_softmax(k: KernelBuilder, c: _SoftmaxColumns) -> None:
    x, y = k.pointer(0), k.pointer(1)
    high = c.column_max(x)
    total = c.accumulate(0.0, lambda step, v, so_far: so_far + exp_log.exp(k, c.load(x, step, v) - high[v]))
    rest = [exp_log.log(k, t) for t in total]
    c.store_map(y, lambda step, v: (c.load(x, step, v) - high[v]) - rest[v])


def _softmax_grad(k: KernelBuilder, c: _SoftmaxColumns) -> None:
    g, y, dx = (k.pointer(i) for i in range(3))
    dot = c.accumulate(0.0, lambda step, v, total: k.fma(c.load(g, step, v), c.load(y, step, v), total))
    c.store_map(dx, lambda step, v: (c.load(g, step, v) - dot[v]) * c.load(y, step, v))


_BODIES = {"softmax": _softmax, "log_softmax": _log_softmax, "softmax_grad": _softmax_grad}


def _emit_columns(k: KernelBuilder, name: str, n: int, inner: int) -> None:
    """Work items are outer indices and blocks of columns."""
    blocks = -(-inner // BLOCK_COLUMNS)
    with k.range(k.first, k.last) as item:
        column: Int64 = item % blocks * BLOCK_COLUMNS
        at = item // blocks * (n * inner) + column
        num_columns: Index = (inner - column).minimum(BLOCK_COLUMNS) if blocks > 1 else inner
        main_end = num_columns - num_columns % (VECTORS_TOGETHER * k.lanes)
        with k.range(0, main_end, VECTORS_TOGETHER * k.lanes) as i:
            _BODIES[name](k, _SoftmaxColumns(k, n, inner, at + i, VECTORS_TOGETHER, None))
        k.for_each_vector(
            num_columns - main_end,
            lambda i, mask: _BODIES[name](k, _SoftmaxColumns(k, n, inner, at + main_end + i, 1, mask)),
        )


def column_tasks(name: str, outer: int, n: int, inner: int) -> TaskList:
    """Return the tasks of ``softmax``, ``log_softmax`` or ``softmax_grad`` of [outer, n, inner] along the middle
    axis."""
    kernel, items = kernel_code(_emit_columns, name, n, inner), outer * -(-inner // BLOCK_COLUMNS)
    grain = items if outer * n * inner <= PIECE_ELEMENTS else max(PIECE_ELEMENTS // (n * min(inner, BLOCK_COLUMNS)), 1)
    return TaskList(lambda i, o: [ParallelTask(kernel.address, (*i, *o), items, grain)])
