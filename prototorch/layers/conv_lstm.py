"""Long short-term memory with convolutions in the place of matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from prototorch import ops
from prototorch.initializers.forget_bias import UnitForgetBias
from prototorch.layers.activation import ActivationLayer
from prototorch.layers.channels import MapLayer
from prototorch.layers.context import ArrayValue, Context
from prototorch.layers.gated_unit import RecurrentWeights
from prototorch.layers.mask_shapes import steps_mask
from prototorch.layers.recurrent_steps import run_steps
from prototorch.layers.windows import (
    DIMENSION_NAMES,
    Pads,
    Sizes,
    dilation_field,
    kernel_field,
    padding_field,
    resolve_padding,
    strides_field,
)
from prototorch.schema import example, field

_POSITIONAL = ("filters", "kernel_size", "strides", "padding")


class _ConvLSTM(MapLayer, RecurrentWeights):
    """One body for every rank; the classes below declare the sizes of theirs."""

    mask_policy = "use"
    inputs = (1, 3)
    states: ClassVar[int] = 2
    rank: ClassVar[int]
    foreign_fields = {"num_output": "filters", "out_channels": "filters", "bias": "use_bias"}

    filters: int
    kernel_size: Sizes
    strides: Sizes
    padding: str | Pads
    dilation_rate: Sizes
    activation: ActivationLayer = field(default="tanh", doc="The activation of the cell.")
    recurrent_activation: ActivationLayer = field(default="sigmoid", doc="The activation of the gates.")
    use_bias: bool = field(default=True, doc="Whether a bias is added.")
    unit_forget_bias: bool = field(default=True, doc="Whether the bias of the forget gate begins at 1.")
    return_sequences: bool = field(
        default=False, doc="Whether to give the output of every step, not of the last alone."
    )
    return_state: bool = field(default=False, doc="Whether to give the last states as further outputs.")
    go_backwards: bool = field(default=False, doc="Whether to go from the last step to the first.")

    @property
    def axes_before_channels(self) -> int:
        return 2

    def output_count(self) -> int:
        return 1 + self.states * self.return_state

    def call(self, ctx: Context, x: ArrayValue, *first: ArrayValue) -> Any:
        if x.ndim != self.rank + 3:
            ctx.fail(
                f"the input must have {self.rank + 2} dimensions (time, channels, {DIMENSION_NAMES[self.rank]}), "
                f"got {x.ndim - 1}"
            )
        if x.shape[1] < 1:
            ctx.fail("the input must have at least one step")
        if len(first) not in (0, self.states):
            ctx.fail(f"it takes {self.states} first states, not {len(first)}")
        wide, channels = 4 * self.filters, x.shape[2]
        kernel, recurrent = self.weight_pair(
            ctx, (wide, channels, *self.kernel_size), (wide, self.filters, *self.kernel_size)
        )
        projection = self._project(ctx, x, kernel)
        shape = (x.shape[0], self.filters, *projection.shape[3:])
        for state in first:
            if tuple(state.shape) != shape:
                ctx.fail(f"a first state must have the shape {list(shape[1:])}, not {list(state.shape[1:])}")
        states = list(first) or [ops.full(shape=shape, value=0.0, dtype=x.dtype)] * self.states
        convolve = self._state_convolution(ctx, recurrent, states[0])

        def step(part: ArrayValue, h: ArrayValue, c: ArrayValue) -> Sequence[Any]:
            i, f, g, o = ops.split(part + convolve(h), 4, axis=1)
            c = self._gate(ctx, f) * c + self._gate(ctx, i) * self._squash(ctx, g)
            h = self._gate(ctx, o) * self._squash(ctx, c)
            return h, h, c

        y, *last = run_steps(
            ctx, projection, step, states, steps_mask(ctx, x), self.return_sequences, self.go_backwards
        )
        return (y, *last) if self.return_state else y

    def _gate(self, ctx: Context, x: ArrayValue) -> Any:
        return ctx.sublayer("recurrent_activation", self.recurrent_activation, x)

    def _squash(self, ctx: Context, x: ArrayValue) -> Any:
        return ctx.sublayer("activation", self.activation, x)

    def _project(self, ctx: Context, x: ArrayValue, kernel: ArrayValue) -> Any:
        """The input's part of the gates at all steps, [batch, time, 4 * filters, ...]; dropout draws for each gate."""
        batch, time = x.shape[:2]
        pads = resolve_padding(self.padding, x.shape[3:], self.kernel_size, self.strides, self.dilation_rate)

        def convolve(images: ArrayValue, weight: ArrayValue) -> Any:
            images = ops.reshape(images, shape=(batch * time, *images.shape[2:]))
            return ops.conv(images, weight, strides=self.strides, pads=pads, dilation=self.dilation_rate)

        if self.dropout and ctx.training:
            noise = (batch, 1, *x.shape[2:])
            y = ops.concat(
                *(
                    convolve(ops.dropout(x, ctx.key(), rate=self.dropout, site=ctx.site(), noise_shape=noise), part)
                    for part in ops.split(kernel, 4, axis=0)
                ),
                axis=1,
            )
        else:
            y = convolve(x, kernel)
        if self.use_bias:
            begin = UnitForgetBias(self.bias_initializer) if self.unit_forget_bias else self.bias_initializer
            bias = self.bias(ctx, (4 * self.filters,), begin)
            y = y + ops.reshape(bias, shape=(4 * self.filters, *(1,) * self.rank))
        return ops.reshape(y, shape=(batch, time, *y.shape[1:]))

    def _state_convolution(self, ctx: Context, recurrent: ArrayValue, like: ArrayValue) -> Any:
        """A function from h to the state's part of the gates; in training with the dropout of states."""
        ones = (1,) * self.rank
        pads = resolve_padding("same", like.shape[2:], self.kernel_size, ones, ones)

        def convolve(h: ArrayValue, weight: ArrayValue) -> Any:
            return ops.conv(h, weight, strides=ones, pads=pads, dilation=ones)

        if not (self.recurrent_dropout and ctx.training):
            return lambda h: convolve(h, recurrent)
        parts = [(part, self.state_dropout(ctx, like)) for part in ops.split(recurrent, 4, axis=0)]
        return lambda h: ops.concat(*(convolve(h * factor, part) for part, factor in parts), axis=1)


