"""Parts and classes of floating-point numbers: infinities, NaN, signs, whole parts, remainders with C's sign."""

from __future__ import annotations

from typing import Any

from prototorch.ops.elementwise import BinaryOp, UnaryOp, sign
from prototorch.ops.facts import Attrs, Specs, ValueBounds, nonzero_integers
from prototorch.ops.reduce import sum_to
from prototorch.spec import Spec


class _FloatTest(UnaryOp):
    """A bool for each element; inputs may be integers or bool, too."""

    inplace = {}
    float_only = False

    def infer_spec(self, x: Spec) -> Spec:
        return Spec(x.shape, "bool")


class Isnan(_FloatTest):
    """True where an element is NaN."""

    def reference(self, xp: Any, x: Any) -> Any:
        return x != x


class Isinf(_FloatTest):
    """True where an element is infinite, of either sign."""

    def reference(self, xp: Any, x: Any) -> Any:
        infinity = float("inf")
        if "float" not in str(x.dtype):
            return x != x
        return (x == infinity) | (x == -infinity)


class Signbit(_FloatTest):
    """True where the sign bit is set: for negative numbers and -0.0."""

    float_only = True

    def infer_spec(self, x: Spec) -> Spec:
        UnaryOp.infer_spec(self, x)
        return Spec(x.shape, "bool")

    def reference(self, xp: Any, x: Any) -> Any:
        return xp.signbit(x)


class Trunc(UnaryOp):
    """The integer part: the nearest integer towards 0."""

    array_function = "trunc"


class Fmod(BinaryOp):
    """The remainder of a division that rounds towards 0: the sign is the dividend's, as in C."""

    derivatives = (lambda g, y, a, b: sum_to(g, a.shape), lambda g, y, a, b: sum_to(-g * trunc(a / b), b.shape))

    def value_bounds(self, ins: Specs, attrs: Attrs) -> ValueBounds:
        return nonzero_integers(ins[1], 1)

    def reference(self, xp: Any, a: Any, b: Any) -> Any:
        if not str(a.dtype).startswith(("float", "bfloat")):  # the smallest integer has no absolute value
            rest = xp.remainder(a, b)
            return xp.where((rest != 0) & ((rest < 0) ^ (a < 0)), rest - b, rest)
        rest = xp.remainder(xp.abs(a), xp.abs(b))
        return xp.where(a < 0, -rest, rest)


class Hypot(BinaryOp):
    """sqrt(a * a + b * b) without overflow."""

    array_function = "hypot"
    derivatives = (lambda g, y, a, b: sum_to(g * a / y, a.shape), lambda g, y, a, b: sum_to(g * b / y, b.shape))


class Copysign(BinaryOp):
    """The size of ``a`` with the sign of ``b``. The gradient by ``a`` is 0 where a is 0."""

    array_function = "copysign"
    derivatives = (lambda g, y, a, b: sum_to(g * sign(y) * sign(a), a.shape), None)


class Nextafter(BinaryOp):
    """The next floating-point number after ``a`` in the direction of ``b``."""

    array_function = "nextafter"
    derivatives = (lambda g, y, a, b: sum_to(g, a.shape), None)


isnan, isinf, signbit, trunc, fmod = Isnan(), Isinf(), Signbit(), Trunc(), Fmod()
hypot, copysign, nextafter = Hypot(), Copysign(), Nextafter()
