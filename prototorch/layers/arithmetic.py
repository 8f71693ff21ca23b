"""Two inputs combined element by element beyond sums and products: quotients, powers, comparisons, choices."""

from __future__ import annotations

from typing import Any, ClassVar

from prototorch import ops
from prototorch.layers.base import Layer
from prototorch.layers.context import ArrayValue, Context
from prototorch.layers.merge import check_shapes
from prototorch.schema import example, field

_RULE = "must have one shape (sizes of 1 are repeated)"


class _Binary(Layer):
    """Two inputs of one shape, or of shapes that broadcast; one op."""

    inputs = 2
    mask_policy = "keep"
    independent_steps = True
    function: ClassVar[Any]

    def call(self, ctx: Context, *inputs: ArrayValue) -> Any:
        check_shapes(ctx, inputs, _RULE, repeats_ones=True)
        return type(self).function(*inputs)


class Divide(_Binary):
    """The first input divided by the second (keras.ops.divide). Inputs [batch, ...] of one shape; sizes of 1 are
    repeated."""

    symbolic_function = "div"
    function = staticmethod(ops.divide)
    examples = [
        example("Divide { }", inputs=[(2, 3), (2, 3)], range=(0.5, 2)),
        example("Divide { }", inputs=[(2, 1), (1, 3)], range=(0.5, 2)),
    ]


class Mod(_Binary):
    """The remainder of the first input divided by the second, with the second's sign (keras.ops.mod)."""

    symbolic_function = "remainder"
    function = staticmethod(ops.remainder)
    examples = [example("Mod { }", inputs=[(2, 3), (2, 3)], dtype="int32", range=(1, 9))]


class Equal(_Binary):
    """Whether two inputs are equal, element by element (keras.ops.equal). Output bool."""

    symbolic_function = "eq"
    function = staticmethod(ops.equal)
    examples = [example("Equal { }", inputs=[(2, 3), (1, 3)], dtype="int32", range=(0, 3))]


class Less(_Binary):
    """Whether the first input is less than the second, element by element (keras.ops.less). Output bool."""

    symbolic_function = "lt"
    function = staticmethod(ops.less)
    examples = [example("Less { }", inputs=[(2, 3), (2, 3)])]


class LessEqual(_Binary):
    """Whether the first input is at most the second, element by element (keras.ops.less_equal). Output bool."""

    symbolic_function = "le"
    function = staticmethod(ops.less_equal)
    examples = [example("LessEqual { }", inputs=[(2, 3), (2, 3)])]


class Greater(_Binary):
    """Whether the first input is larger than the second, element by element (keras.ops.greater). Output bool."""

    symbolic_function = "gt"
    function = staticmethod(ops.greater)
    examples = [example("Greater { }", inputs=[(2, 3), (2, 3)])]


class GreaterEqual(_Binary):
    """Whether the first input is at least the second, element by element (keras.ops.greater_equal). Output bool."""

    symbolic_function = "ge"
    function = staticmethod(ops.greater_equal)
    examples = [example("GreaterEqual { }", inputs=[(2, 3), (2, 3)])]


class LogicalAnd(_Binary):
    """Whether both inputs, of type bool, are true (keras.ops.logical_and)."""

    symbolic_function = "logical_and"
    function = staticmethod(ops.logical_and)
    examples = [example("LogicalAnd { }", inputs=[(2, 3), (2, 3)], dtype="bool")]


class LogicalOr(_Binary):
    """Whether one of two inputs of type bool is true, or both (keras.ops.logical_or)."""

    symbolic_function = "logical_or"
    function = staticmethod(ops.logical_or)
    examples = [example("LogicalOr { }", inputs=[(2, 3), (2, 3)], dtype="bool")]


class LogicalXor(_Binary):
    """Whether exactly one of two inputs of type bool is true (keras.ops.logical_xor)."""

    symbolic_function = "logical_xor"
    function = staticmethod(ops.not_equal)
    examples = [example("LogicalXor { }", inputs=[(2, 3), (2, 3)], dtype="bool")]


class LogicalNot(Layer):
    """Whether each element, of type bool, is false (keras.ops.logical_not)."""

    symbolic_function = "logical_not"
    mask_policy = "keep"
    independent_steps = True
    examples = [example("LogicalNot { }", inputs=[(2, 3)], dtype="bool")]

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        return ops.logical_not(x)


class Where(Layer):
    """The second input where the first, of type bool, is true, else the third (keras.ops.where).

    Inputs [batch, ...] of one shape; sizes of 1 are repeated.
    """

    symbolic_function = "where"
    inputs = 3
    examples = [
        example("Where { }", inputs=[(2, 3), (2, 3), (2, 3)], dtype=("bool", "float32", "float32")),
        example("Where { }", inputs=[(1, 3), (2, 1), (2, 3)], dtype=("bool", "float32", "float32")),
    ]

    def call(self, ctx: Context, *inputs: ArrayValue) -> Any:
        check_shapes(ctx, inputs, _RULE, repeats_ones=True)
        return ops.where(*inputs)


class Power(Layer):
    """The first input to the power of the second, element by element, or of ``exponent`` (keras.ops.power).

    One input with an exponent, or two inputs [batch, ...] of one shape; sizes of 1 are repeated. A negative number to
    the power of a fraction is NaN.
    """

    symbolic_function = "pow"
    inputs = (1, 2)
    mask_policy = "keep"
    independent_steps = True
    exponent: float | None = field(default=None, doc="The exponent, where there is one input.")
    examples = [
        example("Power { exponent: 2 }", inputs=[(2, 3)]),
        example("Power { exponent: -0.5 }", inputs=[(4,)], range=(0.5, 2)),
        example("Power { }", inputs=[(2, 3), (1, 3)], range=(0.5, 2)),
    ]

    def call(self, ctx: Context, *inputs: ArrayValue) -> Any:
        if (len(inputs) == 2) == (self.exponent is not None):
            ctx.fail("it takes a second input or an exponent, one of the two")
        x = inputs[0]
        if len(inputs) == 2:
            check_shapes(ctx, inputs, _RULE, repeats_ones=True)
            return ops.power(x, inputs[1])
        if self.exponent == 0.5:
            return ops.sqrt(x)
        if self.exponent is not None and self.exponent == int(self.exponent) and 1 <= self.exponent <= 4:
            y = x
            for _ in range(int(self.exponent) - 1):
                y = y * x
            return y
        return ops.power(x, self.exponent)
