"""Scans: running products, running sums of exponentials, and the linear recurrence that their derivatives are.

Every derivative here is a scan again, so that zeros among the factors and large exponents need no case of their own.
"""

from __future__ import annotations

from typing import Any

from prototorch.ops.core import Op
from prototorch.ops.elementwise import equal, exp, full, where, zeros_like
from prototorch.ops.facts import axis_batched, flops_per_output
from prototorch.ops.reduce import normalize_axes
from prototorch.ops.shape import concat, getitem
from prototorch.spec import Spec


class _Scan(Op):
    """One output of the shape of the inputs, computed along an axis."""

    preserves_batch = axis_batched()
    float_only = True

    def infer_spec(self, *specs: Spec, axis: int, **attrs: Any) -> Spec:
        first = specs[0]
        normalize_axes(axis, first.ndim, self)
        if first.ndim == 0:
            raise self.shape_error("expected at least one dimension, got a scalar")
        if self.float_only and not first.is_float:
            raise self.shape_error(f"expected floating-point elements, got {first.dtype}")
        for s in specs[1:]:
            if s.shape != first.shape or s.dtype != first.dtype:
                raise self.shape_error(f"expected inputs of the same shape and dtype, got {first} and {s}")
        return Spec(first.shape, first.dtype)


def _columns(xp: Any, x: Any, axis: int) -> list[Any]:
    lead = (slice(None),) * (axis % x.ndim)
    return [x[(*lead, slice(i, i + 1), ...)] for i in range(x.shape[axis])]


class LinearRecurrence(_Scan):
    """``y[i] = a[i] * y[i - 1] + b[i]`` along an axis, ``y[-1]`` = 0; ``reverse=True`` runs from the end.

    Inputs: a, b of one shape. The first ``a`` has no influence.
    """

    flops = flops_per_output(2)

    @staticmethod
    def _by_b(g: Any, y: Any, a: Any, b: Any, axis: int, reverse: bool = False) -> Any:
        return linear_recurrence(_shift(a, axis, not reverse, 0.0), g, axis=axis, reverse=not reverse)

    @staticmethod
    def _by_a(g: Any, y: Any, a: Any, b: Any, axis: int, reverse: bool = False) -> Any:
        return LinearRecurrence._by_b(g, y, a, b, axis, reverse) * _shift(y, axis, reverse, 0.0)

    derivatives = (_by_a, _by_b)

    def reference(self, xp: Any, a: Any, b: Any, axis: int, reverse: bool = False) -> Any:
        pairs = list(zip(_columns(xp, a, axis), _columns(xp, b, axis), strict=True))
        outputs: list[Any] = []
        for factor, term in reversed(pairs) if reverse else pairs:
            outputs.append(factor * outputs[-1] + term if outputs else term)
        return xp.concat(outputs[::-1] if reverse else outputs, axis=axis) if outputs else xp.zeros_like(b)


def _shift(x: Any, axis: int, reverse: bool, fill: float) -> Any:
    """x moved by one along the axis, to the end (``reverse``: to the beginning); ``fill`` in the gap."""
    axis %= x.ndim
    n = x.shape[axis]
    if n == 0:
        return x
    lead = (slice(None),) * axis
    edge = full.apply_like(x, shape=(*x.shape[:axis], 1, *x.shape[axis + 1 :]), value=fill, dtype=x.dtype)
    rest = getitem(x, (*lead, slice(1, n) if reverse else slice(0, n - 1)))
    return concat(rest, edge, axis=axis) if reverse else concat(edge, rest, axis=axis)


class Cumprod(_Scan):
    """The running product along an axis; the derivative is exact where factors are 0."""

    float_only = False
    inplace = {0: 0}

    @staticmethod
    def _by_x(g: Any, y: Any, x: Any, axis: int) -> Any:
        before = _shift(y, axis, False, 1.0)  # the product of all factors before
        after = linear_recurrence(_shift(x, axis, True, 0.0), g, axis=axis, reverse=True)
        return before * after

    derivatives = (_by_x,)

    def reference(self, xp: Any, x: Any, axis: int) -> Any:
        outputs: list[Any] = []
        for factor in _columns(xp, x, axis):
            outputs.append(outputs[-1] * factor if outputs else factor)
        return xp.concat(outputs, axis=axis) if outputs else xp.zeros_like(x)


class Logcumsumexp(_Scan):
    """log(cumsum(exp(x))) along an axis, without overflow."""

    flops = flops_per_output(4)

    @staticmethod
    def _by_x(g: Any, y: Any, x: Any, axis: int) -> Any:
        later = _shift(y, axis, True, float("inf"))
        factor = where(equal(y, later), full.apply_like(y, shape=(), value=1, dtype=y.dtype), exp(y - later))
        total = linear_recurrence(factor, g, axis=axis, reverse=True)  # of g[k] * exp(y[i] - y[k]) over k >= i
        return total * where(
            equal(x, y), full.apply_like(y, shape=(), value=1, dtype=y.dtype) + zeros_like(x), exp(x - y)
        )

    derivatives = (_by_x,)

    def reference(self, xp: Any, x: Any, axis: int) -> Any:
        outputs: list[Any] = []
        for term in _columns(xp, x, axis):
            if not outputs:
                outputs.append(term)
                continue
            top, gap = xp.maximum(outputs[-1], term), xp.abs(outputs[-1] - term)
            same = (outputs[-1] == term) & xp.isinf(term)
            outputs.append(xp.where(same, top, top + xp.log1p(xp.exp(-gap))))
        return xp.concat(outputs, axis=axis) if outputs else xp.zeros_like(x)


linear_recurrence, cumprod, logcumsumexp = LinearRecurrence(), Cumprod(), Logcumsumexp()
