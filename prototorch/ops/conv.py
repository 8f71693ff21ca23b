"""Convolution in any number of spatial dimensions: the op and its two adjoints, which are each other's derivatives.

x [N, C, *spatial], w [F, C / groups, *kernel], y [N, F, *out]; ``pads`` is a pair (before, after) per spatial axis.
Cross-correlation, as in other frameworks.
"""

from __future__ import annotations

from math import prod
from typing import Any

from prototorch.ops.core import Op
from prototorch.ops.facts import Attrs, PrecisionClass, Specs, only_first_batched
from prototorch.ops.windows import dilated_size, kernel_offsets, num_windows, pad_for_windows, unpad, window_slices
from prototorch.spec import Spec


def _split_groups(xp: Any, x: Any, groups: int) -> Any:
    """[N, C, *s] as [N, groups, C / groups, points]."""
    points = 1
    for n in x.shape[2:]:
        points *= n
    return xp.reshape(x, (x.shape[0], groups, x.shape[1] // groups, points))


class Conv(Op):
    """Convolution of x with w."""

    derivatives = (
        lambda g, y, x, w, **a: conv_input_grad(g, w, size=tuple(x.shape[2:]), **a),
        lambda g, y, x, w, **a: conv_weight_grad(x, g, kernel=tuple(w.shape[2:]), **a),
    )
    is_product = True
    precision = PrecisionClass.LOW
    preserves_batch = only_first_batched

    def infer_spec(self, x: Spec, w: Spec, strides, pads, dilation, groups: int = 1) -> Spec:
        rank = len(strides)
        if x.ndim != rank + 2:
            raise self.shape_error(
                f"expected an input of {rank + 2} dimensions (batch, channels, {rank} spatial), got {list(x.shape)}"
            )
        if x.shape[1] != w.shape[1] * groups or w.shape[0] % groups:
            raise self.shape_error(
                f"{x.shape[1]} input channels and {w.shape[0]} filters of {w.shape[1]} channels do not match "
                f"{groups} groups"
            )
        out = []
        for i, (n, k, s, p, d) in enumerate(zip(x.shape[2:], w.shape[2:], strides, pads, dilation, strict=True)):
            if dilated_size(k, d) > n + sum(p):
                dilated = f" with dilation rate {d} (extent {dilated_size(k, d)})" if d > 1 else ""
                raise self.shape_error(
                    f"kernel size {k}{dilated} exceeds the padded input size {n + sum(p)} "
                    f"(axis {i} of {list(x.shape[2:])}); make it smaller, or the padding or the input larger"
                )
            out.append(num_windows(n, k, s, p, d))
        return Spec((x.shape[0], w.shape[0], *out), x.dtype)

    def reference(self, xp: Any, x: Any, w: Any, strides, pads, dilation, groups: int = 1) -> Any:
        kernel = w.shape[2:]
        out = tuple(
            num_windows(n, k, s, p, d)
            for n, k, s, p, d in zip(x.shape[2:], kernel, strides, pads, dilation, strict=True)
        )
        full = pad_for_windows(xp, x, pads, out, kernel, strides, dilation)
        total = 0
        for _, at in kernel_offsets(kernel):
            window = _split_groups(xp, full[(..., *window_slices(at, out, strides, dilation))], groups)
            part = xp.reshape(w[(..., *at)], (groups, w.shape[0] // groups, w.shape[1]))
            total = xp.matmul(part, window) + total
        return xp.reshape(total, (x.shape[0], w.shape[0], *out))

    def flops(self, ins: Specs, outs: Specs, attrs: Attrs) -> int:
        return 2 * outs[0].size * prod(ins[1].shape[1:])  # each output element reads a whole filter


class ConvInputGrad(Op):
    """The adjoint of `conv` by its input, and so the transposed convolution: g [N, F, *out] to [N, C, *size]."""

    derivatives = (
        lambda g, y, dy, w, size, **a: conv(g, w, **a),
        lambda g, y, dy, w, size, **a: conv_weight_grad(g, dy, kernel=tuple(w.shape[2:]), **a),
    )
    is_product = True
    precision = PrecisionClass.LOW
    preserves_batch = only_first_batched

    def infer_spec(self, g: Spec, w: Spec, size, strides, pads, dilation, groups: int = 1) -> Spec:
        if g.ndim != len(size) + 2 or g.shape[1] != w.shape[0]:
            raise self.shape_error(
                f"{list(g.shape)} does not match {w.shape[0]} filters in {len(size)} spatial dimensions"
            )
        for n, o, k, s, p, d in zip(size, g.shape[2:], w.shape[2:], strides, pads, dilation, strict=True):
            if num_windows(n, k, s, p, d) != o:
                raise self.shape_error(
                    f"a size of {n} gives {num_windows(n, k, s, p, d)} windows, but the gradient has {o}"
                )
        return Spec((g.shape[0], w.shape[1] * groups, *size), g.dtype)

    def reference(self, xp: Any, g: Any, w: Any, size, strides, pads, dilation, groups: int = 1) -> Any:
        out, kernel, channels = g.shape[2:], w.shape[2:], w.shape[1] * groups
        blank = xp.zeros((g.shape[0], channels, *size), dtype=g.dtype)
        full = pad_for_windows(xp, blank, pads, out, kernel, strides, dilation)
        window = _split_groups(xp, g, groups)
        for _, at in kernel_offsets(kernel):
            part = xp.reshape(w[(..., *at)], (groups, w.shape[0] // groups, w.shape[1]))
            piece = xp.reshape(xp.matmul(xp.matrix_transpose(part), window), (g.shape[0], channels, *out))
            key = (..., *window_slices(at, out, strides, dilation))
            full[key] = full[key] + piece
        return full[(..., *unpad(size, pads))]

    def flops(self, ins: Specs, outs: Specs, attrs: Attrs) -> int:
        return 2 * ins[0].size * prod(ins[1].shape[1:])


class ConvWeightGrad(Op):
    """The adjoint of `conv` by its weights: x [N, C, *size] and g [N, F, *out] to [F, C / groups, *kernel]."""

    derivatives = (
        lambda g, y, x, dy, kernel, **a: conv_input_grad(dy, g, size=tuple(x.shape[2:]), **a),
        lambda g, y, x, dy, kernel, **a: conv(x, g, **a),
    )
    is_product = True
    precision = PrecisionClass.LOW

    def infer_spec(self, x: Spec, g: Spec, kernel, strides, pads, dilation, groups: int = 1) -> Spec:
        return Spec((g.shape[1], x.shape[1] // groups, *kernel), x.dtype)

    def reference(self, xp: Any, x: Any, g: Any, kernel, strides, pads, dilation, groups: int = 1) -> Any:
        out = g.shape[2:]
        full = pad_for_windows(xp, x, pads, out, kernel, strides, dilation)
        grads = _split_groups(xp, g, groups)
        dw = xp.zeros((g.shape[1], x.shape[1] // groups, *kernel), dtype=x.dtype)
        for _, at in kernel_offsets(kernel):
            window = _split_groups(xp, full[(..., *window_slices(at, out, strides, dilation))], groups)
            part = xp.sum(xp.matmul(grads, xp.matrix_transpose(window)), axis=0)
            dw[(..., *at)] = xp.reshape(part, dw.shape[:2])
        return dw

    def flops(self, ins: Specs, outs: Specs, attrs: Attrs) -> int:
        return 2 * ins[1].size * prod(outs[0].shape[1:])


conv, conv_input_grad, conv_weight_grad = Conv(), ConvInputGrad(), ConvWeightGrad()
