"""Recurrent nets over whole sequences. The input's part is projected beforehand: x [N, T, gates * units].

Each op gives the state at every step and what its gradient needs. A step that the mask leaves out keeps the state (Keras).
The plain bodies go through time with one matrix product a step; the derivative of a derivative comes from the expansion.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prototorch.ops import activation as act
from prototorch.ops.core import Op, narrowable
from prototorch.ops.elementwise import tanh, where
from prototorch.ops.linear import matmul
from prototorch.ops.shape import reshape, split, stack
from prototorch.spec import Spec

#: the activations a gate may have, by name
GATES: dict[str, Callable[[Any], Any]] = {
    "tanh": tanh, "sigmoid": act.sigmoid, "relu": act.relu, "hard_sigmoid": act.hard_sigmoid, "linear": lambda x: x,
    "softsign": act.softsign, "softplus": act.softplus, "elu": act.elu, "selu": act.selu, "gelu": act.gelu,
    "silu": act.silu,
}  # fmt: skip


class Sequence(Op):
    """What the three kinds share. Inputs: x, the recurrent weights, the first states, and perhaps a mask [N, T]."""

    gates = 1
    states = 1
    weights = 1

    def rule(self, x: Spec, *rest: Spec, masked: bool = False, reverse: bool = False, **attrs: Any) -> tuple[Spec, ...]:
        u, first = rest[0], rest[self.weights]
        units = u.shape[0]
        if x.ndim != 3 or x.shape[2] != self.gates * units or u.shape[1] != self.gates * units:
            raise self.fail(f"{list(x.shape)} projected and {list(u.shape)} recurrent weights do not fit")
        if first.shape != (x.shape[0], units):
            raise self.fail(f"the first state has shape {list(first.shape)}, {[x.shape[0], units]} is wanted")
        whole = Spec((x.shape[0], x.shape[1], units), x.dtype)
        last = Spec((x.shape[0], units), x.dtype)
        return (whole, *(last,) * self.states)

    def expand(self, x: Any, *rest: Any, masked: bool = False, reverse: bool = False, **attrs: Any) -> Any:
        weights, states = rest[: self.weights], list(rest[self.weights : self.weights + self.states])
        mask = rest[-1] if masked else None
        made = []
        steps = range(x.shape[1])
        for t in reversed(steps) if reverse else steps:
            new = self.cell(x[:, t], weights, states, **attrs)
            if mask is not None:
                keep = mask[:, t : t + 1]
                new = [where(keep, a, b) for a, b in zip(new, states, strict=True)]
            states = new
            made.append(states[0])
        return (stack(made, axis=1), *states)

    @narrowable
    def cell(self, x: Any, weights: Any, states: Any, **attrs: Any) -> list[Any]:
        """One step."""
        raise TypeError(f"{self.name} does not define cell")


class SimpleRnnSequence(Sequence):
    """h = activation(x + h @ u). x [N, T, units], u [units, units], h [N, units]."""

    def cell(self, x: Any, weights: Any, states: Any, activation: str = "tanh") -> list[Any]:
        return [GATES[activation](x + matmul(states[0], weights[0]))]


class LstmSequence(Sequence):
    """Long short-term memory (Hochreiter and Schmidhuber, 1997), gates in Keras' order i, f, c, o.

    x [N, T, 4 units], u [units, 4 units], h and c [N, units].
    """

    gates, states = 4, 2

    def cell(self, x, weights, states, activation="tanh", recurrent_activation="sigmoid"):
        h, c = states
        i, f, g, o = split(x + matmul(h, weights[0]), 4, axis=1)
        gate, squash = GATES[recurrent_activation], GATES[activation]
        c = gate(f) * c + gate(i) * squash(g)
        return [gate(o) * squash(c), c]


class GruSequence(Sequence):
    """Gated recurrent unit (Cho et al., 2014), gates in Keras' order z, r, h.

    x [N, T, 3 units], u [units, 3 units], recurrent bias [3 units], h [N, units]. With ``reset_after`` the reset gate is
    applied after the product, as in cuDNN and PyTorch.
    """

    gates, weights = 3, 2

    def cell(self, x, weights, states, activation="tanh", recurrent_activation="sigmoid", reset_after=True):
        (h,), (u, bias) = states, weights
        n = h.shape[1]
        gate, squash = GATES[recurrent_activation], GATES[activation]
        if reset_after:
            inner = matmul(h, u) + reshape(bias, shape=(1, bias.shape[0]))
            z = gate(x[:, :n] + inner[:, :n])
            r = gate(x[:, n : 2 * n] + inner[:, n : 2 * n])
            new = squash(x[:, 2 * n :] + r * inner[:, 2 * n :])
        else:
            inner = matmul(h, u[:, : 2 * n]) + reshape(bias[: 2 * n], shape=(1, 2 * n))
            z = gate(x[:, :n] + inner[:, :n])
            r = gate(x[:, n : 2 * n] + inner[:, n:])
            new = squash(x[:, 2 * n :] + matmul(r * h, u[:, 2 * n :]) + reshape(bias[2 * n :], shape=(1, n)))
        return [z * h + (1 - z) * new]


simple_rnn_sequence, lstm_sequence, gru_sequence = SimpleRnnSequence(), LstmSequence(), GruSequence()
