"""The simple recurrent layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prototorch import ops
from prototorch.layers.activation import ActivationLayer
from prototorch.layers.context import ArrayValue, Context
from prototorch.layers.gated_unit import GatedUnit
from prototorch.layers.recurrent import RecurrentLayer
from prototorch.layers.recurrent_cell import GatedCell
from prototorch.schema import example, field


class _SimpleRNNGates(GatedUnit):
    """What the layer and its cell have in common."""

    positional = ("units", "activation", "use_bias")
    units: int = field(min=1, doc="The number of outputs.")
    activation: ActivationLayer = field(default="tanh", doc="The activation.")
    use_bias: bool = field(default=True, doc="Whether a bias is added.")

    def sequence(
        self, x: ArrayValue, recurrent: ArrayValue, inner: Any, states: Sequence[Any], mask: Sequence[Any], **attrs: Any
    ) -> Any:
        return ops.simple_rnn_sequence(x, recurrent, *states, *mask, **attrs)

    def step(self, ctx: Context, x: ArrayValue, product: Any, inner: Any, states: Sequence[Any]) -> list[Any]:
        return [ctx.sublayer("activation", self.activation, x + product(states[0], 0))]


class SimpleRNN(_SimpleRNNGates, RecurrentLayer):
    """h = activation(x @ kernel + h @ recurrent_kernel + bias) over the steps (Elman, 1990; Keras).

    Input [batch, time, n], output [batch, units], or [batch, time, units] with ``return_sequences``; with
    ``return_state`` also the last state. A second input is the first state.
    """

    inputs = (1, 2)
    examples = [
        example("SimpleRNN { units: 3 }", inputs=[(4, 2)]),
        example(
            "SimpleRNN { units: 2  activation: relu  use_bias: false  return_sequences: true  return_state: true }",
            inputs=[(3, 2), (2,)],
        ),
        example("SimpleRNN { units: 2  go_backwards: true  return_sequences: true }", inputs=[(3, 2)], mask=(2, 0, 3)),
        example("SimpleRNN { units: 2  dropout: 0.5  recurrent_dropout: 0.25 }", inputs=[(3, 4)]),
    ]


class SimpleRNNCell(_SimpleRNNGates, GatedCell):
    """One step of `SimpleRNN` (Keras): ``RNN { SimpleRNNCell { units: 3 } }`` runs it over a sequence.

    Inputs x [batch, n] and the state [batch, units] (zeros if not given); outputs the output and the new state, which
    are equal. Weights as those of `SimpleRNN`.
    """

    inputs = (1, 2)
    layer_class = SimpleRNN
    examples = [
        example("SimpleRNNCell { units: 3 }", inputs=[(4,), (3,)]),
        example("SimpleRNNCell { units: 2  dropout: 0.5  recurrent_dropout: 0.25 }", inputs=[(3,)]),
    ]
