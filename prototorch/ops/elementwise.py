"""Elementwise ops, with NumPy's broadcasting rules."""

from __future__ import annotations

from typing import Any

from prototorch.ops.core import Op, resolve_dtype
from prototorch.ops.facts import (
    INDEPENDENT,
    UNIFORM,
    Attrs,
    BatchDependence,
    Dependences,
    PrecisionClass,
    Specs,
    ValueBounds,
    no_flops,
    nonzero_integers,
)
from prototorch.ops.operators import op_function
from prototorch.ops.reduce import sum_to
from prototorch.spec import Spec


def broadcast_shapes(op: Op, shapes: tuple[tuple[int, ...], ...]) -> tuple[int, ...]:
    """The shape that the shapes broadcast to. Raises ShapeError with both sizes where they do not."""
    out: list[int] = []
    for axis in range(-max(map(len, shapes), default=0), 0):
        sizes = {s[axis] for s in shapes if len(s) >= -axis} - {1}
        if len(sizes) > 1:
            listing = " and ".join(str(list(s)) for s in shapes)
            raise op.shape_error(
                f"shapes {listing} do not broadcast: axis {axis} has {' and '.join(map(str, sorted(sizes)))}"
            )
        out.append(sizes.pop() if sizes else 1)
    return tuple(out)


class UnaryOp(Op):
    """One input, an output of the same shape and dtype."""

    elementwise = True
    inplace = {0: 0}
    float_only = True

    def infer_spec(self, x: Spec, **attrs: Any) -> Spec:
        if attrs:
            self.check_attributes(attrs)
        if self.float_only and not x.is_float:
            raise self.shape_error(f"expected floating-point elements, got {x.dtype}")
        return Spec(x.shape, x.dtype)


class BinaryOp(Op):
    """Two inputs of the same dtype, which broadcast."""

    elementwise = True
    inplace = {0: 0}
    result_dtype: str | None = None  # the output's dtype where it is not that of the inputs

    def infer_spec(self, a: Spec, b: Spec, **attrs: Any) -> Spec:
        if attrs:
            self.check_attributes(attrs)
        if a.dtype != b.dtype:
            raise self.shape_error(
                f"expected two inputs of the same dtype, got {a.dtype} and {b.dtype}; cast one of them first"
            )
        return Spec(broadcast_shapes(self, (a.shape, b.shape)), self.result_dtype or a.dtype)


class Negative(UnaryOp):
    array_function, float_only = "negative", False
    derivatives = (lambda g, y, x: -g,)


class Exp(UnaryOp):
    array_function = "exp"
    derivatives = (lambda g, y, x: g * y,)


class Expm1(UnaryOp):
    array_function = "expm1"
    derivatives = (lambda g, y, x: g * (y + 1),)


class Log(UnaryOp):
    array_function = "log"
    derivatives = (lambda g, y, x: g / x,)


class Log1p(UnaryOp):
    array_function = "log1p"
    derivatives = (lambda g, y, x: g / (x + 1),)


class Sqrt(UnaryOp):
    array_function = "sqrt"
    derivatives = (lambda g, y, x: g * 0.5 / y,)


class Rsqrt(UnaryOp):
    """1 / sqrt(x)."""

    derivatives = (lambda g, y, x: g * -0.5 * y * y * y,)

    def reference(self, xp: Any, x: Any) -> Any:
        return 1 / xp.sqrt(x)


class Square(UnaryOp):
    float_only = False
    derivatives = (lambda g, y, x: g * 2 * x,)

    def reference(self, xp: Any, x: Any) -> Any:
        return x * x


class Abs(UnaryOp):
    array_function, float_only = "abs", False
    derivatives = (lambda g, y, x: g * sign(x),)


class Sign(UnaryOp):
    array_function, float_only = "sign", False


class Floor(UnaryOp):
    array_function = "floor"


class Ceil(UnaryOp):
    array_function = "ceil"


class Round(UnaryOp):
    """To the nearest integer, halves to even."""

    array_function = "round"


class Tanh(UnaryOp):
    array_function = "tanh"
    derivatives = (lambda g, y, x: g * (1 - y * y),)


