"""Pooling in any number of spatial dimensions. x [N, C, *spatial]; ``pads`` is a pair (before, after) for each."""

from __future__ import annotations

from typing import Any

from prototorch.ops.core import Op
from prototorch.ops.facts import flops_per_input, no_flops, only_first_batched, pool_flops
from prototorch.ops.windows import kernel_offsets, num_windows, pad_for_windows, unpad, window_slices
from prototorch.spec import Spec


def pooled_size(size, kernel, strides, pads, ceil: bool) -> tuple[int, ...]:
    """The spatial size after pooling."""
    return tuple(num_windows(n, k, s, p, 1, ceil) for n, k, s, p in zip(size, kernel, strides, pads, strict=True))


def _check_windows(op: Op, x: Spec, kernel, strides, pads, ceil: bool) -> tuple[int, ...]:
    if x.ndim != len(kernel) + 2:
        raise op.shape_error(f"expected an input of {len(kernel) + 2} dimensions, got {list(x.shape)}")
    for i, (n, k, p) in enumerate(zip(x.shape[2:], kernel, pads, strict=True)):
        if k > n + sum(p):
            raise op.shape_error(
                f"pool size {k} exceeds the padded input size {n + sum(p)} (axis {i} of {list(x.shape[2:])}); "
                "make it smaller, or the padding or the input larger"
            )
        if max(p) >= k:
            raise op.shape_error(f"padding {max(p)} must be smaller than the pool size {k}, or a window is empty")
    return pooled_size(x.shape[2:], kernel, strides, pads, ceil)


class MaxPool(Op):
    """The maximum of each window, and its index within the window (int32, row-major); the first of equal elements.

    NaN is the maximum, so that an upstream fault is visible.
    """

    flops = pool_flops
    preserves_batch = only_first_batched

    def infer_spec(self, x: Spec, kernel, strides, pads, ceil: bool = False) -> tuple[Spec, Spec]:
        shape = (*x.shape[:2], *_check_windows(self, x, kernel, strides, pads, ceil))
        return Spec(shape, x.dtype), Spec(shape, "int32")

    def reference(self, xp: Any, x: Any, kernel, strides, pads, ceil: bool = False) -> Any:
        out = pooled_size(x.shape[2:], kernel, strides, pads, ceil)
        ones = (1,) * len(kernel)
        full = pad_for_windows(xp, x, pads, out, kernel, strides, ones, value=-float("inf"))
        best = number = None
        for i, at in kernel_offsets(kernel):
            window = full[(..., *window_slices(at, out, strides, ones))]
            if best is None:
                best, number = window, xp.zeros(window.shape, dtype=xp.int32)
            else:
                better = (window > best) | (xp.isnan(window) & ~xp.isnan(best))
                best = xp.where(better, window, best)
                number = xp.where(better, xp.full((), i, dtype=xp.int32), number)
        return best, number

    def vjp(self, grads, outputs, inputs, needs, attrs):
        if grads[0] is None:
            return [None]
        return [max_pool_grad(grads[0], outputs[1], size=tuple(inputs[0].shape[2:]), **attrs)]


class MaxPoolGrad(Op):
    """The adjoint of `max_pool`: each value added at the position of its window's maximum."""

    derivatives = (lambda g, y, dy, number, size, **a: gather_pool_indices(g, number, **a), None)
    flops = flops_per_input

    def infer_spec(self, g: Spec, number: Spec, size, kernel, strides, pads, ceil: bool = False) -> Spec:
        return Spec((*g.shape[:2], *size), g.dtype)

    def reference(self, xp: Any, g: Any, number: Any, size, kernel, strides, pads, ceil: bool = False) -> Any:
        ones, out = (1,) * len(kernel), g.shape[2:]
        full = pad_for_windows(xp, xp.zeros((*g.shape[:2], *size), dtype=g.dtype), pads, out, kernel, strides, ones)
        zero = xp.zeros((), dtype=g.dtype)
        for i, at in kernel_offsets(kernel):
            key = (..., *window_slices(at, out, strides, ones))
            full[key] = full[key] + xp.where(number == i, g, zero)
        return full[(..., *unpad(size, pads))]


