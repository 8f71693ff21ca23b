"""Long short-term memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prototorch import ops
from prototorch.initializers.forget_bias import UnitForgetBias
from prototorch.layers.activation import ActivationLayer
from prototorch.layers.context import ArrayValue, Context
from prototorch.layers.gated_unit import GatedUnit
from prototorch.layers.recurrent import RecurrentLayer
from prototorch.layers.recurrent_cell import GatedCell
from prototorch.schema import example, field


class _LSTMGates(GatedUnit):
    """What the layer and its cell have in common."""

    positional = ("units", "activation", "recurrent_activation", "use_bias")
    units: int = field(min=1, doc="The number of outputs.")
    activation: ActivationLayer = field(default="tanh", doc="The activation of the cell.")
    recurrent_activation: ActivationLayer = field(default="sigmoid", doc="The activation of the gates.")
    use_bias: bool = field(default=True, doc="Whether a bias is added.")
    unit_forget_bias: bool = field(default=True, doc="Whether the bias of the forget gate begins at 1.")

    gates, states = 4, 2

    def biases(self, ctx: Context) -> tuple[Any, Any]:
        if not self.use_bias:
            return None, None
        begin = UnitForgetBias(self.bias_initializer) if self.unit_forget_bias else self.bias_initializer
        return self.bias(ctx, (4 * self.units,), begin), None

    def sequence(
        self, x: ArrayValue, recurrent: ArrayValue, inner: Any, states: Sequence[Any], mask: Sequence[Any], **attrs: Any
    ) -> Any:
        return ops.lstm_sequence(x, recurrent, *states, *mask, **attrs)[:3]

    def step(self, ctx: Context, x: ArrayValue, product: Any, inner: Any, states: Sequence[Any]) -> list[Any]:
        h, c = states
        i, f, g, o = (part + product(h, k) for k, part in enumerate(ops.split(x, 4, axis=1)))

        def gate(v: ArrayValue) -> Any:
            return ctx.sublayer("recurrent_activation", self.recurrent_activation, v)

        def squash(v: ArrayValue) -> Any:
            return ctx.sublayer("activation", self.activation, v)

        c = gate(f) * c + gate(i) * squash(g)
        return [gate(o) * squash(c), c]


class LSTM(_LSTMGates, RecurrentLayer):
    """Long short-term memory (Hochreiter and Schmidhuber, 1997; Keras). The gates lie in the order i, f, c, o.

    Input [batch, time, n], output [batch, units], or [batch, time, units] with ``return_sequences``; with
    ``return_state`` also the last h and c. Two further inputs are the first h and c. Weights: ``kernel`` [n, 4 units],
    ``recurrent_kernel`` [units, 4 units], ``bias`` [4 units].
    """

    inputs = (1, 3)
    examples = [
        example("LSTM { units: 3 }", inputs=[(4, 2)]),
        example("LSTM { units: 2  return_sequences: true  return_state: true }", inputs=[(3, 2), (2,), (2,)]),
        example("LSTM { units: 2  go_backwards: true  use_bias: false  return_sequences: true }", inputs=[(3, 2)],
                mask=(2, 0, 3)),
        example("LSTM { units: 2  activation: softsign  recurrent_activation: hard_sigmoid }", inputs=[(3, 2)]),
        example("LSTM { units: 2  activation: LeakyReLU { negative_slope: 0.1 } }", inputs=[(2, 2)], mask=(1, 2, 1)),
        example("LSTM { units: 2  dropout: 0.5  recurrent_dropout: 0.25 }", inputs=[(3, 4)]),
    ]  # fmt: skip


class LSTMCell(_LSTMGates, GatedCell):
    """One step of `LSTM` (Keras): ``RNN { LSTMCell { units: 3 } }`` runs it over a sequence.

    Inputs x [batch, n] and the states h and c [batch, units] (zeros if not given); outputs the output and the new h
    and c; the output is h. Weights as those of `LSTM`.
    """

    inputs = (1, 3)
    layer_class = LSTM
    examples = [
        example("LSTMCell { units: 3 }", inputs=[(4,), (3,), (3,)]),
        example("LSTMCell { units: 2  activation: LeakyReLU { }  unit_forget_bias: false }", inputs=[(3,)]),
        example("LSTMCell { units: 2  dropout: 0.5  recurrent_dropout: 0.25 }", inputs=[(3,), (2,), (2,)]),
    ]