class Sin(UnaryOp):
    array_function = "sin"
    derivatives = (lambda g, y, x: g * cos(x),)


class Cos(UnaryOp):
    array_function = "cos"
    derivatives = (lambda g, y, x: -g * sin(x),)


class IsFinite(UnaryOp):
    """True where an element is neither infinite nor NaN."""

    inplace = {}
    array_function = "isfinite"

    def infer_spec(self, x: Spec) -> Spec:
        return Spec(x.shape, "bool")


class LogicalNot(UnaryOp):
    array_function, float_only = "logical_not", False


class Cast(Op):
    """The elements in another dtype: ``cast(x, dtype="float32")``. Gradients pass between floating-point types."""

    elementwise = True
    derivatives = (lambda g, y, x, dtype: cast(g, dtype=x.dtype),)
    flops = no_flops
    precision = PrecisionClass.MIXED

    def infer_spec(self, x: Spec, dtype: str) -> Spec:
        return Spec(x.shape, dtype)

    def reference(self, xp: Any, x: Any, dtype: str) -> Any:
        return xp.astype(x, resolve_dtype(xp, dtype))


class StopGradient(UnaryOp):
    """The identity; no gradient passes."""

    float_only, is_view = False, True
    flops = no_flops

    def reference(self, xp: Any, x: Any) -> Any:
        return x


class Add(BinaryOp):
    array_function = "add"
    derivatives = (lambda g, y, a, b: sum_to(g, a.shape), lambda g, y, a, b: sum_to(g, b.shape))


class Subtract(BinaryOp):
    array_function = "subtract"
    derivatives = (lambda g, y, a, b: sum_to(g, a.shape), lambda g, y, a, b: sum_to(-g, b.shape))


class Multiply(BinaryOp):
    array_function = "multiply"
    derivatives = (lambda g, y, a, b: sum_to(g * b, a.shape), lambda g, y, a, b: sum_to(g * a, b.shape))


class Divide(BinaryOp):
    array_function = "divide"
    derivatives = (lambda g, y, a, b: sum_to(g / b, a.shape), lambda g, y, a, b: sum_to(-g * y / b, b.shape))

    def infer_spec(self, a: Spec, b: Spec) -> Spec:
        if not a.is_float:
            raise self.shape_error(f"expected floating-point elements, got {a.dtype}")
        return super().infer_spec(a, b)


class FloorDivide(BinaryOp):
    array_function = "floor_divide"

    def value_bounds(self, ins: Specs, attrs: Attrs) -> ValueBounds:
        return nonzero_integers(ins[1], 1)


class Remainder(BinaryOp):
    """The remainder of floor division; the sign is the divisor's."""

    array_function = "remainder"
    derivatives = (
        lambda g, y, a, b: sum_to(g, a.shape),
        lambda g, y, a, b: sum_to(-g * floor_divide(a, b), b.shape),
    )

    def value_bounds(self, ins: Specs, attrs: Attrs) -> ValueBounds:
        return nonzero_integers(ins[1], 1)


class Power(BinaryOp):
    """a ** b; the gradient by a is 0 where b is 0, also at a = 0; that by b is taken where a > 0, and 0 elsewhere."""

    array_function = "pow"
    derivatives = (
        lambda g, y, a, b: sum_to(where(equal(b, zeros_like(b)), zeros_like(g), g * b * power(a, b - 1)), a.shape),
        lambda g, y, a, b: sum_to(g * y * log(where(a > 0, a, ones_like(a))), b.shape),
    )


class Maximum(BinaryOp):
    """The larger of two; where they are equal the gradient goes to the first."""

    array_function = "maximum"
    derivatives = (
        lambda g, y, a, b: sum_to(where(a >= b, g, zeros_like(g)), a.shape),
        lambda g, y, a, b: sum_to(where(a >= b, zeros_like(g), g), b.shape),
    )


class Minimum(BinaryOp):
    """The smaller of two; where they are equal the gradient goes to the first."""

    array_function = "minimum"
    derivatives = (
        lambda g, y, a, b: sum_to(where(a <= b, g, zeros_like(g)), a.shape),
        lambda g, y, a, b: sum_to(where(a <= b, zeros_like(g), g), b.shape),
    )