class ConvLSTM1D(_ConvLSTM):
    """Convolutional LSTM over sequences of rows (Shi et al., 2015; Keras).

    Input [batch, time, steps, channels], output [batch, new steps, filters], or [batch, time, new steps, filters] with
    ``return_sequences``; further inputs and, with ``return_state``, outputs are h and c. Weights: ``kernel``
    [4 filters, channels, kernel_size], ``recurrent_kernel`` [4 filters, filters, kernel_size], ``bias`` [4 filters],
    gates in the order i, f, c, o. The state's convolution keeps its size. At most 10,000 steps.
    """

    positional = _POSITIONAL
    rank = 1
    filters: int = field(min=1, doc="The number of output channels.")
    kernel_size: Sizes = kernel_field(1)
    strides: Sizes = strides_field(1)
    padding: str | Pads = padding_field(1)
    dilation_rate: Sizes = dilation_field(1)

    examples = [
        example("ConvLSTM1D { filters: 2  kernel_size: 3  padding: same }", inputs=[(3, 4, 2)]),
        example("ConvLSTM1D { filters: 2  kernel_size: 2  strides: 2  return_sequences: true  go_backwards: true }",
                inputs=[(3, 5, 1)], mask=(2, 0, 3)),
    ]  # fmt: skip


class ConvLSTM2D(_ConvLSTM):
    """Convolutional LSTM over sequences of images (Shi et al., 2015; Keras, channels first).

    Input [batch, time, channels, rows, columns], output [batch, filters, new rows, new columns], or [batch, time,
    filters, new rows, new columns] with ``return_sequences``; further inputs and, with ``return_state``, outputs are h
    and c. Weights: ``kernel`` [4 filters, channels, *kernel_size], ``recurrent_kernel`` [4 filters, filters,
    *kernel_size], ``bias`` [4 filters], gates in the order i, f, c, o. The state's convolution keeps its size. At most
    10,000 steps.
    """

    positional = _POSITIONAL
    rank = 2
    filters: int = field(min=1, doc="The number of output channels.")
    kernel_size: Sizes = kernel_field(2)
    strides: Sizes = strides_field(2)
    padding: str | Pads = padding_field(2)
    dilation_rate: Sizes = dilation_field(2)

    examples = [
        example("ConvLSTM2D { filters: 2  kernel_size: 3  padding: same  return_sequences: true }",
                inputs=[(3, 2, 4, 3)], mask=(3, 1, 2)),
        example("ConvLSTM2D { filters: 1  kernel_size: 2  return_state: true  activation: relu  use_bias: false }",
                inputs=[(2, 2, 3, 4), (1, 2, 3), (1, 2, 3)]),
        example("ConvLSTM2D { filters: 2  kernel_size: 2  dropout: 0.5  recurrent_dropout: 0.25 }",
                inputs=[(2, 2, 3, 3)]),
    ]  # fmt: skip


class ConvLSTM3D(_ConvLSTM):
    """Convolutional LSTM over sequences of volumes (Keras, channels first).

    Input [batch, time, channels, depth, rows, columns], output [batch, filters, new depth, new rows, new columns], or
    with a time axis before the filters with ``return_sequences``; else as `ConvLSTM2D`.
    """

    positional = _POSITIONAL
    rank = 3
    filters: int = field(min=1, doc="The number of output channels.")
    kernel_size: Sizes = kernel_field(3)
    strides: Sizes = strides_field(3)
    padding: str | Pads = padding_field(3)
    dilation_rate: Sizes = dilation_field(3)

    examples = [example("ConvLSTM3D { filters: 1  kernel_size: [1, 2, 2]  padding: same }", inputs=[(2, 1, 2, 3, 2)])]
