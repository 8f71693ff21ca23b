"""Normalisation. Statistics are computed in two passes, so that large means lose no precision.

gamma, beta and the input statistics may have a wider dtype than x: arithmetic and statistics have that dtype then, and
so have the returned statistics and the gradients of gamma and beta.
"""

from __future__ import annotations

from math import prod
from typing import Any

from prototorch.ops.core import Op
from prototorch.ops.elementwise import cast, rsqrt, square
from prototorch.ops.facts import PrecisionClass, axis_before_transpose, only_first_batched
from prototorch.ops.reduce import mean, normalize_axes, sum_
from prototorch.ops.shape import pad, reshape, slice_
from prototorch.spec import Spec


def broadcast_along(v: Any, ndim: int, axis: int) -> Any:
    """A vector as an array that broadcasts along one axis of ``ndim``."""
    return reshape(v, shape=(*(1,) * axis, v.shape[0], *(1,) * (ndim - axis - 1)))


def _other_axes(ndim: int, axis: int) -> tuple[int, ...]:
    return tuple(i for i in range(ndim) if i != axis)


def cast_like(x: Any, like: Any) -> Any:
    """x cast to the dtype of another value."""
    return x if x.dtype == like.dtype else cast(x, dtype=like.dtype)


class BatchNorm(Op):
    """``batch_norm(x, gamma, beta, eps=, axis=1)`` with the batch's own statistics (Ioffe and Szegedy, 2015).

    x [N, C, ...]; gamma and beta [C]. Returns y, the mean [C] and the biased variance [C].
    """

    precision = PrecisionClass.MIXED
    attrs_before_transpose = axis_before_transpose

    def infer_spec(self, x: Spec, gamma: Spec, beta: Spec, eps: float, axis: int = 1) -> tuple[Spec, ...]:
        (axis,) = normalize_axes(axis, x.ndim, self)
        for v in (gamma, beta):
            if v.shape != (x.shape[axis],):
                raise self.shape_error(
                    f"axis {axis} of {list(x.shape)} needs gamma and beta of shape {[x.shape[axis]]}, "
                    f"got {list(v.shape)}"
                )
        return Spec(x.shape, x.dtype), Spec(gamma.shape, gamma.dtype), Spec(gamma.shape, gamma.dtype)

    def decompose(self, x: Any, gamma: Any, beta: Any, eps: float, axis: int = 1) -> Any:
        (axis,) = normalize_axes(axis, x.ndim)
        original, x = x, cast_like(x, gamma)
        over = _other_axes(x.ndim, axis)
        mu = mean(x, axis=over, keepdims=True)
        deviation = x - mu
        var = mean(square(deviation), axis=over, keepdims=True)
        y = deviation * (rsqrt(var + eps) * broadcast_along(gamma, x.ndim, axis)) + broadcast_along(beta, x.ndim, axis)
        return cast_like(y, original), reshape(mu, shape=tuple(gamma.shape)), reshape(var, shape=tuple(gamma.shape))

    def vjp(self, grads, outputs, inputs, needs, attrs):
        if grads[0] is None or grads[1] is not None or grads[2] is not None:
            return self.vjp_by_decomposition(grads, inputs, needs, attrs)
        x, gamma, _ = inputs
        return batch_norm_grad(grads[0], x, gamma, outputs[1], outputs[2], **attrs)


class BatchNormGrad(Op):
    """Gradients of x, gamma and beta from that of y."""

    attrs_before_transpose = axis_before_transpose

    def infer_spec(self, g: Spec, x: Spec, gamma: Spec, mu: Spec, var: Spec, eps: float, axis: int = 1):
        return Spec(x.shape, x.dtype), Spec(gamma.shape, gamma.dtype), Spec(gamma.shape, gamma.dtype)

    def decompose(self, g, x, gamma, mu, var, eps: float, axis: int = 1):
        (axis,) = normalize_axes(axis, x.ndim)
        original, g, x = x, cast_like(g, gamma), cast_like(x, gamma)
        over = _other_axes(x.ndim, axis)
        n = prod(x.shape[i] for i in over)
        scale = rsqrt(var + eps)
        normal = (x - broadcast_along(mu, x.ndim, axis)) * broadcast_along(scale, x.ndim, axis)
        dbeta = sum_(g, axis=over)
        dgamma = sum_(g * normal, axis=over)
        dx = broadcast_along(scale * gamma, x.ndim, axis) * (
            g
            - broadcast_along(dbeta * (1 / n), x.ndim, axis)
            - normal * broadcast_along(dgamma * (1 / n), x.ndim, axis)
        )
        return cast_like(dx, original), dgamma, dbeta


