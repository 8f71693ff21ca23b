"""Reductions. ``axis`` is an int, a tuple of ints, or None for all; ``keepdims`` retains reduced axes with size 1."""

from __future__ import annotations

from math import prod
from typing import Any

from prototorch.ops.core import Op
from prototorch.ops.facts import (
    INDEPENDENT,
    UNIFORM,
    Attrs,
    BatchDependence,
    Dependences,
    Specs,
    axis_batched,
    flops_per_input,
    no_flops,
    reduction_before_transpose,
)
from prototorch.ops.operators import OPS
from prototorch.ops.strided_array import as_strided
from prototorch.spec import Spec

AxisLike = int | tuple[int, ...] | None


def normalize_axes(axis: AxisLike, ndim: int, op: Op | None = None) -> tuple[int, ...]:
    """The axes as sorted non-negative integers. Raises ShapeError for one that is out of range or given twice."""
    as_tuple = tuple(range(ndim)) if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
    for a in as_tuple:
        if not -ndim <= a < ndim and op is not None:
            raise op.shape_error(f"axis {a} is out of range for {ndim} dimensions")
    axes = tuple(sorted(a % ndim for a in as_tuple)) if ndim else ()
    if len(set(axes)) != len(axes) and op is not None:
        raise op.shape_error(f"the axes {list(as_tuple)} of {ndim} dimensions name one axis twice")
    return axes


