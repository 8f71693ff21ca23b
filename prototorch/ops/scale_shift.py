"""Factors and shifts along some axes: the affine part of a normalization as an op of its own."""

from __future__ import annotations

from typing import Any

from prototorch.ops.core import Op
from prototorch.ops.facts import PrecisionClass
from prototorch.ops.norm import cast_like
from prototorch.ops.reduce import sum_
from prototorch.ops.shape import reshape
from prototorch.spec import Spec


def _broadcast(v: Any, ndim: int, axis: int) -> Any:
    """v over the axes from ``axis`` on, as an array that broadcasts to ``ndim`` axes."""
    return reshape(v, shape=(*(1,) * axis, *v.shape, *(1,) * (ndim - axis - v.ndim)))


class ScaleShift(Op):
    """``scale_shift(x, scale, bias, axis=)``: x * scale + bias; the bias may be left out.

    scale and bias have the shape of x's axes from ``axis`` on, as many as they have dimensions. They may have a wider
    dtype than x: the arithmetic has it then.
    """

    decompose_without_kernel = True
    precision = PrecisionClass.MIXED

    def infer_spec(self, x: Spec, scale: Spec, *bias: Spec, axis: int) -> Spec:
        for v in (scale, *bias):
            if v.shape != x.shape[axis : axis + v.ndim]:
                raise self.shape_error(
                    f"the shape {list(v.shape)} must be that of the axes from {axis} on of {list(x.shape)}"
                )
        if any(v.shape != scale.shape for v in bias):
            raise self.shape_error(f"scale {list(scale.shape)} and bias {list(bias[0].shape)} differ in shape")
        return Spec(x.shape, x.dtype)

    def decompose(self, x: Any, scale: Any, *bias: Any, axis: int) -> Any:
        y = cast_like(x, scale) * _broadcast(scale, x.ndim, axis)
        for v in bias:
            y = y + _broadcast(v, x.ndim, axis)
        return cast_like(y, x)

    def vjp(self, grads, outputs, inputs, needs, attrs):
        x, scale, *bias = inputs
        dx, dscale, dbias = scale_shift_grad(grads[0], x, scale, **attrs)
        return [dx, dscale, *[dbias for _ in bias]]


class ScaleShiftGrad(Op):
    """Gradients of x, scale and bias."""

    decompose_without_kernel = True
    precision = PrecisionClass.MIXED

    def infer_spec(self, g: Spec, x: Spec, scale: Spec, axis: int) -> tuple[Spec, Spec, Spec]:
        return Spec(x.shape, x.dtype), Spec(scale.shape, scale.dtype), Spec(scale.shape, scale.dtype)

    def decompose(self, g: Any, x: Any, scale: Any, axis: int) -> Any:
        original, g, x = x, cast_like(g, scale), cast_like(x, scale)
        over = (*range(axis), *range(axis + scale.ndim, x.ndim))
        dx = g * _broadcast(scale, x.ndim, axis)
        dscale, dbias = (sum_(g * x, axis=over), sum_(g, axis=over)) if over else (g * x, g)
        return cast_like(dx, original), dscale, dbias


scale_shift, scale_shift_grad = ScaleShift(), ScaleShiftGrad()
