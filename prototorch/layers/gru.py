"""The gated recurrent unit."""

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


class _GRUGates(GatedUnit):
    """What the layer and its cell have in common."""

    positional = ("units", "activation", "recurrent_activation", "use_bias")
    units: int = field(min=1, doc="The number of outputs.")
    activation: ActivationLayer = field(default="tanh", doc="The activation of the new state.")
    recurrent_activation: ActivationLayer = field(default="sigmoid", doc="The activation of the gates.")
    use_bias: bool = field(default=True, doc="Whether a bias is added.")
    reset_after: bool = field(
        default=True,
        doc="Whether the reset gate acts after the matrix product (cuDNN, PyTorch) or before it (the paper).",
    )

    gates = 3

    def biases(self, ctx: Context) -> tuple[Any, Any]:
        wide = 3 * self.units
        if not (self.use_bias and self.reset_after):
            return super().biases(ctx)
        both = self.bias(ctx, (2, wide))
        return both[0], both[1]

    def sequence(
        self, x: ArrayValue, recurrent: ArrayValue, inner: Any, states: Sequence[Any], mask: Sequence[Any], **attrs: Any
    ) -> Any:
        if inner is None:
            inner = ops.full(shape=(3 * self.units,), value=0.0, dtype=x.dtype)
        return ops.gru_sequence(x, recurrent, inner, *states, *mask, reset_after=self.reset_after, **attrs)

    def step(self, ctx: Context, x: ArrayValue, product: Any, inner: Any, states: Sequence[Any]) -> list[Any]:
        (h,) = states
        biases = [0.0] * 3 if inner is None else ops.split(ops.reshape(inner, shape=(1, 3 * self.units)), 3, axis=1)
        xz, xr, xh = ops.split(x, 3, axis=1)

        def gate(v: ArrayValue) -> Any:
            return ctx.sublayer("recurrent_activation", self.recurrent_activation, v)

        z = gate(xz + product(h, 0) + biases[0])
        r = gate(xr + product(h, 1) + biases[1])
        part = r * (product(h, 2) + biases[2]) if self.reset_after else product(r * h, 2)
        new = ctx.sublayer("activation", self.activation, xh + part)
        return [z * h + (1 - z) * new]


class GRU(_GRUGates, RecurrentLayer):
    """The gated recurrent unit (Cho et al., 2014; Keras). The gates lie in the order z, r, h.

    Input [batch, time, n], output [batch, units], or [batch, time, units] with ``return_sequences``; with
    ``return_state`` also the last state. A second input is the first state. Weights: ``kernel`` [n, 3 units],
    ``recurrent_kernel`` [units, 3 units], ``bias`` [2, 3 units] (the input's and the state's) with
    ``reset_after``, else [3 units].
    """

    inputs = (1, 2)
    examples = [
        example("GRU { units: 3 }", inputs=[(4, 2)]),
        example("GRU { units: 2  reset_after: false  return_sequences: true }", inputs=[(3, 2)], mask=(3, 1, 2)),
        example("GRU { units: 2  use_bias: false  go_backwards: true  return_state: true }", inputs=[(3, 2), (2,)]),
        example("GRU { units: 2  reset_after: false  activation: LeakyReLU { } }", inputs=[(2, 2)]),
        example("GRU { units: 2  dropout: 0.25  recurrent_dropout: 0.5 }", inputs=[(3, 4)]),
    ]


class GRUCell(_GRUGates, GatedCell):
    """One step of `GRU` (Keras): ``RNN { GRUCell { units: 3 } }`` runs it over a sequence.

    Inputs x [batch, n] and the state [batch, units] (zeros if not given); outputs the output and the new state, which
    are equal. Weights as those of `GRU`.
    """

    inputs = (1, 2)
    layer_class = GRU
    examples = [
        example("GRUCell { units: 3 }", inputs=[(4,), (3,)]),
        example("GRUCell { units: 2  reset_after: false  activation: relu }", inputs=[(3,), (2,)]),
        example("GRUCell { units: 2  use_bias: false  dropout: 0.5  recurrent_dropout: 0.25 }", inputs=[(3,)]),
    ]
