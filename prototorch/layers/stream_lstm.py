"""LSTM and simple recurrent layer over streams, and the step of an LSTM alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prototorch import ops
from prototorch.initializers.base import Initializer
from prototorch.layers.base import Layer
from prototorch.layers.context import ArrayValue, Context
from prototorch.layers.stream_recurrent import StreamRecurrentLayer
from prototorch.schema import example, field

_TIME_FIRST: dict[str, Any] = {"batched": False, "batch_axis": False}


class StreamLSTM(StreamRecurrentLayer):
    """Long short-term memory over streams (Caffe's LSTM; Donahue et al., 2015). The gates lie in the order i, f, o, g.

    Inputs: x [time, streams, ...], the continuation indicator [time, streams] (0 where a sequence begins, else 1), and
    as far as they are there a static input [streams, ...] and, with ``expose_state``, the first h and c [1, streams,
    units]. Output [time, streams, units], with ``expose_state`` also the last h and c. Weights: ``kernel`` [n, 4
    units], ``bias``, ``static_kernel`` [m, 4 units], ``recurrent_kernel`` [units, 4 units].
    """

    inputs = (2, 5)
    gates, state_names = 4, ("h", "c")
    examples = [
        example("StreamLSTM { units: 2 }", inputs=[(2, 3), (2,)], range=((-1, 1), (0, 1)), **_TIME_FIRST),
        example("StreamLSTM { units: 2  stateful: true }", inputs=[(3, 2, 2), (3,)], range=(-1, 1), **_TIME_FIRST),
    ]  # fmt: skip

    def step(self, x: ArrayValue, recurrent: ArrayValue, states: Sequence[Any]) -> list[Any]:
        h, c = states
        return list(reversed(lstm_step(x + ops.matmul(h, recurrent), c)))


class StreamRNN(StreamRecurrentLayer):
    """h = tanh(x @ kernel + bias + h @ recurrent_kernel), y = tanh(h @ output_kernel + output_bias) over streams
    (Caffe's RNN).

    Inputs and outputs as those of StreamLSTM, with one state, h.
    """

    inputs = (2, 4)
    output_initializer: Initializer = field(default="glorot_uniform", doc="Initializer of the output's weights.")
    output_bias_initializer: Initializer = field(default="zeros", doc="Initializer of the output's bias.")
    examples = [
        example("StreamRNN { units: 2 }", inputs=[(2, 3), (2,)], range=((-1, 1), (0, 1)), **_TIME_FIRST),
        example("StreamRNN { units: 2  stateful: true }", inputs=[(3, 2, 2), (3,)], range=(-1, 1), **_TIME_FIRST),
    ]

    def step(self, x: ArrayValue, recurrent: ArrayValue, states: Sequence[Any]) -> list[Any]:
        return [ops.tanh(x + ops.matmul(states[0], recurrent))]

    def finish(self, ctx: Context, y: ArrayValue) -> Any:
        kernel = ctx.weight("output_kernel", (self.units, self.units), self.output_initializer)
        bias = ctx.weight("output_bias", (self.units,), self.output_bias_initializer)
        rows = ops.reshape(y, shape=(y.shape[0] * y.shape[1], self.units))
        return ops.reshape(ops.tanh(ops.matmul(rows, kernel) + bias), shape=tuple(y.shape))


class LSTMUnit(Layer):
    """One step of an LSTM without its matrix products (Caffe's LSTMUnit).

    Inputs: the cell c [1, streams, units], the gates' sums i, f, o, g [1, streams, 4 units], and the continuation
    indicator [1, streams]. Outputs, each [1, streams, units]: the new cell, sigmoid(f) * indicator * c + sigmoid(i) *
    tanh(g), and sigmoid(o) * tanh of it.
    """

    channel_axis_note = "it reads [1, streams, features], as in Caffe"
    inputs = 3
    outputs = 2
    examples = [example("LSTMUnit { }", inputs=[(2, 2), (2, 8), (2,)], batch_axis=False)]

    def call(self, ctx: Context, c: ArrayValue, gates: ArrayValue, cont: ArrayValue) -> Any:
        if c.ndim != 3 or tuple(gates.shape) != (*c.shape[:2], 4 * c.shape[2]) or cont.shape != c.shape[:2]:
            ctx.fail(
                f"it needs a cell [1, streams, units], gates [1, streams, 4 units] and an indicator [1, streams], "
                f"not {list(c.shape)}, {list(gates.shape)} and {list(cont.shape)}"
            )
        cont = cont if cont.dtype == c.dtype else ops.cast(cont, dtype=c.dtype)
        return lstm_step(gates, c * ops.expand_dims(cont, -1))


def lstm_step(gates: ArrayValue, c: ArrayValue) -> tuple[Any, Any]:
    """The new cell and output, from the sums of the gates i, f, o, g along the last axis, and the cell."""
    i, f, o, g = ops.split(gates, 4, axis=gates.ndim - 1)
    c = ops.sigmoid(f) * c + ops.sigmoid(i) * ops.tanh(g)
    return c, ops.sigmoid(o) * ops.tanh(c)