class BatchNormInference(Op):
    """As `batch_norm`, with the statistics [C] as inputs: (x - mean) / sqrt(variance + eps) * gamma + beta."""

    inplace = {0: 0}
    precision = PrecisionClass.MIXED
    attrs_before_transpose = axis_before_transpose

    def infer_spec(self, x: Spec, gamma: Spec, beta: Spec, mu: Spec, var: Spec, eps: float, axis: int = 1) -> Spec:
        return batch_norm.infer_spec(x, gamma, beta, eps=eps, axis=axis)[0]

    def decompose(self, x, gamma, beta, mu, var, eps: float, axis: int = 1):
        (axis,) = normalize_axes(axis, x.ndim)
        scale = rsqrt(var + eps) * gamma
        y = cast_like(x, scale) * broadcast_along(scale, x.ndim, axis) + broadcast_along(
            beta - mu * scale, x.ndim, axis
        )
        return cast_like(y, x)


class LayerNorm(Op):
    """``layer_norm(x, gamma, beta, axis=, eps=)`` (Ba et al., 2016): statistics of each sample over the axes.

    gamma and beta have the shape of those axes.
    """

    precision = PrecisionClass.MIXED

    def infer_spec(self, x: Spec, gamma: Spec, beta: Spec, axis: Any, eps: float) -> Spec:
        over = normalize_axes(axis, x.ndim, self)
        expected = tuple(x.shape[i] for i in over)
        if gamma.shape != expected or beta.shape != expected:
            raise self.shape_error(f"expected gamma and beta of shape {list(expected)}, got {list(gamma.shape)}")
        return Spec(x.shape, x.dtype)

    def decompose(self, x: Any, gamma: Any, beta: Any, axis: Any, eps: float) -> Any:
        over = normalize_axes(axis, x.ndim)
        shape = tuple(n if i in over else 1 for i, n in enumerate(x.shape))
        original, x = x, cast_like(x, gamma)
        deviation = x - mean(x, axis=over, keepdims=True)
        var = mean(square(deviation), axis=over, keepdims=True)
        return cast_like(
            deviation * rsqrt(var + eps) * reshape(gamma, shape=shape) + reshape(beta, shape=shape), original
        )

    def vjp(self, grads, outputs, inputs, needs, attrs):
        x, gamma, _ = inputs
        return layer_norm_grad(grads[0], x, gamma, **attrs)


class LayerNormGrad(Op):
    """Gradients of x, gamma and beta."""

    def infer_spec(self, g: Spec, x: Spec, gamma: Spec, axis: Any, eps: float):
        return Spec(x.shape, x.dtype), Spec(gamma.shape, gamma.dtype), Spec(gamma.shape, gamma.dtype)

    def decompose(self, g: Any, x: Any, gamma: Any, axis: Any, eps: float) -> Any:
        original, g, x = x, cast_like(g, gamma), cast_like(x, gamma)
        over = normalize_axes(axis, x.ndim)
        rest = tuple(i for i in range(x.ndim) if i not in over)
        shape = tuple(n if i in over else 1 for i, n in enumerate(x.shape))
        deviation = x - mean(x, axis=over, keepdims=True)
        scale = rsqrt(mean(square(deviation), axis=over, keepdims=True) + eps)
        normal = deviation * scale
        weighted_grad = g * reshape(gamma, shape=shape)
        dx = scale * (
            weighted_grad
            - mean(weighted_grad, axis=over, keepdims=True)
            - normal * mean(weighted_grad * normal, axis=over, keepdims=True)
        )
        return cast_like(dx, original), sum_(g * normal, axis=rest), sum_(g, axis=rest)


class GroupNorm(Op):
    """``group_norm(x, gamma, beta, groups=, eps=)`` (Wu and He, 2018): x [N, C, ...], statistics of each sample over
    C / groups neighbouring channels; gamma and beta [C]."""

    decompose_without_kernel = True
    precision = PrecisionClass.MIXED

    def infer_spec(self, x: Spec, gamma: Spec, beta: Spec, groups: int, eps: float) -> Spec:
        if x.ndim < 2 or groups < 1 or x.shape[1] % groups:
            raise self.shape_error(f"the channels of {list(x.shape)} do not divide into {groups} groups")
        for v in (gamma, beta):
            if v.shape != (x.shape[1],):
                raise self.shape_error(
                    f"{list(x.shape)} needs gamma and beta of shape {[x.shape[1]]}, got {list(v.shape)}"
                )
        return Spec(x.shape, x.dtype)

    def decompose(self, x: Any, gamma: Any, beta: Any, groups: int, eps: float) -> Any:
        original, x = x, cast_like(x, gamma)
        normal, _ = _normalize_groups(x, groups, eps)
        y = reshape(normal, shape=tuple(x.shape))
        return cast_like(y * broadcast_along(gamma, x.ndim, 1) + broadcast_along(beta, x.ndim, 1), original)

    def vjp(self, grads, outputs, inputs, needs, attrs):
        x, gamma, _ = inputs
        return group_norm_grad(grads[0], x, gamma, **attrs)


