"""Trained factors and shifts along some axes."""

from __future__ import annotations

from typing import Any, ClassVar

from prototorch import ops
from prototorch.constraints import Constraint
from prototorch.initializers.base import Initializer
from prototorch.layers.base import Layer
from prototorch.layers.context import ArrayValue, Context, DecodingContext
from prototorch.regularizers import Regularizer
from prototorch.schema import example, field


class _AlongAxes(Layer):
    """An input combined with an array that has the shape of some of its axes: a weight, or a second input."""

    channel_axis_note = "its fields `axis` and `num_axes` say it: axis 1, as in Caffe"
    inputs = (1, 2)
    mask_policy = "keep"
    array_name: ClassVar[str]
    axis: int = field(
        default=1, doc="The first of the axes, the batch dimension being 0. Of a scalar it has no effect."
    )
    num_axes: int = field(
        default=1, min=-1, doc="How many axes the weight has; 0 for a scalar, -1 for all from axis on."
    )

    def decode_steps(self, ctx: DecodingContext, *inputs: ArrayValue) -> Any:
        is_within_step = len(inputs) == 1 and (self.first_axis(ctx, inputs[0]) > 1 or self.num_axes == 0)
        self.check_independent_steps(ctx, is_within_step, *inputs)
        return self.record(ctx, *inputs)

    def first_axis(self, ctx: Context, x: ArrayValue) -> int:
        """`axis` as a non-negative index."""
        index = self.axis + x.ndim if self.axis < 0 else self.axis
        if not 0 <= index < x.ndim:
            ctx.fail(f"axis {self.axis} does not exist: the axes of {list(x.shape[1:])} are 1 to {x.ndim - 1}")
        return index

    def weight_shape(self, ctx: Context, x: ArrayValue) -> tuple[int, ...]:
        """The shape of the weight: that of the axes."""
        axis = self.first_axis(ctx, x)
        if axis + self.num_axes > x.ndim:
            ctx.fail(
                f"num_axes {self.num_axes} from axis {axis} on: the input with its batch dimension has {x.ndim} axes"
            )
        return tuple(x.shape[axis:] if self.num_axes == -1 else x.shape[axis : axis + self.num_axes])

    def check_second(self, ctx: Context, x: ArrayValue, second: ArrayValue) -> int:
        """The first axis of x that the second input covers; ShapeError where their sizes differ."""
        axis = self.first_axis(ctx, x) if second.ndim else 0
        covered = tuple(x.shape[axis : axis + second.ndim])
        if covered != tuple(second.shape):
            ctx.fail(
                f"the {self.array_name} {list(second.shape)} must have the shape of the axes from {axis} on of "
                f"{list(x.shape)}, which is {list(covered)}"
            )
        return axis


class Scale(_AlongAxes):
    """The input times a trained factor for each position of some axes, plus a trained bias if asked for (Caffe).

    Input and output [batch, ...]; ``scale`` and ``bias`` have the shape of ``num_axes`` axes from ``axis`` on: one
    number for each channel by default. A second input, of the shape of as many axes, is the factor instead of the
    weight; with the default axis that is one for each position of a sample, with ``axis: 0`` one for each sample.
    """

    array_name = "scale"
    use_bias: bool = field(default=False, doc="Whether a bias is added.")
    scale_initializer: Initializer = field(default="ones", doc="Initializer of the scale.")
    bias_initializer: Initializer = field(default="zeros", doc="Initializer of the bias.")
    scale_regularizer: Regularizer | None = field(default=None, doc="Regularizer of the scale.")
    bias_regularizer: Regularizer | None = field(default=None, doc="Regularizer of the bias.")
    scale_constraint: Constraint | None = field(default=None, doc="Constraint on the scale.")
    bias_constraint: Constraint | None = field(default=None, doc="Constraint on the bias.")
    examples = [
        example("Scale { }", inputs=[(3, 2)]),
        example("Scale { use_bias: true }", inputs=[(3, 2, 2)]),
        example("Scale { axis: -2  num_axes: 2  use_bias: true }", inputs=[(2, 3, 2)]),
        example("Scale { num_axes: 0  use_bias: true }", inputs=[(3,)]),
        example("Scale { axis: 0 }", inputs=[(2, 3), (2, 3)]),
        example("Scale { axis: 0 }", inputs=[(2, 3), ()]),
    ]

    def call(self, ctx: Context, x: ArrayValue, *second: ArrayValue) -> Any:
        if second:
            scale, axis = second[0], self.check_second(ctx, x, second[0])
        else:
            axis = self.first_axis(ctx, x)
            scale = ctx.weight(
                "scale",
                self.weight_shape(ctx, x),
                self.scale_initializer,
                regularizer=self.scale_regularizer,
                constraint=self.scale_constraint,
            )
        if not self.use_bias:
            return ops.scale_shift(x, scale, axis=axis)
        bias = ctx.weight(
            "bias",
            tuple(scale.shape),
            self.bias_initializer,
            regularizer=self.bias_regularizer,
            constraint=self.bias_constraint,
        )
        return ops.scale_shift(x, scale, bias, axis=axis)


class Bias(_AlongAxes):
    """The input plus a trained number for each position of some axes (Caffe).

    Input and output [batch, ...]; ``bias`` has the shape of ``num_axes`` axes from ``axis`` on: one number for each
    channel by default. A second input, of the shape of as many axes, is added instead of the weight.
    """

    array_name = "bias"
    bias_initializer: Initializer = field(default="zeros", doc="Initializer of the bias.")
    bias_regularizer: Regularizer | None = field(default=None, doc="Regularizer of the bias.")
    bias_constraint: Constraint | None = field(default=None, doc="Constraint on the bias.")
    examples = [
        example("Bias { }", inputs=[(3, 2)]),
        example("Bias { axis: 1  num_axes: -1 }", inputs=[(2, 3)]),
        example("Bias { axis: 0 }", inputs=[(2, 3), (2,)]),
    ]

    def call(self, ctx: Context, x: ArrayValue, *second: ArrayValue) -> Any:
        if second:
            bias, axis = second[0], self.check_second(ctx, x, second[0])
        else:
            axis = self.first_axis(ctx, x)
            bias = ctx.weight(
                "bias",
                self.weight_shape(ctx, x),
                self.bias_initializer,
                regularizer=self.bias_regularizer,
                constraint=self.bias_constraint,
            )
        shape = (*(1,) * axis, *bias.shape, *(1,) * (x.ndim - axis - bias.ndim))
        return x + ops.reshape(bias, shape=shape)
