"""Layer normalisation over the last axes: each row is done while it is in the cache. Sums over rows (the gradients of
gamma and beta) are taken in pieces of rows, which a second task adds in order.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from prototorch.backends.core import register_channels_last
from prototorch.backends.cpu.native.cpu_features import vector_lanes
from prototorch.backends.cpu.native.ir_builder import Int64, KernelBuilder, Num, Pointer, UnsupportedError
from prototorch.backends.cpu.native.kernel_api import CHANNELS_LAST, TaskList, kernel_code, native_kernel
from prototorch.backends.cpu.native.kernels.norm.channel_stats import rsqrt, sum_line
from prototorch.backends.cpu.native.thread_pool import ParallelTask
from prototorch.ops.reduce import normalize_axes
from prototorch.spec import Spec

PIECE_ELEMENTS = 1 << 14


@dataclass(frozen=True)
class NormalizedRows:
    """How many rows of how many numbers, and what is added to their variance."""

    count: int
    length: int
    eps: float

    @property
    def piece_rows(self) -> int:
        """Rows of a piece."""
        return max(PIECE_ELEMENTS // self.length, 1)

    @property
    def num_pieces(self) -> int:
        """Pieces that the rows are cut into."""
        return -(-self.count // self.piece_rows)


def _statistics(k: KernelBuilder, r: NormalizedRows, x: Pointer, at: Int64) -> tuple[Num, Num, Num]:
    """A row's mean as rounded, the scale 1 / deviation, and the shift that puts the rounding of the mean right: the
    normal number is (x - mean) * scale + shift. In two passes."""
    (total,) = sum_line(k, at, r.length, lambda i, mask: [x.load(i, k.lanes, mask)], 1)
    mean = total * (1.0 / r.length)

    def distance(i: Int64, mask: Num | None) -> list[Num]:
        away = x.load(i, k.lanes, mask) - mean
        return [away, away * away]

    low, squares = (s * (1.0 / r.length) for s in sum_line(k, at, r.length, distance, 2))
    scale = rsqrt(k, squares - low * low, r.eps)
    return mean, scale, -(low * scale)


def _forward(k: KernelBuilder, r: NormalizedRows) -> None:
    x, gamma, beta, y = (k.pointer(i) for i in range(4))

    def row(at: Int64) -> None:
        mean, scale, shift = _statistics(k, r, x, at)

        def place(i: Int64, mask: Num | None) -> None:
            normal = k.fma(x.load(at + i, k.lanes, mask) - mean, scale, shift.splat(k.lanes))
            y.store(k.fma(normal, gamma.load(i, k.lanes, mask), beta.load(i, k.lanes, mask)), at + i, mask)

        k.for_each_vector(r.length, place)

    with k.range(k.first, k.last) as i:
        row(i * r.length)


def _partial_sums(k: KernelBuilder, r: NormalizedRows, piece: Any) -> tuple[Pointer, Pointer]:
    """Where a piece's gradients of gamma and beta lie."""
    held = k.shared.as_type("float32") + piece * (2 * r.length)
    return held, held + r.length


def _clear(k: KernelBuilder, target: Pointer, length: int) -> None:
    k.for_each_vector(length, lambda i, mask: target.store(k.zero(k.lanes), i, mask))


def _backward(k: KernelBuilder, r: NormalizedRows) -> None:
    """An item is a piece of rows."""
    g, x, gamma, dx = (k.pointer(i) for i in range(4))
    with k.range(k.first, k.last) as piece:
        sums = _partial_sums(k, r, piece)
        for s in sums:
            _clear(k, s, r.length)
        first = piece * r.piece_rows
        with k.range(first, (first + r.piece_rows).minimum(r.count)) as row:
            _row_grad(k, r, (g, x, gamma, dx), sums, row * r.length)


