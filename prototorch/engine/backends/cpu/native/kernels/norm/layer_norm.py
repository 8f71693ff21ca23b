"""Layer normalization over the last axes: each row is finished while it is in the cache. Sums over rows (the
gradients of gamma and beta) are computed in pieces of rows, which a second task adds in order."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from prototorch.engine.backends.capabilities import register_channels_last
from prototorch.engine.backends.cpu.native.cpu_features import vector_lanes
from prototorch.engine.backends.cpu.native.ir_builder import Int64, KernelBuilder, Num, Pointer, UnsupportedError
from prototorch.engine.backends.cpu.native.kernel_api import CHANNELS_LAST, TaskList, kernel_code, native_kernel
from prototorch.engine.backends.cpu.native.kernels.common.memory import clear
from prototorch.engine.backends.cpu.native.kernels.common.types import Attrs, Index, Mask, Specs
from prototorch.engine.backends.cpu.native.kernels.norm.channel_stats import rsqrt, sum_line
from prototorch.engine.backends.cpu.native.thread_pool import ParallelTask
from prototorch.ops.reduce import normalize_axes
from prototorch.spec import Spec

PIECE_ELEMENTS = 1 << 14


@dataclass(frozen=True)
class NormalizedRows:
    """The number of rows, their length, and the epsilon added to the variance."""

    count: int
    length: int
    eps: float

    @property
    def piece_rows(self) -> int:
        """The number of rows that one task normalizes, at least one."""
        return max(PIECE_ELEMENTS // self.length, 1)

    @property
    def num_pieces(self) -> int:
        """The number of pieces of the rows."""
        return -(-self.count // self.piece_rows)


def _statistics(k: KernelBuilder, r: NormalizedRows, x: Pointer, at: Int64) -> tuple[Num, Num, Num]:
    """Return a row's rounded mean, the scale 1 / deviation, and the shift that corrects the rounding of the mean:
    the normalized value is (x - mean) * scale + shift. Two passes."""
    (total,) = sum_line(k, at, r.length, lambda i, mask: [x.load(i, k.lanes, mask)], 1)
    mean = total * (1.0 / r.length)

    def distance(i: Int64, mask: Mask) -> list[Num]:
        deviation = x.load(i, k.lanes, mask) - mean
        return [deviation, deviation * deviation]

    low, squares = (s * (1.0 / r.length) for s in sum_line(k, at, r.length, distance, 2))
    scale = rsqrt(k, squares - low * low, r.eps)
    return mean, scale, -(low * scale)


def _forward(k: KernelBuilder, r: NormalizedRows) -> None:
    x, gamma, beta, y = (k.pointer(i) for i in range(4))

    def row(at: Int64) -> None:
        mean, scale, shift = _statistics(k, r, x, at)

        def store_row(i: Int64, mask: Mask) -> None:
            normal = k.fma(x.load(at + i, k.lanes, mask) - mean, scale, shift.splat(k.lanes))
            y.store(k.fma(normal, gamma.load(i, k.lanes, mask), beta.load(i, k.lanes, mask)), at + i, mask)

        k.for_each_vector(r.length, store_row)

    with k.range(k.first, k.last) as i:
        row(i * r.length)


def _partial_sums(k: KernelBuilder, r: NormalizedRows, piece: Index) -> tuple[Pointer, Pointer]:
    """Return the addresses of a piece's gradients of gamma and beta."""
    address = k.shared.as_type("float32") + piece * (2 * r.length)
    return address, address + r.length


def _backward(k: KernelBuilder, r: NormalizedRows) -> None:
    """Work items are pieces of rows."""
    g, x, gamma, dx = (k.pointer(i) for i in range(4))
    with k.range(k.first, k.last) as piece:
        sums = _partial_sums(k, r, piece)
        for s in sums:
            clear(k, s, r.length)
        first = piece * r.piece_rows
        with k.range(first, (first + r.piece_rows).minimum(r.count)) as row:
            _row_grad(k, r, (g, x, gamma, dx), sums, row * r.length)


