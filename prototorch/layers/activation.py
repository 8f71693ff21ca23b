"""Activations: each is a layer of its own, and the value of any ``activation`` field."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from math import inf
from typing import Any, ClassVar, cast

import numpy as np

from prototorch import ops
from prototorch.layers.base import Layer, MaskPolicy
from prototorch.layers.context import ArrayValue, Context, DecodingContext
from prototorch.layers.mask_shapes import expand_mask
from prototorch.schema import example, field

_EXAMPLE_SHAPES = [(3,), (2, 1, 3)]


class ActivationLayer(Layer, abstract=True):
    """An activation: one input, an output of the same shape."""

    follows_layer = True
    display_name = "activation"
    mask_policy: ClassVar[MaskPolicy] = "keep"
    keeps_positions: ClassVar[bool] = True
    #: each output follows from the same element of the input alone.
    elementwise: ClassVar[bool] = True
    #: bounds of the outputs for any input
    bounds: ClassVar[tuple[float, float]] = (-inf, inf)
    #: the fields with which it is PyTorch's function of its name
    function_fields: ClassVar[Mapping[str, Any]] = {}

    def output_bounds(self, low: float, high: float) -> tuple[float, float]:
        return self.bounds

    @classmethod
    def coerce(cls, value: Any) -> ActivationLayer | None:
        """None is no activation, as in Keras; a function of the package is the layer of its name."""
        if value is None:
            return Linear()
        is_function = callable(value) and not isinstance(value, type | Layer)
        if not is_function:
            return None
        functions = importlib.import_module("prototorch.layers.activation_function")
        return cast(ActivationLayer, functions.layer_of_function(value, ActivationLayer))


class Linear(ActivationLayer):
    """The identity."""

    keeps_bounds = True
    foreign_fields = dict.fromkeys(
        ("in_features", "out_features", "units"),
        "This Linear is the identity; a fully connected layer is Dense { units: ... }.",
    )

    aliases = ("identity",)
    examples = [example("Linear { }", inputs=[s]) for s in _EXAMPLE_SHAPES]

    def output_bounds(self, low: float, high: float) -> tuple[float, float]:
        return low, high

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        return x


class ReLU(ActivationLayer):
    """max(x, 0), the rectified linear unit (Keras).

    In full: ``max_value`` where x >= max_value; x where x > threshold; else ``negative_slope * (x - threshold)``.
    """

    symbolic_function = "relu"
    max_value: float | None = field(default=None, min=0, doc="The largest output; none for no limit.")
    negative_slope: float = field(default=0.0, doc="Factor on inputs below the threshold.")
    threshold: float = field(default=0.0, min=0, doc="Inputs up to it give 0 (or follow negative_slope).")
    examples = [
        example("ReLU { }", inputs=[(3, 2)]),
        example("ReLU { max_value: 1  negative_slope: 0.25  threshold: 0.5 }", inputs=[(7,)]),
        example("ReLU { negative_slope: 0.1 }", inputs=[(1,)]),
        example("ReLU { negative_slope: -0.5 }", inputs=[(2, 3)]),
    ]

    def output_bounds(self, low: float, high: float) -> tuple[float, float]:
        return (0.0 if self.negative_slope <= 0 else -inf), (inf if self.max_value is None else self.max_value)

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        if self.threshold != 0:
            y = ops.where(ops.greater(x, self.threshold), x, ops.zeros_like(x))
            if self.negative_slope != 0:
                y = y - ops.relu(self.threshold - x) * self.negative_slope  # at the threshold the derivative is 0
        elif self.negative_slope != 0:
            y = ops.leaky_relu(x, negative_slope=self.negative_slope)
        else:
            y = ops.relu(x)
        return y if self.max_value is None else ops.minimum(y, self.max_value)


class ReLU6(ActivationLayer):
    """min(max(x, 0), 6) (Keras' relu6)."""

    bounds = (0.0, 6.0)
    examples = [example("ReLU6 { }", inputs=[(5,)]), example("ReLU6 { }", inputs=[(2, 2)], range=(-9, 9))]

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        return ops.relu6(x)


class LeakyReLU(ActivationLayer):
    """x where x > 0, else negative_slope * x (Keras).

    The layer's default is 0.3. As in Keras, ``activation: leaky_relu`` is the function of that name, with 0.2.
    """

    written_fields = frozenset({"negative_slope"})
    function_fields: ClassVar[Mapping[str, Any]] = {"negative_slope": 0.01}
    negative_slope: float = field(default=0.3, min=0, doc="Factor on negative inputs.")
    examples = [
        example("LeakyReLU { }", inputs=[(5,)]),
        example("LeakyReLU { negative_slope: 0.01 }", inputs=[(2, 3, 1)]),
    ]

    @classmethod
    def from_name(cls, name: str) -> LeakyReLU:
        """``leaky_relu`` is Keras' function."""
        return cls(negative_slope=0.2) if name == "leaky_relu" else cls()

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        return ops.leaky_relu(x, negative_slope=self.negative_slope)


class Sigmoid(ActivationLayer):
    """1 / (1 + exp(-x)), the logistic function (Keras)."""

    symbolic_function = "sigmoid"
    bounds = (0.0, 1.0)
    examples = [example("Sigmoid { }", inputs=[s]) for s in _EXAMPLE_SHAPES]

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        return ops.sigmoid(x)


class LogSigmoid(ActivationLayer):
    """log(1 / (1 + exp(-x))), without overflow (Keras)."""

    bounds = (-inf, 0.0)
    examples = [example("LogSigmoid { }", inputs=[s]) for s in _EXAMPLE_SHAPES]

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        return ops.log_sigmoid(x)


class HardSigmoid(ActivationLayer):
    """min(max(x / 6 + 1/2, 0), 1): a sigmoid of straight lines (Keras 3, PyTorch)."""

    bounds = (0.0, 1.0)
    examples = [example("HardSigmoid { }", inputs=[(5,)]), example("HardSigmoid { }", inputs=[(2, 2)], range=(-5, 5))]

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        return ops.hard_sigmoid(x)


class Tanh(ActivationLayer):
    """The hyperbolic tangent."""

    symbolic_function = "tanh"
    bounds = (-1.0, 1.0)
    examples = [example("Tanh { }", inputs=[s]) for s in _EXAMPLE_SHAPES]

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        return ops.tanh(x)


class Softplus(ActivationLayer):
    """log(1 + exp(x)), without overflow (Keras)."""

    bounds = (0.0, inf)
    examples = [example("Softplus { }", inputs=[s]) for s in _EXAMPLE_SHAPES]

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        return ops.softplus(x)


class Softsign(ActivationLayer):
    """x / (1 + abs(x)) (Keras)."""

    bounds = (-1.0, 1.0)
    examples = [example("Softsign { }", inputs=[s]) for s in _EXAMPLE_SHAPES]

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        return ops.softsign(x)


class Exponential(ActivationLayer):
    """exp(x) (Keras)."""

    symbolic_function = "exp"
    bounds = (0.0, inf)
    aliases = ("exp",)
    examples = [example("Exponential { }", inputs=[s]) for s in _EXAMPLE_SHAPES]

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        return ops.exp(x)


class Softmax(ActivationLayer):
    """exp(x) / sum of exp(x) along an axis: positive numbers that add up to 1 (Keras).

    Elements that a mask of this axis leaves out get 0.
    """

    channel_axis_note = "its field `axis` says it: the last one, as in Keras"
    bounds = (0.0, 1.0)
    elementwise = False
    keeps_positions = False

    axis: int = field(default=-1, doc="The axis, the batch dimension being 0.")
    examples = [example("Softmax { }", inputs=[(4,)]), example("Softmax { axis: 1 }", inputs=[(3, 2, 2)])]

    def decode_steps(self, ctx: DecodingContext, *inputs: ArrayValue) -> Any:
        self.check_independent_steps(ctx, self.axis % inputs[0].ndim > 1, *inputs)
        return self.record(ctx, *inputs)

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        mask = ctx.mask(x)
        if mask is None or self.axis % x.ndim >= mask.ndim or mask.shape[self.axis % x.ndim] == 1 < x.shape[self.axis]:
            return ops.softmax(x, axis=self.axis)
        mask = expand_mask(mask, x.ndim)
        lowest = np.asarray(-3e4 if x.dtype == "float16" else -1e9, x.dtype)
        y = ops.softmax(ops.where(mask, x, lowest), axis=self.axis)
        return ops.where(mask, y, ops.zeros_like(y))


class LogSoftmax(ActivationLayer):
    """log(softmax(x)) along an axis, without overflow (Keras)."""

    channel_axis_note = "its field `axis` says it: the last one, as in Keras"
    bounds = (-inf, 0.0)
    elementwise = False
    keeps_positions = False

    axis: int = field(default=-1, doc="The axis, the batch dimension being 0.")
    examples = [example("LogSoftmax { }", inputs=[(4,)]), example("LogSoftmax { axis: 1 }", inputs=[(3, 2, 2)])]

    def decode_steps(self, ctx: DecodingContext, *inputs: ArrayValue) -> Any:
        self.check_independent_steps(ctx, self.axis % inputs[0].ndim > 1, *inputs)
        return self.record(ctx, *inputs)

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        return ops.log_softmax(x, axis=self.axis)


class Activation(Layer):
    """Any activation as a layer: ``Activation { activation: relu }`` (Keras)."""

    follows_layer = True
    activation: ActivationLayer = field(doc="The activation.")
    channel_axis_note = "its activation says it: the last one of Softmax and LogSoftmax, as in Keras"
    mask_policy = "keep"
    keeps_positions = True
    examples = [
        example("Activation { activation: relu }", inputs=[(3,)]),
        example("Activation { activation: LeakyReLU { negative_slope: 0.2 } }", inputs=[(2, 3)]),
    ]

    def output_bounds(self, low: float, high: float) -> tuple[float, float]:
        return self.activation.output_bounds(low, high)

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        return ctx.sublayer("activation", self.activation, x)
