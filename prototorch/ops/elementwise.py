"""Elementwise ops, with NumPy's broadcasting rules."""

from __future__ import annotations

from typing import Any

from prototorch.ops.core import Op, narrowable, typed
from prototorch.ops.reduce import sum_to
from prototorch.spec import Spec


def broadcast(op: Op, shapes: tuple[tuple[int, ...], ...]) -> tuple[int, ...]:
    """The shape that the shapes broadcast to; ShapeError with both numbers where they do not."""
    out: list[int] = []
    for axis in range(-max(map(len, shapes), default=0), 0):
        sizes = {s[axis] for s in shapes if len(s) >= -axis} - {1}
        if len(sizes) > 1:
            shown = " and ".join(str(list(s)) for s in shapes)
            raise op.fail(f"shapes {shown} do not fit: axis {axis} has {' and '.join(map(str, sorted(sizes)))}")
        out.append(sizes.pop() if sizes else 1)
    return tuple(out)


class Unary(Op):
    """One input, an output of the same shape and type."""

    elementwise = True
    inplace = {0: 0}
    function = ""  # the array module's name of it, where that is all there is to it
    only_float = True

    @narrowable
    def rule(self, x: Spec, **attrs: Any) -> Spec:
        if self.only_float and not x.is_float:
            raise self.fail(f"wants floating-point numbers, not {x.dtype}")
        return Spec(x.shape, x.dtype)

    @narrowable
    def plain(self, xp: Any, x: Any, **attrs: Any) -> Any:
        return getattr(xp, self.function)(x)


class Binary(Op):
    """Two inputs that broadcast, of one type."""

    elementwise = True
    inplace = {0: 0}
    function = ""
    result: str | None = None  # the output's type where it is not the inputs'

    def rule(self, a: Spec, b: Spec) -> Spec:
        if a.dtype != b.dtype:
            raise self.fail(f"wants two inputs of one type, not {a.dtype} and {b.dtype}; cast one of them first")
        return Spec(broadcast(self, (a.shape, b.shape)), self.result or a.dtype)

    def plain(self, xp: Any, a: Any, b: Any) -> Any:
        return getattr(xp, self.function)(a, b)


class Negative(Unary):
    function, only_float = "negative", False
    derivatives = (lambda g, y, x: -g,)


class Exp(Unary):
    function = "exp"
    derivatives = (lambda g, y, x: g * y,)


class Expm1(Unary):
    function = "expm1"
    derivatives = (lambda g, y, x: g * (y + 1),)


class Log(Unary):
    function = "log"
    derivatives = (lambda g, y, x: g / x,)


class Log1p(Unary):
    function = "log1p"
    derivatives = (lambda g, y, x: g / (x + 1),)


class Sqrt(Unary):
    function = "sqrt"
    derivatives = (lambda g, y, x: g * 0.5 / y,)


class Rsqrt(Unary):
    """1 / sqrt(x)."""

    derivatives = (lambda g, y, x: g * -0.5 * y * y * y,)

    def plain(self, xp: Any, x: Any) -> Any:
        return 1 / xp.sqrt(x)


class Square(Unary):
    only_float = False
    derivatives = (lambda g, y, x: g * 2 * x,)

    def plain(self, xp: Any, x: Any) -> Any:
        return x * x


class Absolute(Unary):
    function, only_float = "abs", False
    derivatives = (lambda g, y, x: g * sign(x),)


class Sign(Unary):
    function, only_float = "sign", False


class Floor(Unary):
    function = "floor"


class Ceil(Unary):
    function = "ceil"


class Round(Unary):
    """To the nearest whole number, halves to even."""

    function = "round"


class Tanh(Unary):
    function = "tanh"
    derivatives = (lambda g, y, x: g * (1 - y * y),)


class Sin(Unary):
    function = "sin"
    derivatives = (lambda g, y, x: g * cos(x),)


class Cos(Unary):
    function = "cos"
    derivatives = (lambda g, y, x: -g * sin(x),)


class IsFinite(Unary):
    """True where an element is neither infinite nor NaN."""

    inplace = {}
    function = "isfinite"

    def rule(self, x: Spec) -> Spec:
        return Spec(x.shape, "bool")


class LogicalNot(Unary):
    function, only_float = "logical_not", False


class Cast(Op):
    """The same numbers in another type: ``cast(x, dtype="float32")``. Gradients pass between floating-point types."""

    elementwise = True
    derivatives = (lambda g, y, x, dtype: cast(g, dtype=x.dtype),)

    def rule(self, x: Spec, dtype: str) -> Spec:
        return Spec(x.shape, dtype)

    def plain(self, xp: Any, x: Any, dtype: str) -> Any:
        return xp.astype(x, typed(xp, dtype))


class StopGradient(Unary):
    """The input as it is; no gradient passes."""

    only_float, view = False, True

    def plain(self, xp: Any, x: Any) -> Any:
        return x


class Add(Binary):
    function = "add"
    derivatives = (lambda g, y, a, b: sum_to(g, a.shape), lambda g, y, a, b: sum_to(g, b.shape))


class Subtract(Binary):
    function = "subtract"
    derivatives = (lambda g, y, a, b: sum_to(g, a.shape), lambda g, y, a, b: sum_to(-g, b.shape))


