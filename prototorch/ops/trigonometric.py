"""Trigonometric and hyperbolic functions, and their inverses; angles are in radians. Sine, cosine and tanh are in
`prototorch.ops.elementwise`."""

from __future__ import annotations

from prototorch.ops.elementwise import BinaryOp, UnaryOp, rsqrt, square
from prototorch.ops.reduce import sum_to
from prototorch.spec import Spec


class Tan(UnaryOp):
    array_function = "tan"
    derivatives = (lambda g, y, x: g * (square(y) + 1),)


class Asin(UnaryOp):
    """The angle in [-pi/2, pi/2] with this sine; NaN outside [-1, 1]."""

    array_function = "asin"
    derivatives = (lambda g, y, x: g * rsqrt(1 - square(x)),)


class Acos(UnaryOp):
    """The angle in [0, pi] with this cosine; NaN outside [-1, 1]."""

    array_function = "acos"
    derivatives = (lambda g, y, x: -g * rsqrt(1 - square(x)),)


class Atan(UnaryOp):
    """The angle in (-pi/2, pi/2) with this tangent."""

    array_function = "atan"
    derivatives = (lambda g, y, x: g / (square(x) + 1),)


class Sinh(UnaryOp):
    array_function = "sinh"
    derivatives = (lambda g, y, x: g * cosh(x),)


class Cosh(UnaryOp):
    array_function = "cosh"
    derivatives = (lambda g, y, x: g * sinh(x),)


class Asinh(UnaryOp):
    array_function = "asinh"
    derivatives = (lambda g, y, x: g * rsqrt(square(x) + 1),)


class Acosh(UnaryOp):
    """The inverse of cosh on [1, inf); NaN below 1."""

    array_function = "acosh"
    derivatives = (lambda g, y, x: g * rsqrt(square(x) - 1),)


class Atanh(UnaryOp):
    """The inverse of tanh; NaN outside [-1, 1]."""

    array_function = "atanh"
    derivatives = (lambda g, y, x: g / (1 - square(x)),)


class Atan2(BinaryOp):
    """``atan2(y, x)``: the angle in [-pi, pi] of the point (x, y). The gradient at the origin is NaN."""

    array_function = "atan2"
    derivatives = (
        lambda g, out, y, x: sum_to(g * (x / (square(x) + square(y))), y.shape),
        lambda g, out, y, x: sum_to(-g * (y / (square(x) + square(y))), x.shape),
    )

    def infer_spec(self, a: Spec, b: Spec) -> Spec:
        if not a.is_float:
            raise self.shape_error(f"expected floating-point elements, got {a.dtype}")
        return super().infer_spec(a, b)


tan, asin, acos, atan, atan2 = Tan(), Asin(), Acos(), Atan(), Atan2()
sinh, cosh, asinh, acosh, atanh = Sinh(), Cosh(), Asinh(), Acosh(), Atanh()
