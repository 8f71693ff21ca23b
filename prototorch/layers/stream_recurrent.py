"""Recurrent layers over streams, time first, which go on from batch to batch until an indicator says otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, ClassVar

from prototorch import ops
from prototorch.initializers.base import Initializer
from prototorch.layers.base import Layer
from prototorch.layers.context import ArrayValue, Context
from prototorch.layers.recurrent_steps import MAX_STEPS
from prototorch.schema import field


class StreamRecurrentLayer(Layer, abstract=True):
    """A recurrent layer over x [time, streams, ...] and a continuation indicator [time, streams] (Caffe).

    The indicator, 0 at the first step of a sequence and 1 at the others, is a factor of the states before the step. A
    third input [streams, ...] counts at every step. Without ``expose_state`` the states start at 0 in each batch, or
    where the last batch has left them (``stateful``, in training and outside of it). At most 10,000 steps.
    """

    channel_axis_note = "it reads [steps, streams, features], as in Caffe"
    gates: ClassVar[int] = 1
    state_names: ClassVar[tuple[str, ...]] = ("h",)
    positional = ("units",)

    units: int = field(min=1, doc="The number of outputs of a step.")
    expose_state: bool = field(
        default=False, doc="Whether the first states, [1, streams, units], are inputs at the end, and the last outputs."
    )
    stateful: bool = field(default=False, doc="Whether the states go on in the next batch.")
    stop_state_gradient: bool = field(
        default=False, doc="Whether no gradient passes through states that are inputs or outputs, as in Caffe."
    )
    kernel_initializer: Initializer = field(default="glorot_uniform", doc="Initializer of the input weights.")
    static_initializer: Initializer = field(default="glorot_uniform", doc="Initializer of the third input's weights.")
    recurrent_initializer: Initializer = field(default="orthogonal", doc="Initializer of the recurrent weights.")
    bias_initializer: Initializer = field(default="zeros", doc="Initializer of the bias.")

    def output_count(self) -> int:
        return 1 + len(self.state_names) * self.expose_state

    def call(self, ctx: Context, x: ArrayValue, cont: ArrayValue, *others: ArrayValue) -> Any:
        if x.ndim < 3:
            ctx.fail(f"its input must be [time, streams, ...] of at least 3 axes, not {list(x.shape)}")
        if tuple(cont.shape) != tuple(x.shape[:2]):
            ctx.fail(f"the indicator must be {list(x.shape[:2])} for an input {list(x.shape)}, not {list(cont.shape)}")
        if self.expose_state and self.stateful:
            ctx.fail("expose_state gives the states to the caller; stateful keeps them: only one is possible")
        count = len(self.state_names) * self.expose_state
        if len(others) not in (count, count + 1):
            ctx.fail(f"it reads {2 + count} or {3 + count} inputs, not {2 + len(others)}")
        if x.shape[0] < 1:
            ctx.fail("its input must have at least one step")
        if x.shape[0] > MAX_STEPS:
            ctx.fail(
                f"its input has {x.shape[0]:,} time steps; at most {MAX_STEPS:,} in one batch: give the sequence "
                "in parts, with an indicator that says that it goes on"
            )
        static, first = others[: len(others) - count], others[len(others) - count :]
        cont = cont if cont.dtype == x.dtype else ops.cast(cont, dtype=x.dtype)
        projection = self._project(ctx, x, *static)
        recurrent = ctx.weight("recurrent_kernel", (self.units, self.gates * self.units), self.recurrent_initializer)
        states, outputs = self._first_states(ctx, x, first), []
        for t in range(x.shape[0]):
            factor = ops.reshape(cont[t], shape=(x.shape[1], 1))
            states = self.step(projection[t], recurrent, [state * factor for state in states])
            outputs.append(states[0])
        self._keep_states(ctx, states)
        y = self.finish(ctx, ops.stack(outputs, axis=0))
        if not self.expose_state:
            return y
        return (y, *(self._exposed(ops.expand_dims(state, 0)) for state in states))

    def step(self, x: ArrayValue, recurrent: ArrayValue, states: Sequence[Any]) -> list[Any]:
        """The states after a step, from the input's part of the gates, [streams, gates * units]."""
        raise TypeError(f"{type(self).__name__} does not define step")

    def finish(self, ctx: Context, y: ArrayValue) -> Any:
        """The output, from the first state after each step, [time, streams, units]."""
        return y

    def _project(self, ctx: Context, x: ArrayValue, *static: ArrayValue) -> Any:
        steps, streams, n, wide = x.shape[0], x.shape[1], prod(x.shape[2:]), self.gates * self.units
        kernel = ctx.weight("kernel", (n, wide), self.kernel_initializer)
        bias = ctx.weight("bias", (wide,), self.bias_initializer)
        y = ops.matmul(ops.reshape(x, shape=(steps * streams, n)), kernel) + bias
        y = ops.reshape(y, shape=(steps, streams, wide))
        for value in static:
            if value.ndim < 2 or value.shape[0] != streams:
                ctx.fail(f"the third input must be [{streams}, ...] of at least 2 axes, not {list(value.shape)}")
            size = prod(value.shape[1:])
            weight = ctx.weight("static_kernel", (size, wide), self.static_initializer)
            part = ops.matmul(ops.reshape(value, shape=(streams, size)), weight)
            y = y + ops.expand_dims(part, 0)
        return y

    def _first_states(self, ctx: Context, x: ArrayValue, first: Sequence[ArrayValue]) -> list[Any]:
        shape = (x.shape[1], self.units)
        for state in first:
            if tuple(state.shape) != (1, *shape):
                ctx.fail(f"a first state must have the shape {[1, *shape]}, not {list(state.shape)}")
        if first:
            return [ops.reshape(self._exposed(state), shape=shape) for state in first]
        if self.stateful:
            # times 1 is a copy: in eager mode the update changes the weight before the backward pass reads it
            return [ctx.weight(f"state_{n}", shape, "zeros", trainable=False) * 1.0 for n in self.state_names]
        return [ops.full(shape=shape, value=0.0, dtype=x.dtype)] * len(self.state_names)

    def _keep_states(self, ctx: Context, states: Sequence[Any]) -> None:
        for name, state in zip(self.state_names, states, strict=True):
            if self.stateful:
                ctx.update(f"state_{name}", ops.stop_gradient(state), always=True)

    def _exposed(self, state: ArrayValue) -> Any:
        return ops.stop_gradient(state) if self.stop_state_gradient else state