def reduced_shape(shape: tuple[int, ...], over: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    """The shape after a reduction."""
    return tuple(1 if i in over else n for i, n in enumerate(shape) if keepdims or i not in over)


class Reduction(Op):
    """One input, reduced over some of its axes."""

    allows_empty = False
    float_only = False
    flops = flops_per_input
    preserves_batch = axis_batched()
    attrs_before_transpose = reduction_before_transpose

    def infer_spec(self, x: Spec, axis: AxisLike = None, keepdims: bool = False) -> Spec:
        over = normalize_axes(axis, x.ndim, self)
        if self.float_only and not x.is_float:
            raise self.shape_error(f"expected floating-point elements, got {x.dtype}")
        if not self.allows_empty and any(x.shape[a] == 0 for a in over):
            raise self.shape_error(f"cannot reduce an empty axis of {list(x.shape)}")
        return Spec(reduced_shape(x.shape, over, keepdims), x.dtype)

    def reference(self, xp: Any, x: Any, axis: AxisLike = None, keepdims: bool = False) -> Any:
        return super().reference(xp, x, axis=normalize_axes(axis, x.ndim), keepdims=keepdims)


def _broadcast_grad(g: Any, x: Any, axis: AxisLike) -> Any:
    return broadcast_to(_restore_axes(g, x, axis), shape=tuple(x.shape))


def _restore_axes(g: Any, x: Any, axis: AxisLike) -> Any:
    return OPS["reshape"](g, shape=reduced_shape(tuple(x.shape), normalize_axes(axis, x.ndim), True))


class Sum(Reduction):
    allows_empty = True
    derivatives = (lambda g, y, x, axis=None, keepdims=False: _broadcast_grad(g, x, axis),)

    def reference(self, xp: Any, x: Any, axis: AxisLike = None, keepdims: bool = False) -> Any:
        return xp.sum(x, axis=normalize_axes(axis, x.ndim), keepdims=keepdims, dtype=x.dtype)


class Mean(Reduction):
    array_function, float_only = "mean", True
    derivatives = (
        lambda g, y, x, axis=None, keepdims=False: (
            _broadcast_grad(g, x, axis) * (1.0 / prod(x.shape[a] for a in normalize_axes(axis, x.ndim)))
        ),
    )


def _extremum_grad(g: Any, y: Any, x: Any, axis: AxisLike = None, keepdims: bool = False) -> Any:
    is_extremum = OPS["cast"](OPS["equal"](x, _restore_axes(y, x, axis)), dtype=x.dtype)
    return is_extremum * _restore_axes(g, x, axis) / sum_(is_extremum, axis=axis, keepdims=True)


class Max(Reduction):
    """The maximum; equal elements share the gradient."""

    array_function = "max"
    derivatives = (_extremum_grad,)


class Min(Reduction):
    """The minimum; equal elements share the gradient."""

    array_function = "min"
    derivatives = (_extremum_grad,)


class Prod(Reduction):
    """The product. The gradient is y / x, so that no element may be 0 where it is needed."""

    allows_empty = True
    derivatives = (lambda g, y, x, axis=None, keepdims=False: _restore_axes(g * y, x, axis) / x,)

    def reference(self, xp: Any, x: Any, axis: AxisLike = None, keepdims: bool = False) -> Any:
        return xp.prod(x, axis=normalize_axes(axis, x.ndim), keepdims=keepdims, dtype=x.dtype)


class _BoolReduction(Reduction):
    allows_empty = True

    def infer_spec(self, x: Spec, axis: AxisLike = None, keepdims: bool = False) -> Spec:
        if x.dtype != "bool":
            raise self.shape_error(f"expected bool elements, got {x.dtype}")
        return super().infer_spec(x, axis=axis, keepdims=keepdims)


class All(_BoolReduction):
    array_function = "all"


class Any_(_BoolReduction):
    name, array_function = "any", "any"


class _ArgReduction(Op):
    """The index along one axis, int32; the first of equal elements."""

    flops = flops_per_input
    preserves_batch = axis_batched()

    def infer_spec(self, x: Spec, axis: int) -> Spec:
        over = normalize_axes(axis, x.ndim, self)
        if x.shape[over[0]] == 0:
            raise self.shape_error(f"cannot reduce an empty axis of {list(x.shape)}")
        return Spec(reduced_shape(x.shape, over, False), "int32")

    def index_limit(self, ins: Specs, attrs: Attrs) -> int | None:
        return ins[0].shape[attrs["axis"]]

    def reference(self, xp: Any, x: Any, axis: int) -> Any:
        return xp.astype(super().reference(xp, x, axis=axis), xp.int32)


class Argmax(_ArgReduction):
    array_function = "argmax"


class Argmin(_ArgReduction):
    array_function = "argmin"


class Cumsum(Op):
    """The running sum along an axis; ``reverse=True`` sums from the end."""

    derivatives = (lambda g, y, x, axis, reverse=False: cumsum(g, axis=axis, reverse=not reverse),)
    preserves_batch = axis_batched()

    def infer_spec(self, x: Spec, axis: int, reverse: bool = False) -> Spec:
        normalize_axes(axis, x.ndim, self)
        return Spec(x.shape, x.dtype)

    def reference(self, xp: Any, x: Any, axis: int, reverse: bool = False) -> Any:
        if reverse:
            return xp.flip(xp.cumulative_sum(xp.flip(x, axis=axis), axis=axis, dtype=x.dtype), axis=axis)
        return xp.cumulative_sum(x, axis=axis, dtype=x.dtype)


class BroadcastTo(Op):
    """The input repeated along axes of size 1, to a shape."""

    moves_elements = True
    derivatives = (lambda g, y, x, shape: sum_to(g, x.shape),)
    flops = no_flops

    def infer_spec(self, x: Spec, shape: tuple[int, ...]) -> Spec:
        padded_shape = (1,) * (len(shape) - x.ndim) + x.shape
        if len(padded_shape) != len(shape) or any(a not in (1, b) for a, b in zip(padded_shape, shape, strict=True)):
            raise self.shape_error(f"{list(x.shape)} cannot be broadcast to {list(shape)}")
        return Spec(shape, x.dtype)

    def reference(self, xp: Any, x: Any, shape: tuple[int, ...]) -> Any:
        return xp.broadcast_to(x, shape)

    def array_view(self, array: Any, shape: tuple[int, ...]) -> Any:
        extra = len(shape) - array.ndim
        is_repeated = (n != m for n, m in zip(array.shape, shape[extra:], strict=True))
        strides = (0,) * extra + tuple(0 if r else step for r, step in zip(is_repeated, array.strides, strict=True))
        # by broadcast_to it would be read-only, and its parts are written to
        return as_strided(array, shape, strides)

    def preserves_batch(self, ins: Specs, outs: Specs, attrs: Attrs, dependences: Dependences) -> bool:
        return ins[0].ndim == outs[0].ndim

    def unbatched_dependence(self, ins: Specs, out: Spec, attrs: Attrs, dependences: Dependences) -> BatchDependence:
        return UNIFORM if out.ndim > ins[0].ndim else INDEPENDENT


sum_, mean, max_, min_, prod_, all_, any_ = Sum(), Mean(), Max(), Min(), Prod(), All(), Any_()
argmax, argmin, cumsum, broadcast_to = Argmax(), Argmin(), Cumsum(), BroadcastTo()


def sum_to(g: Any, shape: Any) -> Any:
    """g summed over the axes along which ``shape`` was broadcast, so that it has that shape."""
    shape = tuple(shape)
    if tuple(g.shape) == shape:
        return g
    extra = g.ndim - len(shape)
    over = (*range(extra), *(i + extra for i, n in enumerate(shape) if n == 1 and g.shape[i + extra] != 1))
    return OPS["reshape"](sum_(g, axis=over, keepdims=False) if over else g, shape=shape)
