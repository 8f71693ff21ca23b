"""Merging layers: several inputs become one. A text may hold branches: ``Add { branch { ... } branch { } }``."""

from __future__ import annotations

from functools import reduce
from typing import Any, ClassVar

from prototorch import ops
from prototorch.layers.base import Layer
from prototorch.layers.context import ArrayValue, Context
from prototorch.schema import example, field


class MergeLayer(Layer, abstract=True):
    """Several inputs, one output."""

    #: a text may give the inputs as branches
    accepts_branches: ClassVar[bool] = True
    inputs: ClassVar[int | tuple[int, int | None]] = (2, None)

    def joint_mask(self, ctx: Context, values: tuple[Any, ...]) -> Any | None:
        """The steps that count in every input that has a mask."""
        masks = [m for m in map(ctx.mask, values) if m is not None]
        return reduce(ops.logical_and, masks) if masks else None


class _Elementwise(MergeLayer):
    """Inputs of one shape, or of shapes that broadcast (sizes of 1 are repeated), combined element by element."""

    def call(self, ctx: Context, *inputs: ArrayValue) -> Any:
        ranks = {x.ndim for x in inputs}
        if len(ranks) > 1:
            shapes = ", ".join(str(list(x.shape[1:])) for x in inputs)
            ctx.fail(f"its inputs must have the same number of dimensions, got {shapes}")
        y = self.combine(inputs)
        ctx.set_mask(y, self.joint_mask(ctx, inputs))
        return y

    def combine(self, inputs: tuple[Any, ...]) -> Any:
        """The inputs as one."""
        raise TypeError(f"{type(self).__name__} does not define merged")


class Add(_Elementwise):
    """The sum of all inputs (Keras). Inputs [batch, ...] of one shape, output the same; sizes of 1 are repeated."""

    examples = [
        example("Add { }", inputs=[(2, 3), (2, 3)]),
        example("Add { }", inputs=[(2, 3, 1), (1, 3, 2), (2, 3, 2)]),
    ]

    def combine(self, inputs: tuple[Any, ...]) -> Any:
        return reduce(ops.add, inputs)


class Subtract(_Elementwise):
    """The first input less the second (Keras). Two inputs [batch, ...] of one shape; sizes of 1 are repeated."""

    inputs = 2
    examples = [
        example("Subtract { }", inputs=[(2, 3), (2, 3)]),
        example("Subtract { }", inputs=[(2, 1), (1, 3)]),
    ]

    def combine(self, inputs: tuple[Any, ...]) -> Any:
        return inputs[0] - inputs[1]


class Multiply(_Elementwise):
    """The product of all inputs (Keras). Inputs [batch, ...] of one shape; sizes of 1 are repeated."""

    examples = [
        example("Multiply { }", inputs=[(2, 3), (2, 3)]),
        example("Multiply { }", inputs=[(3, 2, 2), (3, 1, 1), (3, 2, 1)]),
    ]

    def combine(self, inputs: tuple[Any, ...]) -> Any:
        return reduce(ops.multiply, inputs)


class Average(_Elementwise):
    """The mean of all inputs (Keras). Inputs [batch, ...] of one shape; sizes of 1 are repeated."""

    examples = [
        example("Average { }", inputs=[(2, 3), (2, 3)]),
        example("Average { }", inputs=[(4,), (1,), (4,)]),
    ]

    def combine(self, inputs: tuple[Any, ...]) -> Any:
        return reduce(ops.add, inputs) * (1.0 / len(inputs))


class Maximum(_Elementwise):
    """The largest of the inputs, element by element (Keras).

    Inputs [batch, ...] of one shape; sizes of 1 are repeated.
    """

    examples = [
        example("Maximum { }", inputs=[(2, 3), (2, 3)]),
        example("Maximum { }", inputs=[(4,), (1,), (4,)]),
    ]

    def combine(self, inputs: tuple[Any, ...]) -> Any:
        return reduce(ops.maximum, inputs)


class Minimum(_Elementwise):
    """The smallest of the inputs, element by element (Keras).

    Inputs [batch, ...] of one shape; sizes of 1 are repeated.
    """

    examples = [
        example("Minimum { }", inputs=[(2, 3), (2, 3)]),
        example("Minimum { }", inputs=[(4,), (1,), (4,)]),
    ]

    def combine(self, inputs: tuple[Any, ...]) -> Any:
        return reduce(ops.minimum, inputs)


class Concatenate(MergeLayer):
    """The inputs one after the other along an axis (Keras; the default axis is the channels').

    Inputs [batch, ...] that differ along that axis only. Axes count the batch dimension, so 1 is the first of a shape
    in a text and -1 the last.
    """

    aliases = ("Concat",)
    axis: int = field(default=1, doc="The axis, the batch dimension being 0.")
    examples = [
        example("Concatenate { }", inputs=[(2, 3), (1, 3)]),
        example("Concatenate { axis: -1 }", inputs=[(2, 1, 3), (2, 1, 1), (2, 1, 2)]),
    ]

    def call(self, ctx: Context, *inputs: ArrayValue) -> Any:
        if self.axis in (0, -inputs[0].ndim):
            ctx.fail("axis 0 is the batch dimension; examples are not joined")
        y = ops.concat(*inputs, axis=self.axis)
        mask = self.joint_mask(ctx, inputs)
        if mask is not None and mask.shape == y.shape[:2]:
            ctx.set_mask(y, mask)
        return y
