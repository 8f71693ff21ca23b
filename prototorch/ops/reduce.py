"""Reductions. ``axis`` is an int, a tuple of ints, or None for all; ``keepdims`` keeps them with size 1."""

from __future__ import annotations

from math import prod
from typing import Any

from prototorch.ops.core import Op
from prototorch.ops.operators import OPS
from prototorch.spec import Spec

Axis = int | tuple[int, ...] | None


def axes(axis: Axis, ndim: int, op: Op | None = None) -> tuple[int, ...]:
    """The axes as sorted non-negative numbers; ShapeError for one that does not exist."""
    listed = tuple(range(ndim)) if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
    for a in listed:
        if not -ndim <= a < ndim and op is not None:
            raise op.fail(f"axis {a} does not exist: there are {ndim} dimensions")
    return tuple(sorted(a % ndim for a in listed)) if ndim else ()


def reduced(shape: tuple[int, ...], over: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    """The shape after a reduction."""
    return tuple(1 if i in over else n for i, n in enumerate(shape) if keepdims or i not in over)


class Reduction(Op):
    """One input, some of its axes taken together."""

    function = ""
    empty_ok = False
    only_float = False

    def rule(self, x: Spec, axis: Axis = None, keepdims: bool = False) -> Spec:
        over = axes(axis, x.ndim, self)
        if self.only_float and not x.is_float:
            raise self.fail(f"wants floating-point numbers, not {x.dtype}")
        if not self.empty_ok and any(x.shape[a] == 0 for a in over):
            raise self.fail(f"nothing to take it of: the shape is {list(x.shape)}")
        return Spec(reduced(x.shape, over, keepdims), x.dtype)

    def plain(self, xp: Any, x: Any, axis: Axis = None, keepdims: bool = False) -> Any:
        return getattr(xp, self.function)(x, axis=axes(axis, x.ndim), keepdims=keepdims)


def _spread(g: Any, x: Any, axis: Axis) -> Any:
    return broadcast_to(_restored(g, x, axis), shape=tuple(x.shape))


def _restored(g: Any, x: Any, axis: Axis) -> Any:
    return OPS["reshape"](g, shape=reduced(tuple(x.shape), axes(axis, x.ndim), True))


class Sum(Reduction):
    empty_ok = True
    derivatives = (lambda g, y, x, axis=None, keepdims=False: _spread(g, x, axis),)

    def plain(self, xp: Any, x: Any, axis: Axis = None, keepdims: bool = False) -> Any:
        return xp.sum(x, axis=axes(axis, x.ndim), keepdims=keepdims, dtype=x.dtype)


class Mean(Reduction):
    function, only_float = "mean", True
    derivatives = (
        lambda g, y, x, axis=None, keepdims=False: (
            _spread(g, x, axis) * (1.0 / prod(x.shape[a] for a in axes(axis, x.ndim)))
        ),
    )


def _shared(g: Any, y: Any, x: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    hit = OPS["cast"](OPS["equal"](x, _restored(y, x, axis)), dtype=x.dtype)
    return hit * _restored(g, x, axis) / sum_(hit, axis=axis, keepdims=True)


class Max(Reduction):
    """The largest; among equals the gradient is shared."""

    function = "max"
    derivatives = (_shared,)


class Min(Reduction):
    """The smallest; among equals the gradient is shared."""

    function = "min"
    derivatives = (_shared,)


class Prod(Reduction):
    """The product. The gradient is y / x, so no element may be 0 where it is taken."""

    empty_ok = True
    derivatives = (lambda g, y, x, axis=None, keepdims=False: _restored(g * y, x, axis) / x,)

    def plain(self, xp: Any, x: Any, axis: Axis = None, keepdims: bool = False) -> Any:
        return xp.prod(x, axis=axes(axis, x.ndim), keepdims=keepdims, dtype=x.dtype)


class _Truth(Reduction):
    empty_ok = True

    def rule(self, x: Spec, axis: Axis = None, keepdims: bool = False) -> Spec:
        if x.dtype != "bool":
            raise self.fail(f"wants true and false, not {x.dtype}")
        return super().rule(x, axis=axis, keepdims=keepdims)


class All(_Truth):
    function = "all"


class Any_(_Truth):
    name, function = "any", "any"


class _Arg(Op):
    """The index along one axis, int32; among equals the first."""

    function = ""

    def rule(self, x: Spec, axis: int) -> Spec:
        over = axes(axis, x.ndim, self)
        if x.shape[over[0]] == 0:
            raise self.fail(f"nothing to choose from: the shape is {list(x.shape)}")
        return Spec(reduced(x.shape, over, False), "int32")

    def plain(self, xp: Any, x: Any, axis: int) -> Any:
        return xp.astype(getattr(xp, self.function)(x, axis=axis), xp.int32)


class Argmax(_Arg):
    function = "argmax"


class Argmin(_Arg):
    function = "argmin"


class Cumsum(Op):
    """The running sum along an axis; ``reverse=True`` sums from the end."""

    derivatives = (lambda g, y, x, axis, reverse=False: cumsum(g, axis=axis, reverse=not reverse),)

    def rule(self, x: Spec, axis: int, reverse: bool = False) -> Spec:
        axes(axis, x.ndim, self)
        return Spec(x.shape, x.dtype)

    def plain(self, xp: Any, x: Any, axis: int, reverse: bool = False) -> Any:
        if reverse:
            return xp.flip(xp.cumulative_sum(xp.flip(x, axis=axis), axis=axis, dtype=x.dtype), axis=axis)
        return xp.cumulative_sum(x, axis=axis, dtype=x.dtype)


class BroadcastTo(Op):
    """The input repeated along axes of size 1, to a shape."""

    derivatives = (lambda g, y, x, shape: sum_to(g, x.shape),)

    def rule(self, x: Spec, shape: tuple[int, ...]) -> Spec:
        padded = (1,) * (len(shape) - x.ndim) + x.shape
        if len(padded) != len(shape) or any(a not in (1, b) for a, b in zip(padded, shape, strict=True)):
            raise self.fail(f"{list(x.shape)} cannot be repeated to {list(shape)}")
        return Spec(shape, x.dtype)

    def plain(self, xp: Any, x: Any, shape: tuple[int, ...]) -> Any:
        return xp.broadcast_to(x, shape)


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
