"""Logarithms and exponentials to other bases, and sums in the space of logarithms."""

from __future__ import annotations

from typing import Any

from prototorch.ops.activation import sigmoid
from prototorch.ops.elementwise import BinaryOp, UnaryOp, equal, where, zeros_like
from prototorch.ops.facts import flops_per_output
from prototorch.ops.reduce import sum_to
from prototorch.spec import Spec

_LN_2, _LN_10 = 0.6931471805599453, 2.302585092994046


class Log2(UnaryOp):
    """The logarithm to base 2."""

    array_function = "log2"
    derivatives = (lambda g, y, x: g / (x * _LN_2),)


class Log10(UnaryOp):
    """The logarithm to base 10."""

    array_function = "log10"
    derivatives = (lambda g, y, x: g / (x * _LN_10),)


class Exp2(UnaryOp):
    """2 ** x."""

    derivatives = (lambda g, y, x: g * y * _LN_2,)

    def reference(self, xp: Any, x: Any) -> Any:
        return xp.pow(xp.full((), 2, dtype=x.dtype), x)


class Logaddexp(BinaryOp):
    """log(exp(a) + exp(b)) without overflow."""

    derivatives = (
        lambda g, y, a, b: sum_to(g * _share(a, b), a.shape),
        lambda g, y, a, b: sum_to(g * _share(b, a), b.shape),
    )
    flops = flops_per_output(4)

    def infer_spec(self, a: Spec, b: Spec) -> Spec:
        if not a.is_float:
            raise self.shape_error(f"expected floating-point elements, got {a.dtype}")
        return super().infer_spec(a, b)

    def reference(self, xp: Any, a: Any, b: Any) -> Any:
        top = xp.maximum(a, b)
        gap = xp.abs(a - b)
        equal_infinities = xp.isnan(gap) & ~xp.isnan(top)
        return xp.where(equal_infinities, top, top + xp.log1p(xp.exp(-gap)))


def _share(a: Any, b: Any) -> Any:
    """exp(a) / (exp(a) + exp(b)); equal infinities share."""
    return sigmoid(where(equal(a, b), zeros_like(a), a - b))


log2, log10, exp2, logaddexp = Log2(), Log10(), Exp2(), Logaddexp()