class GatherPoolIndices(Op):
    """Of each window the element at the given index: `max_pool` with the indices as an input."""

    derivatives = (lambda g, y, x, number, **a: max_pool_grad(g, number, size=tuple(x.shape[2:]), **a), None)
    flops = no_flops

    def infer_spec(self, x: Spec, number: Spec, kernel, strides, pads, ceil: bool = False) -> Spec:
        return Spec(number.shape, x.dtype)

    def reference(self, xp: Any, x: Any, number: Any, kernel, strides, pads, ceil: bool = False) -> Any:
        ones, out = (1,) * len(kernel), number.shape[2:]
        full = pad_for_windows(xp, x, pads, out, kernel, strides, ones)
        result = xp.zeros(number.shape, dtype=x.dtype)
        for i, at in kernel_offsets(kernel):
            result = xp.where(number == i, full[(..., *window_slices(at, out, strides, ones))], result)
        return result


def window_counts(xp: Any, size, kernel, strides, pads, ceil: bool, include_pad: bool, dtype: Any) -> Any:
    """The number of elements that each window's mean divides by, [*out]; with ``include_pad`` padding counts too."""
    out = pooled_size(size, kernel, strides, pads, ceil)
    total = None
    for axis, (n, k, s, (lo, hi), o) in enumerate(zip(size, kernel, strides, pads, out, strict=True)):
        first, last = (-lo, n + hi) if include_pad else (0, n)
        ends = [(max(i * s - lo, first), min(i * s - lo + k, last)) for i in range(o)]
        along = xp.asarray([max(b - a, 1) for a, b in ends], dtype=dtype)
        along = xp.reshape(along, (*(1,) * axis, o, *(1,) * (len(size) - axis - 1)))
        total = along if total is None else total * along
    return total


class AvgPool(Op):
    """The mean of each window; ``include_pad`` counts the padding's zeros as elements."""

    derivatives = (lambda g, y, x, **a: avg_pool_grad(g, size=tuple(x.shape[2:]), **a),)
    flops = pool_flops
    preserves_batch = only_first_batched

    def infer_spec(self, x: Spec, kernel, strides, pads, ceil: bool = False, include_pad: bool = False) -> Spec:
        return Spec((*x.shape[:2], *_check_windows(self, x, kernel, strides, pads, ceil)), x.dtype)

    def reference(self, xp: Any, x: Any, kernel, strides, pads, ceil: bool = False, include_pad: bool = False) -> Any:
        out = pooled_size(x.shape[2:], kernel, strides, pads, ceil)
        ones = (1,) * len(kernel)
        full = pad_for_windows(xp, x, pads, out, kernel, strides, ones)
        total = 0
        for _, at in kernel_offsets(kernel):
            total = full[(..., *window_slices(at, out, strides, ones))] + total
        return total / window_counts(xp, x.shape[2:], kernel, strides, pads, ceil, include_pad, x.dtype)


class AvgPoolGrad(Op):
    """The adjoint of `avg_pool`: each value distributed over its window."""

    derivatives = (lambda g, y, dy, size, **a: avg_pool(g, **a),)
    flops = pool_flops

    def infer_spec(self, g: Spec, size, kernel, strides, pads, ceil: bool = False, include_pad: bool = False) -> Spec:
        return Spec((*g.shape[:2], *size), g.dtype)

    def reference(
        self, xp: Any, g: Any, size, kernel, strides, pads, ceil: bool = False, include_pad: bool = False
    ) -> Any:
        ones, out = (1,) * len(kernel), g.shape[2:]
        full = pad_for_windows(xp, xp.zeros((*g.shape[:2], *size), dtype=g.dtype), pads, out, kernel, strides, ones)
        share = g / window_counts(xp, size, kernel, strides, pads, ceil, include_pad, g.dtype)
        for _, at in kernel_offsets(kernel):
            key = (..., *window_slices(at, out, strides, ones))
            full[key] = full[key] + share
        return full[(..., *unpad(size, pads))]


max_pool, max_pool_grad, gather_pool_indices = MaxPool(), MaxPoolGrad(), GatherPoolIndices()
avg_pool, avg_pool_grad = AvgPool(), AvgPoolGrad()