class GroupNormGrad(Op):
    """Gradients of x, gamma and beta."""

    decompose_without_kernel = True

    def infer_spec(self, g: Spec, x: Spec, gamma: Spec, groups: int, eps: float):
        return Spec(x.shape, x.dtype), Spec(gamma.shape, gamma.dtype), Spec(gamma.shape, gamma.dtype)

    def decompose(self, g: Any, x: Any, gamma: Any, groups: int, eps: float) -> Any:
        original, g, x = x, cast_like(g, gamma), cast_like(x, gamma)
        normal, scale = _normalize_groups(x, groups, eps)
        inner, rest = tuple(range(2, normal.ndim)), _other_axes(x.ndim, 1)
        weighted_grad = reshape(g * broadcast_along(gamma, x.ndim, 1), shape=tuple(normal.shape))
        dx = scale * (
            weighted_grad
            - mean(weighted_grad, axis=inner, keepdims=True)
            - normal * mean(weighted_grad * normal, axis=inner, keepdims=True)
        )
        dgamma = sum_(g * reshape(normal, shape=tuple(x.shape)), axis=rest)
        return cast_like(reshape(dx, shape=tuple(x.shape)), original), dgamma, sum_(g, axis=rest)


def _normalize_groups(x: Any, groups: int, eps: float) -> tuple[Any, Any]:
    """x [N, groups, C / groups, ...] with mean 0 and variance 1 over a group, and the factor 1 / deviation."""
    group_view = reshape(x, shape=(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:]))
    over = tuple(range(2, group_view.ndim))
    deviation = group_view - mean(group_view, axis=over, keepdims=True)
    scale = rsqrt(mean(square(deviation), axis=over, keepdims=True) + eps)
    return deviation * scale, scale


class ChannelWindowSum(Op):
    """The sum over a window of ``size`` neighbouring channels (axis 1), zeros beyond the ends."""

    derivatives = (lambda g, y, x, size: channel_window_sum(g, size=size),)
    preserves_batch = only_first_batched

    def infer_spec(self, x: Spec, size: int) -> Spec:
        if size % 2 == 0:
            raise self.shape_error(f"the window size must be odd, got {size}")
        return Spec(x.shape, x.dtype)

    def decompose(self, x: Any, size: int) -> Any:
        half = size // 2
        wide = pad(x, pads=((0, 0), (half, half), *((0, 0),) * (x.ndim - 2)))
        total = None
        for i in range(size):
            start = (0, i, *(0,) * (x.ndim - 2))
            stop = (x.shape[0], i + x.shape[1], *x.shape[2:])
            part = slice_(wide, start=start, stop=stop, step=(1,) * x.ndim)
            total = part if total is None else total + part
        return total


class Lrn(Op):
    """Local response normalisation across channels (Krizhevsky et al., 2012; Caffe's and PyTorch's meaning):

    x / (k + alpha / size * sum of x^2 over ``size`` neighbouring channels) ^ beta. Returns y and the base of the power.
    """

    def infer_spec(self, x: Spec, size: int, alpha: float, beta: float, k: float) -> tuple[Spec, Spec]:
        if x.ndim < 2:
            raise self.shape_error(f"expected channels as the second dimension, got {list(x.shape)}")
        if size % 2 == 0:
            raise self.shape_error(f"the window size must be odd, got {size}")
        return Spec(x.shape, x.dtype), Spec(x.shape, x.dtype)

    def decompose(self, x: Any, size: int, alpha: float, beta: float, k: float) -> Any:
        base = channel_window_sum(square(x), size=size) * (alpha / size) + k
        return x * base**-beta, base

    def vjp(self, grads, outputs, inputs, needs, attrs):
        if grads[0] is None or grads[1] is not None:
            return self.vjp_by_decomposition(grads, inputs, needs, attrs)
        return [lrn_grad(grads[0], inputs[0], outputs[1], **attrs)]


class LrnGrad(Op):
    """The gradient of x from that of y, with the base of the power."""

    def infer_spec(self, g: Spec, x: Spec, base: Spec, size: int, alpha: float, beta: float, k: float) -> Spec:
        return Spec(x.shape, x.dtype)

    def decompose(self, g, x, base, size: int, alpha: float, beta: float, k: float):
        weighted_grad = g * base**-beta
        return weighted_grad - x * channel_window_sum(weighted_grad * x / base, size=size) * (2 * alpha * beta / size)


batch_norm, batch_norm_grad, batch_norm_inference = BatchNorm(), BatchNormGrad(), BatchNormInference()
layer_norm, layer_norm_grad = LayerNorm(), LayerNormGrad()
group_norm, group_norm_grad = GroupNorm(), GroupNormGrad()
channel_window_sum, lrn, lrn_grad = ChannelWindowSum(), Lrn(), LrnGrad()