class Multiply(Binary):
    function = "multiply"
    derivatives = (lambda g, y, a, b: sum_to(g * b, a.shape), lambda g, y, a, b: sum_to(g * a, b.shape))


class Divide(Binary):
    function = "divide"
    derivatives = (lambda g, y, a, b: sum_to(g / b, a.shape), lambda g, y, a, b: sum_to(-g * y / b, b.shape))

    def rule(self, a: Spec, b: Spec) -> Spec:
        if not a.is_float:
            raise self.fail(f"wants floating-point numbers, not {a.dtype}")
        return super().rule(a, b)


class FloorDivide(Binary):
    function = "floor_divide"


class Remainder(Binary):
    """The remainder of floor division; the sign is the divisor's."""

    function = "remainder"


class Power(Binary):
    """a ** b; the gradient by b is taken where a > 0 and is 0 elsewhere."""

    function = "pow"
    derivatives = (
        lambda g, y, a, b: sum_to(g * b * power(a, b - 1), a.shape),
        lambda g, y, a, b: sum_to(g * y * log(where(a > 0, a, ones_like(a))), b.shape),
    )


class Maximum(Binary):
    """The larger of two; where they are equal the gradient goes to the first."""

    function = "maximum"
    derivatives = (
        lambda g, y, a, b: sum_to(where(a >= b, g, zeros_like(g)), a.shape),
        lambda g, y, a, b: sum_to(where(a >= b, zeros_like(g), g), b.shape),
    )


class Minimum(Binary):
    """The smaller of two; where they are equal the gradient goes to the first."""

    function = "minimum"
    derivatives = (
        lambda g, y, a, b: sum_to(where(a <= b, g, zeros_like(g)), a.shape),
        lambda g, y, a, b: sum_to(where(a <= b, zeros_like(g), g), b.shape),
    )


class _Comparison(Binary):
    inplace, result = {}, "bool"


class Less(_Comparison):
    function = "less"


class LessEqual(_Comparison):
    function = "less_equal"


class Equal(_Comparison):
    function = "equal"


class NotEqual(_Comparison):
    function = "not_equal"


class LogicalAnd(_Comparison):
    function = "logical_and"


class LogicalOr(_Comparison):
    function = "logical_or"


class Where(Op):
    """``where(condition, a, b)``: a where the condition holds, else b. All three broadcast."""

    elementwise = True
    derivatives = (
        None,
        lambda g, y, c, a, b: sum_to(where(c, g, zeros_like(g)), a.shape),
        lambda g, y, c, a, b: sum_to(where(c, zeros_like(g), g), b.shape),
    )

    def rule(self, c: Spec, a: Spec, b: Spec) -> Spec:
        if c.dtype != "bool":
            raise self.fail(f"wants a condition of type bool, not {c.dtype}")
        if a.dtype != b.dtype:
            raise self.fail(f"wants two choices of one type, not {a.dtype} and {b.dtype}")
        return Spec(broadcast(self, (c.shape, a.shape, b.shape)), a.dtype)

    def plain(self, xp: Any, c: Any, a: Any, b: Any) -> Any:
        return xp.where(c, a, b)


class Full(Op):
    """``full(shape=, value=, dtype=)``: one number everywhere."""

    derivatives = ()

    def rule(self, shape: tuple[int, ...], value: float, dtype: str = "float32") -> Spec:
        return Spec(shape, dtype)

    def plain(self, xp: Any, shape: tuple[int, ...], value: float, dtype: str = "float32") -> Any:
        return xp.full(shape, value, dtype=typed(xp, dtype))


negative, exp, expm1, log, log1p, sqrt, rsqrt = Negative(), Exp(), Expm1(), Log(), Log1p(), Sqrt(), Rsqrt()
square, absolute, sign, floor, ceil, round_ = Square(), Absolute(), Sign(), Floor(), Ceil(), Round()
tanh, sin, cos, isfinite, logical_not = Tanh(), Sin(), Cos(), IsFinite(), LogicalNot()
cast, stop_gradient = Cast(), StopGradient()
add, subtract, multiply, divide, power = Add(), Subtract(), Multiply(), Divide(), Power()
floor_divide, remainder, maximum, minimum = FloorDivide(), Remainder(), Maximum(), Minimum()
less, less_equal, equal, not_equal = Less(), LessEqual(), Equal(), NotEqual()
logical_and, logical_or, where, full = LogicalAnd(), LogicalOr(), Where(), Full()


def zeros_like(x: Any) -> Any:
    """A zero that broadcasts to x (a scalar of its type)."""
    return full(shape=(), value=0, dtype=x.dtype)


def ones_like(x: Any) -> Any:
    """A one that broadcasts to x (a scalar of its type)."""
    return full(shape=(), value=1, dtype=x.dtype)


def greater(a: Any, b: Any) -> Any:
    """a > b."""
    return less(b, a)


def greater_equal(a: Any, b: Any) -> Any:
    """a >= b."""
    return less_equal(b, a)


def clip(x: Any, low: float | None = None, high: float | None = None) -> Any:
    """x held between two numbers; the gradient is 0 outside."""
    x = x if low is None else maximum(x, low)
    return x if high is None else minimum(x, high)