class ComparisonOp(BinaryOp):
    inplace, result_dtype = {}, "bool"


class Less(ComparisonOp):
    array_function = "less"


class LessEqual(ComparisonOp):
    array_function = "less_equal"


class Equal(ComparisonOp):
    array_function = "equal"


class NotEqual(ComparisonOp):
    array_function = "not_equal"


class LogicalAnd(ComparisonOp):
    array_function = "logical_and"


class LogicalOr(ComparisonOp):
    array_function = "logical_or"


class Where(Op):
    """``where(condition, a, b)``: a where the condition holds, else b. All three broadcast."""

    elementwise = True
    derivatives = (
        None,
        lambda g, y, c, a, b: sum_to(where(c, g, zeros_like(g)), a.shape),
        lambda g, y, c, a, b: sum_to(where(c, zeros_like(g), g), b.shape),
    )

    def infer_spec(self, c: Spec, a: Spec, b: Spec) -> Spec:
        if c.dtype != "bool":
            raise self.shape_error(f"expected a condition of dtype bool, got {c.dtype}")
        if a.dtype != b.dtype:
            raise self.shape_error(f"expected two inputs of the same dtype, got {a.dtype} and {b.dtype}")
        return Spec(broadcast_shapes(self, (c.shape, a.shape, b.shape)), a.dtype)

    def reference(self, xp: Any, c: Any, a: Any, b: Any) -> Any:
        return xp.where(c, a, b)


class Full(Op):
    """``full(shape=, value=, dtype=)``: an array filled with one value."""

    derivatives = ()
    flops = no_flops
    cheap_to_recompute = True

    def infer_spec(self, shape: tuple[int, ...], value: float, dtype: str = "float32") -> Spec:
        return Spec(shape, dtype)

    def reference(self, xp: Any, shape: tuple[int, ...], value: float, dtype: str = "float32") -> Any:
        return xp.full(shape, value, dtype=resolve_dtype(xp, dtype))

    def unbatched_dependence(self, ins: Specs, out: Spec, attrs: Attrs, dependences: Dependences) -> BatchDependence:
        return UNIFORM if out.ndim else INDEPENDENT


negative, exp, expm1, log, log1p, sqrt, rsqrt = Negative(), Exp(), Expm1(), Log(), Log1p(), Sqrt(), Rsqrt()
square, abs_, sign, floor, ceil, round_ = Square(), Abs(), Sign(), Floor(), Ceil(), Round()
tanh, sin, cos, isfinite, logical_not = Tanh(), Sin(), Cos(), IsFinite(), LogicalNot()
cast, stop_gradient = Cast(), StopGradient()
add, subtract, multiply, divide, power = Add(), Subtract(), Multiply(), Divide(), Power()
floor_divide, remainder, maximum, minimum = FloorDivide(), Remainder(), Maximum(), Minimum()
less, less_equal, equal, not_equal = Less(), LessEqual(), Equal(), NotEqual()
logical_and, logical_or, where, full = LogicalAnd(), LogicalOr(), Where(), Full()


@op_function
def zeros_like(x: Any) -> Any:
    """A zero that broadcasts to x (a scalar of its dtype)."""
    return full.apply_like(x, shape=(), value=0, dtype=x.dtype)


@op_function
def ones_like(x: Any) -> Any:
    """A one that broadcasts to x (a scalar of its dtype)."""
    return full.apply_like(x, shape=(), value=1, dtype=x.dtype)


@op_function
def greater(a: Any, b: Any) -> Any:
    """a > b."""
    return less(b, a)


@op_function
def greater_equal(a: Any, b: Any) -> Any:
    """a >= b."""
    return less_equal(b, a)


@op_function
def clip(x: Any, low: float | None = None, high: float | None = None) -> Any:
    """x limited to the interval [low, high]; the gradient is 0 outside."""
    x = x if low is None else maximum(x, low)
    return x if high is None else minimum(x, high)
