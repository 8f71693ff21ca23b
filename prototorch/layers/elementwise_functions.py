"""Functions of each element by itself, without weights: absolute values, roots, logarithms, bounds."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from prototorch import ops
from prototorch.layers.base import Layer
from prototorch.layers.context import ArrayValue, Context
from prototorch.schema import example, field

_SHAPES = [(3,), (2, 1, 3)]


class _Function(Layer):
    """One op of one input; the classes below name it."""

    mask_policy = "keep"
    independent_steps = True
    function: ClassVar[Any]

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        return type(self).function(x)


class Abs(_Function):
    """The absolute value of each element (keras.ops.abs)."""

    symbolic_function = "abs"
    function = staticmethod(ops.abs)
    examples = [example("Abs { }", inputs=[s]) for s in _SHAPES]


class Square(_Function):
    """x * x (keras.ops.square)."""

    symbolic_function = "square"
    function = staticmethod(ops.square)
    examples = [example("Square { }", inputs=[s]) for s in _SHAPES]


class Sqrt(_Function):
    """The square root of each element, NaN below 0 (keras.ops.sqrt)."""

    symbolic_function = "sqrt"
    function = staticmethod(ops.sqrt)
    examples = [example("Sqrt { }", inputs=[s], range=(0.5, 3)) for s in _SHAPES]


class Log(_Function):
    """The natural logarithm of each element, NaN below 0 (keras.ops.log)."""

    symbolic_function = "log"
    function = staticmethod(ops.log)
    examples = [example("Log { }", inputs=[s], range=(0.5, 3)) for s in _SHAPES]


class Reciprocal(_Function):
    """1 / x (keras.ops.reciprocal)."""

    symbolic_function = "reciprocal"
    function = staticmethod(lambda x: 1.0 / x)
    examples = [example("Reciprocal { }", inputs=[s], range=(0.5, 3)) for s in _SHAPES]


class Negative(_Function):
    """-x (keras.ops.negative)."""

    symbolic_function = "neg"
    function = staticmethod(ops.negative)
    examples = [example("Negative { }", inputs=[s]) for s in _SHAPES]


class Floor(_Function):
    """The largest integer that is not above each element (keras.ops.floor). Its derivative is 0."""

    symbolic_function = "floor"
    function = staticmethod(ops.floor)
    examples = [example("Floor { }", inputs=[(4,)], range=(-3, 3))]


class Ceil(_Function):
    """The smallest integer that is not below each element (keras.ops.ceil). Its derivative is 0."""

    symbolic_function = "ceil"
    function = staticmethod(ops.ceil)
    examples = [example("Ceil { }", inputs=[(4,)], range=(-3, 3))]


class Round(_Function):
    """The nearest integer of each element, the even one of two (keras.ops.round). Its derivative is 0."""

    symbolic_function = "round"
    function = staticmethod(ops.round)
    examples = [example("Round { }", inputs=[(4,)], range=(-3, 3))]


class Sign(_Function):
    """-1, 0 or 1 by the sign of each element (keras.ops.sign). Its derivative is 0."""

    symbolic_function = "sign"
    function = staticmethod(ops.sign)
    examples = [example("Sign { }", inputs=[s]) for s in _SHAPES]


class Sin(_Function):
    """The sine of each element (keras.ops.sin)."""

    symbolic_function = "sin"
    function = staticmethod(ops.sin)
    examples = [example("Sin { }", inputs=[s]) for s in _SHAPES]


class Cos(_Function):
    """The cosine of each element (keras.ops.cos)."""

    symbolic_function = "cos"
    function = staticmethod(ops.cos)
    examples = [example("Cos { }", inputs=[s]) for s in _SHAPES]


class Erf(_Function):
    """The error function of each element (keras.ops.erf)."""

    symbolic_function = "erf"
    function = staticmethod(ops.erf)
    examples = [example("Erf { }", inputs=[s]) for s in _SHAPES]


class Tan(_Function):
    """The tangent of each element (keras.ops.tan)."""

    symbolic_function = "tan"
    function = staticmethod(lambda x: ops.sin(x) / ops.cos(x))  # both have kernels of their own
    examples = [example("Tan { }", inputs=[s], range=(-1, 1)) for s in _SHAPES]


class Log1p(_Function):
    """log(1 + x), exact for small x, NaN below -1 (keras.ops.log1p)."""

    symbolic_function = "log1p"
    function = staticmethod(ops.log1p)
    examples = [example("Log1p { }", inputs=[s], range=(-0.5, 3)) for s in _SHAPES]


class Expm1(_Function):
    """exp(x) - 1, exact for small x (keras.ops.expm1)."""

    symbolic_function = "expm1"
    function = staticmethod(ops.expm1)
    examples = [example("Expm1 { }", inputs=[s]) for s in _SHAPES]


class Clip(Layer):
    """Each element brought between two bounds (keras.ops.clip). Input and output [batch, ...]."""

    mask_policy = "keep"
    independent_steps = True
    min: float | None = field(default=None, doc="The lower bound; none for no bound.")
    max: float | None = field(default=None, doc="The upper bound; none for no bound.")
    examples = [
        example("Clip { min: -0.5  max: 0.5 }", inputs=[(5,)]),
        example("Clip { max: 0.25 }", inputs=[(2, 3)]),
    ]

    def check(self) -> None:
        """The bounds are in order."""
        if self.min is not None and self.max is not None and self.min > self.max:
            self.refuse(f"min {self.min} is larger than max {self.max}", "max")

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        if x.dtype.startswith("float"):
            return ops.clip(x, self.min, self.max)
        return ops.clip(x, *(None if limit is None else int(limit) for limit in (self.min, self.max)))


class Cast(Layer):
    """The elements as another type (keras.ops.cast). Floating-point numbers become integers by cutting off."""

    mask_policy = "keep"
    independent_steps = True
    dtype: Literal["float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16",
                   "uint8", "bool"] = field(doc="The type of the output's elements.")  # fmt: skip
    examples = [
        example("Cast { dtype: float32 }", inputs=[(3,)], dtype="uint8"),
        example("Cast { dtype: int32 }", inputs=[(2, 2)]),
    ]

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        return ops.cast(x, dtype=self.dtype)
