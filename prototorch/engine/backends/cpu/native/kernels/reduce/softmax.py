"""Softmax and the losses built on it, along the last axis of memory: row by row, while the row is in the cache.

The row's maximum is subtracted before the exponentials. Sums of a row are taken lane by lane and then over the lanes:
their error grows with n / lanes, not with n.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from prototorch.engine.backends.capabilities import register_channels_last
from prototorch.engine.backends.cpu.native import exp_log
from prototorch.engine.backends.cpu.native.ir_builder import Int64, KernelBuilder, Num, Pointer, UnsupportedError
from prototorch.engine.backends.cpu.native.kernel_api import KernelCode, TaskList, kernel_code, native_kernel
from prototorch.engine.backends.cpu.native.kernels.common.types import Attrs, Mask, Specs
from prototorch.engine.backends.cpu.native.kernels.reduce.softmax_strided import column_tasks, split_at_axis
from prototorch.engine.backends.cpu.native.thread_pool import ParallelTask
from prototorch.ops.reduce import normalize_axes

__all__ = ["sum_row"]

#: elements of a piece of rows
PIECE_ELEMENTS = 1 << 14
_LABEL_TYPES = ("int32", "int64", "uint8", "uint32")


def row_shape(shape: tuple[int, ...], axis: int = -1) -> tuple[int, int]:
    """Return the number of rows and their length. Raises UnsupportedError if the axis is not the last of memory."""
    if not shape or prod(shape[normalize_axes(axis, len(shape))[0] + 1 :]) != 1:
        raise UnsupportedError("an axis that is not the last")
    n = shape[normalize_axes(axis, len(shape))[0]]
    return prod(shape) // n, n


def row_tasks(kernel: KernelCode, rows: int, n: int) -> TaskList:
    """Return the tasks of a kernel whose work items are rows and whose arguments are the addresses alone."""
    grain = rows if rows * n <= PIECE_ELEMENTS else max(PIECE_ELEMENTS // n, 1)
    return TaskList(lambda i, o: [ParallelTask(kernel.address, (*i, *o), rows, grain)])


def row_max(k: KernelBuilder, x: Pointer, n: int) -> Num:
    """Return the maximum of a row, in one lane. A NaN may be skipped: the exponentials of the row are NaN all the
    same."""
    best = k.variable(k.num(float("-inf")).splat(k.lanes))

    def body(i: Int64, mask: Mask) -> None:
        value, best_now = x.load(i, k.lanes, mask), best.value
        larger = value > best_now
        best.value = k.select(larger if mask is None else larger & mask, value, best_now)

    k.for_each_vector(n, body)
    return k.reduce_max(best.value)


def sum_row(k: KernelBuilder, n: int, value: Callable[[Int64, Num | None], Num]) -> Num:
    """Return the sum of a row of values."""
    total = k.variable(k.zero(k.lanes))

    def body(i: Int64, mask: Mask) -> None:
        term = value(i, mask)
        total.value = total.value + (term if mask is None else k.select(mask, term, k.zero(k.lanes)))

    k.for_each_vector(n, body)
    return k.reduce_add(total.value)


def exp_row(k: KernelBuilder, x: Pointer, y: Pointer | None, n: int, shift: Num) -> Num:
    """Store y = exp(x - shift) and return its sum."""

    def value(i: Int64, mask: Mask) -> Num:
        e = exp_log.exp(k, x.load(i, k.lanes, mask) - shift)
        if y is not None:
            y.store(e, i, mask)
        return e

    return sum_row(k, n, value)


def _softmax(k: KernelBuilder, n: int) -> None:
    with k.range(k.first, k.last) as row:
        x, y = k.pointer(0) + row * n, k.pointer(1) + row * n
        factor = k.num(1.0) / exp_row(k, x, y, n, row_max(k, x, n))
        k.for_each_vector(n, lambda i, mask: y.store(y.load(i, k.lanes, mask) * factor, i, mask))


def _softmax_grad(k: KernelBuilder, n: int) -> None:
    with k.range(k.first, k.last) as row:
        g, y, dx = (k.pointer(i) + row * n for i in range(3))
        dot = sum_row(k, n, lambda i, mask: g.load(i, k.lanes, mask) * y.load(i, k.lanes, mask))
        k.for_each_vector(
            n, lambda i, mask: dx.store((g.load(i, k.lanes, mask) - dot) * y.load(i, k.lanes, mask), i, mask)
        )


def _log_softmax(k: KernelBuilder, n: int) -> None:
    with k.range(k.first, k.last) as row:
        x, y = k.pointer(0) + row * n, k.pointer(1) + row * n
        high = row_max(k, x, n)
        rest = exp_log.log(k, exp_row(k, x, None, n, high))
        k.for_each_vector(n, lambda i, mask: y.store((x.load(i, k.lanes, mask) - high) - rest, i, mask))


def _register(name: str, body: Callable[..., None]) -> None:
    @native_kernel(name)
    def prepare(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList | None:
        if any(s.dtype != "float32" or (s.shape, s.layout) != (outs[0].shape, outs[0].layout) for s in (*ins, *outs)):
            return None
        outer, n, inner = split_at_axis(outs[0], attrs.get("axis", -1))
        return row_tasks(kernel_code(body, n), outer, n) if inner == 1 else column_tasks(name, outer, n, inner)

    register_channels_last("native", "follows", name)


_register("softmax", _softmax)
_register("softmax_grad", _softmax_grad)
_register("log_softmax", _log_softmax)


def load_label(k: KernelBuilder, labels: Pointer, row: Int64, n: int) -> tuple[Int64, Num]:
    """Return the label of a row, and whether it is one of 0 ... n - 1."""
    label = labels.load(row).to_int64()
    return label, (label >= 0) & (label < n)


def _cross_entropy(k: KernelBuilder, n: int, kind: str) -> None:
    labels, loss = k.pointer(1, kind), k.pointer(2)
    with k.range(k.first, k.last) as row:
        x = k.pointer(0) + row * n
        high = row_max(k, x, n)
        rest = exp_log.log(k, exp_row(k, x, None, n, high))
        label, is_valid = load_label(k, labels, row, n)
        inside = Int64(k, k.b.select(is_valid.v, label.v, k.word(0)))
        loss.store(k.select(is_valid, rest - (x.load(inside) - high), k.num(float("nan"))), row)


def _cross_entropy_grad(k: KernelBuilder, n: int, kind: str) -> None:
    labels = k.pointer(2, kind)
    with k.range(k.first, k.last) as row:
        x, dx = k.pointer(1) + row * n, k.pointer(3) + row * n
        g = k.pointer(0).load(row)
        factor = k.num(1.0) / exp_row(k, x, dx, n, row_max(k, x, n))
        label, is_valid = load_label(k, labels, row, n)
        label_index = k.select(is_valid, k.num(label, "int32"), k.num(-1, "int32"))

        def body(i: Int64, mask: Mask) -> None:
            probability = dx.load(i, k.lanes, mask) * factor
            hit = k.iota(k.lanes) + k.num(i, "int32").splat(k.lanes) == label_index.splat(k.lanes)
            dx.store(k.select(hit, probability - 1.0, probability) * g, i, mask)

        k.for_each_vector(n, body)


@native_kernel("sparse_softmax_cross_entropy")
def sparse_softmax_cross_entropy(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList | None:
    """log(sum(exp(x - max))) - (x[label] - max); NaN for a label out of range."""
    x, labels = ins
    if x.dtype != "float32" or labels.dtype not in _LABEL_TYPES:
        return None
    rows, n = row_shape(x.shape)
    return row_tasks(kernel_code(_cross_entropy, n, labels.dtype), rows, n)


@native_kernel("sparse_softmax_cross_entropy_grad")
def sparse_softmax_cross_entropy_grad(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList | None:
    """The softmax less 1 at the label, times g."""
    g, x, labels = ins
    if (g.dtype, x.dtype) != ("float32", "float32") or labels.dtype not in _LABEL_TYPES or x.shape[-1] >= 1 << 31:
        return None
    rows, n = row_shape(x.shape)
    return row_tasks(kernel_code(_cross_entropy_grad, n, labels.dtype), rows, n)
