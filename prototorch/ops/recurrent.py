"""Recurrent nets over whole sequences. The input's part is projected beforehand: x [N, T, gates * units].

Each op gives the first state after every step (in the order of the walk, so backwards with ``reverse``), the last
states, and then the further states after every step, which its gradient needs. A step that the mask leaves out keeps
the state (Keras). The plain bodies go through time with one matrix product a step; the gradients are in
`recurrent_grad`, and their derivatives come from the expansion.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prototorch.ops import activation as act
from prototorch.ops.core import Op
from prototorch.ops.elementwise import full, tanh, where
from prototorch.ops.facts import BATCHED, INDEPENDENT, Attrs, Dependences, PrecisionClass, Specs, recurrent_flops
from prototorch.ops.linear import matmul
from prototorch.ops.operators import OPS
from prototorch.ops.shape import reshape, split, stack
from prototorch.spec import Spec

#: the activations a gate may have, by name
GATE_ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "tanh": tanh, "sigmoid": act.sigmoid, "relu": act.relu, "hard_sigmoid": act.hard_sigmoid, "linear": lambda x: x,
    "softsign": act.softsign, "softplus": act.softplus, "elu": act.elu, "selu": act.selu, "gelu": act.gelu,
    "silu": act.silu,
}  # fmt: skip


def array_activation(xp: Any, name: str) -> Callable[[Any], Any]:
    """An activation as a function of arrays."""
    op = GATE_ACTIVATIONS[name]
    return (lambda x: op.reference(xp, x)) if isinstance(op, Op) else op


class RecurrentSequence(Op):
    """What the three kinds share. Inputs: x, the recurrent weights, the first states, and perhaps a mask [N, T]."""

    gates = 1
    states = 1
    weights = 1
    precision = PrecisionClass.LOW

    def infer_spec(
        self, x: Spec, *rest: Spec, masked: bool = False, reverse: bool = False, **attrs: Any
    ) -> tuple[Spec, ...]:
        if len(rest) != self.weights + self.states + masked:
            raise self.shape_error(f"takes {1 + self.weights + self.states + masked} inputs, not {1 + len(rest)}")
        u, first = rest[0], rest[self.weights : self.weights + self.states]
        units = u.shape[0]
        if x.ndim != 3 or x.shape[2] != self.gates * units or u.shape[1] != self.gates * units:
            raise self.shape_error(f"{list(x.shape)} projected and {list(u.shape)} recurrent weights do not fit")
        if x.shape[1] < 1:
            raise self.shape_error("wants at least one step")
        for state in first:
            if state.shape != (x.shape[0], units):
                raise self.shape_error(f"a first state has shape {list(state.shape)}, {[x.shape[0], units]} is wanted")
        if masked and rest[-1] != Spec(x.shape[:2], "bool"):
            raise self.shape_error(f"wants a mask bool{list(x.shape[:2])}, not {rest[-1]}")
        whole = Spec((x.shape[0], x.shape[1], units), x.dtype)
        last = Spec((x.shape[0], units), x.dtype)
        return (whole, *(last,) * self.states, *(whole,) * (self.states - 1))

    def decompose(self, x: Any, *rest: Any, masked: bool = False, reverse: bool = False, **attrs: Any) -> Any:
        weights, states = rest[: self.weights], list(rest[self.weights : self.weights + self.states])
        mask = rest[-1] if masked else None
        made: list[list[Any]] = []
        steps = range(x.shape[1])
        for t in reversed(steps) if reverse else steps:
            new = self.cell(x[:, t], weights, states, **attrs)
            if mask is not None:
                keep = mask[:, t : t + 1]
                new = [where(keep, a, b) for a, b in zip(new, states, strict=True)]
            states = new
            made.append(states)
        first, *others = (stack(list(each), axis=1) for each in zip(*made, strict=True))
        return (first, *states, *others)

    def reference(self, xp: Any, x: Any, *rest: Any, masked: bool = False, reverse: bool = False, **attrs: Any) -> Any:
        weights, states = rest[: self.weights], list(rest[self.weights : self.weights + self.states])
        step = self.make_step(xp, weights, **attrs)
        made = [xp.empty((x.shape[1], *states[0].shape), dtype=x.dtype) for _ in states]
        for place, t in enumerate(reversed(range(x.shape[1])) if reverse else range(x.shape[1])):
            new = step(x[:, t, :], *states)
            if masked:
                keep = rest[-1][:, t : t + 1]
                new = [xp.where(keep, a, b) for a, b in zip(new, states, strict=True)]
            states = list(new)
            for whole, state in zip(made, states, strict=True):
                whole[place, ...] = state
        first, *others = (xp.permute_dims(whole, (1, 0, 2)) for whole in made)
        return (first, *states, *others)

    def vjp(self, grads, outputs, inputs, needs, attrs):
        kept = self.states + 1
        if any(g is not None for g in grads[kept:]):
            return self.vjp_by_decomposition(grads, inputs, needs, attrs)
        given = [
            full(shape=tuple(y.shape), value=0.0, dtype=y.dtype) if g is None else g
            for g, y in zip(grads[:kept], outputs[:kept], strict=True)
        ]
        found = OPS[f"{self.name}_grad"](*inputs, outputs[0], *outputs[kept:], *given, **attrs)
        return [*found, *[None] * (len(inputs) - len(found))]

    def cell(self, x: Any, weights: Any, states: Any, **attrs: Any) -> list[Any]:
        """One step, in ops."""
        raise TypeError(f"{self.name} does not define cell")

    def make_step(self, xp: Any, weights: Any, **attrs: Any) -> Callable[..., Any]:
        """One step on arrays: (x, *states) to the new states."""
        raise TypeError(f"{self.name} does not define stepper")

    def preserves_batch(self, ins: Specs, outs: Specs, attrs: Attrs, dependences: Dependences) -> bool:
        batch = ins[0].shape[:1]
        return dependences[0] is BATCHED and all(
            d is not INDEPENDENT or s.shape[:1] != batch for s, d in zip(ins, dependences, strict=True)
        )


class SimpleRnnSequence(RecurrentSequence):
    """h = activation(x + h @ u). x [N, T, units], u [units, units], h [N, units]."""

    flops = recurrent_flops(1, 2)

    def cell(self, x: Any, weights: Any, states: Any, activation: str = "tanh") -> list[Any]:
        return [GATE_ACTIVATIONS[activation](x + matmul(states[0], weights[0]))]

    def make_step(self, xp: Any, weights: Any, activation: str = "tanh") -> Callable[..., Any]:
        squash = array_activation(xp, activation)
        return lambda x, h: (squash(x + xp.matmul(h, weights[0])),)


class LstmSequence(RecurrentSequence):
    """Long short-term memory (Hochreiter and Schmidhuber, 1997), gates in Keras' order i, f, c, o.

    x [N, T, 4 units], u [units, 4 units], h and c [N, units].
    """

    gates, states = 4, 2
    flops = recurrent_flops(1, 4)

    def cell(self, x, weights, states, activation="tanh", recurrent_activation="sigmoid"):
        h, c = states
        i, f, g, o = split(x + matmul(h, weights[0]), 4, axis=1)
        gate, squash = GATE_ACTIVATIONS[recurrent_activation], GATE_ACTIVATIONS[activation]
        c = gate(f) * c + gate(i) * squash(g)
        return [gate(o) * squash(c), c]

    def make_step(self, xp, weights, activation="tanh", recurrent_activation="sigmoid"):
        (u,), n = weights, weights[0].shape[0]
        gate, squash = array_activation(xp, recurrent_activation), array_activation(xp, activation)

        def step(x, h, c):
            z = xp.matmul(h, u)
            z += x
            opened = gate(z[:, : 2 * n])
            c = opened[:, n:] * c + opened[:, :n] * squash(z[:, 2 * n : 3 * n])
            return gate(z[:, 3 * n :]) * squash(c), c

        return step


class GruSequence(RecurrentSequence):
    """Gated recurrent unit (Cho et al., 2014), gates in Keras' order z, r, h.

    x [N, T, 3 units], u [units, 3 units], recurrent bias [3 units], h [N, units]. With ``reset_after`` the reset gate
    is applied after the product, as in cuDNN and PyTorch.
    """

    gates, weights = 3, 2
    flops = recurrent_flops(1, 4)

    def cell(self, x, weights, states, activation="tanh", recurrent_activation="sigmoid", reset_after=True):
        (h,), (u, bias) = states, weights
        n = h.shape[1]
        gate, squash = GATE_ACTIVATIONS[recurrent_activation], GATE_ACTIVATIONS[activation]
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

    def make_step(self, xp, weights, activation="tanh", recurrent_activation="sigmoid", reset_after=True):
        (u, bias), n = weights, weights[0].shape[0]
        gate, squash = array_activation(xp, recurrent_activation), array_activation(xp, activation)
        early, late = u[:, : 2 * n], u[:, 2 * n :]

        def step(x, h):
            inner = xp.matmul(h, u if reset_after else early) + (bias if reset_after else bias[: 2 * n])
            opened = gate(x[:, : 2 * n] + inner[:, : 2 * n])
            z, r = opened[:, :n], opened[:, n:]
            part = r * inner[:, 2 * n :] if reset_after else xp.matmul(r * h, late) + bias[2 * n :]
            new = squash(x[:, 2 * n :] + part)
            return (new + z * (h - new),)

        return step


simple_rnn_sequence, lstm_sequence, gru_sequence = SimpleRnnSequence(), LstmSequence(), GruSequence()