def _row_grad(
    k: KernelBuilder, r: NormalizedRows, arrays: tuple[Pointer, ...], sums: tuple[Pointer, Pointer], at: Int64
) -> None:
    g, x, gamma, dx = arrays
    mean, scale, shift = _statistics(k, r, x, at)
    shift = shift.splat(k.lanes)

    def numbers(i: Int64, mask: Num | None) -> tuple[Num, Num, Num]:
        grad = g.load(at + i, k.lanes, mask)
        return grad, grad * gamma.load(i, k.lanes, mask), k.fma(x.load(at + i, k.lanes, mask) - mean, scale, shift)

    def terms(i: Int64, mask: Num | None) -> list[Num]:
        _, scaled, normal = numbers(i - at, mask)
        return [scaled, scaled * normal]

    level, slope = (s * (1.0 / r.length) for s in sum_line(k, at, r.length, terms, 2))

    def place(i: Int64, mask: Num | None) -> None:
        grad, scaled, normal = numbers(i, mask)
        dx.store((scaled - level - normal * slope) * scale, at + i, mask)
        for s, value in zip(sums, (grad * normal, grad), strict=True):
            s.store(s.load(i, k.lanes, mask) + value, i, mask)

    k.for_each_vector(r.length, place)


def _sum_weight_grads(k: KernelBuilder, r: NormalizedRows) -> None:
    """The sums of all pieces; an item is a vector of numbers."""
    outputs = k.pointer(0), k.pointer(1)
    with k.range(k.first, k.last) as item:
        i = item * k.lanes
        mask = k.mask((r.length - i).minimum(k.lanes), k.lanes)
        for place, y in enumerate(outputs):
            total = k.variable(k.zero(k.lanes))
            with k.range(r.num_pieces) as piece:
                total.value = total.value + _partial_sums(k, r, piece)[place].load(i, k.lanes, mask)
            y.store(total.value, i, mask)


def _normalized_rows(x: Spec, full: tuple[Spec, ...], attrs: dict[str, Any]) -> NormalizedRows:
    over = normalize_axes(attrs["axis"], x.ndim)
    last = (1,) if x.layout == CHANNELS_LAST else tuple(range(x.ndim - len(over), x.ndim))
    if over != last or any(s.layout != x.layout for s in full):
        raise UnsupportedError("axes that are not the last in memory")
    if x.dtype != "float32":
        raise UnsupportedError(x.dtype)
    length = prod(x.shape[i] for i in over)
    return NormalizedRows(x.size // length, length, attrs["eps"])


@native_kernel("layer_norm")
def layer_norm(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> TaskList:
    """Each row less its mean, over its deviation, times gamma, plus beta."""
    r = _normalized_rows(ins[0], (ins[0], outs[0]), attrs)
    made = kernel_code(_forward, r)
    return TaskList(lambda i, o: [ParallelTask(made.address, (*i, *o), r.count, r.piece_rows)])


@native_kernel("layer_norm_grad")
def layer_norm_grad(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> TaskList:
    """The gradients of x, gamma and beta."""
    r = _normalized_rows(ins[1], (*ins[:2], outs[0]), attrs)
    rows, added = kernel_code(_backward, r), kernel_code(_sum_weight_grads, r)
    shared = 4 * 2 * r.length * r.num_pieces
    vectors = -(-r.length // vector_lanes("float32"))
    return TaskList(
        lambda i, o: [
            ParallelTask(rows.address, (*i, o[0]), r.num_pieces, 1, 0, shared),
            ParallelTask(added.address, tuple(o[1:]), vectors, max(vectors // 8, 8), 0, shared),
        ]
    )


def _normalizes_channels(place: int) -> Any:
    """Whether it is the channels of a picture, or of a sequence that has them first, that are normalised."""
    return lambda ins, attrs: ins[place].ndim >= 3 and normalize_axes(attrs["axis"], ins[place].ndim) == (1,)


register_channels_last("native", "prefers", "layer_norm", ins=(0,), outs=(0,), when=_normalizes_channels(0))
register_channels_last("native", "prefers", "layer_norm_grad", ins=(0, 1), outs=(0,), when=_normalizes_channels(1))