def _row_grad(
    k: KernelBuilder, r: NormalizedRows, arrays: tuple[Pointer, ...], sums: tuple[Pointer, Pointer], at: Int64
) -> None:
    g, x, gamma, dx = arrays
    mean, scale, shift = _statistics(k, r, x, at)
    shift = shift.splat(k.lanes)

    def load_row(i: Int64, mask: Mask) -> tuple[Num, Num, Num]:
        grad = g.load(at + i, k.lanes, mask)
        return grad, grad * gamma.load(i, k.lanes, mask), k.fma(x.load(at + i, k.lanes, mask) - mean, scale, shift)

    def terms(i: Int64, mask: Mask) -> list[Num]:
        _, weighted_grad, normal = load_row(i - at, mask)
        return [weighted_grad, weighted_grad * normal]

    mean_grad, mean_product = (s * (1.0 / r.length) for s in sum_line(k, at, r.length, terms, 2))

    def store_row(i: Int64, mask: Mask) -> None:
        grad, weighted_grad, normal = load_row(i, mask)
        dx.store((weighted_grad - mean_grad - normal * mean_product) * scale, at + i, mask)
        for s, value in zip(sums, (grad * normal, grad), strict=True):
            s.store(s.load(i, k.lanes, mask) + value, i, mask)

    k.for_each_vector(r.length, store_row)


def _sum_weight_grads(k: KernelBuilder, r: NormalizedRows) -> None:
    """Sum the gradients of all pieces. Work items are vectors of elements."""
    outputs = k.pointer(0), k.pointer(1)
    with k.range(k.first, k.last) as item:
        i = item * k.lanes
        mask = k.mask((r.length - i).minimum(k.lanes), k.lanes)
        for store_row, y in enumerate(outputs):
            total = k.variable(k.zero(k.lanes))
            with k.range(r.num_pieces) as piece:
                total.value = total.value + _partial_sums(k, r, piece)[store_row].load(i, k.lanes, mask)
            y.store(total.value, i, mask)


def _normalized_rows(x: Spec, full: Specs, attrs: Attrs) -> NormalizedRows:
    over = normalize_axes(attrs["axis"], x.ndim)
    last = (1,) if x.layout == CHANNELS_LAST else tuple(range(x.ndim - len(over), x.ndim))
    if over != last or any(s.layout != x.layout for s in full):
        raise UnsupportedError("axes that are not the last in memory")
    if x.dtype != "float32":
        raise UnsupportedError(x.dtype)
    length = prod(x.shape[i] for i in over)
    return NormalizedRows(x.size // length, length, attrs["eps"])


@native_kernel("layer_norm")
def layer_norm(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList:
    """(x - mean) / deviation * gamma + beta, over each row."""
    r = _normalized_rows(ins[0], (ins[0], outs[0]), attrs)
    kernel = kernel_code(_forward, r)
    return TaskList(lambda i, o: [ParallelTask(kernel.address, (*i, *o), r.count, r.piece_rows)])


@native_kernel("layer_norm_grad")
def layer_norm_grad(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList:
    """The gradients of x, gamma and beta."""
    r = _normalized_rows(ins[1], (*ins[:2], outs[0]), attrs)
    rows, sum_grads = kernel_code(_backward, r), kernel_code(_sum_weight_grads, r)
    shared_bytes = 4 * 2 * r.length * r.num_pieces
    vectors = -(-r.length // vector_lanes("float32"))
    return TaskList(
        lambda i, o: [
            ParallelTask(rows.address, (*i, o[0]), r.num_pieces, 1, 0, shared_bytes),
            ParallelTask(sum_grads.address, tuple(o[1:]), vectors, max(vectors // 8, 8), 0, shared_bytes),
        ]
    )


def _normalizes_channels(store_row: int) -> Any:
    """Return a predicate: whether the channels of an image (or of a sequence that has them first) are normalized."""
    return lambda ins, attrs: ins[store_row].ndim >= 3 and normalize_axes(attrs["axis"], ins[store_row].ndim) == (1,)


register_channels_last("native", "prefers", "layer_norm", ins=(0,), outs=(0,), when=_normalizes_channels(0))
register_channels_last("native", "prefers", "layer_norm_grad", ins=(0, 1), outs=(0,), when=_normalizes_channels(1))
