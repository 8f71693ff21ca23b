"""Recurrent cells over whole sequences. The input projection is computed before: x [N, T, gates * units].

Each op returns the first state after every step (in iteration order, so backwards in time with ``reverse``), the last
states, and then the further states after every step, which its gradient needs. A masked step leaves the state
unchanged (Keras). The reference implementations iterate over time with one matrix product per step; the gradients are
in `recurrent_grad`, and their derivatives come from the decomposition.
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

#: the activations that a gate may have, by name
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
    """The base of the three recurrent ops. Inputs: x, the recurrent weights, the initial states, and an optional mask
    [N, T]."""

    gates = 1
    states = 1
    weights = 1
    precision = PrecisionClass.LOW

    def infer_spec(
        self, x: Spec, *rest: Spec, masked: bool = False, reverse: bool = False, **attrs: Any
    ) -> tuple[Spec, ...]:
        if len(rest) != self.weights + self.states + masked:
            raise self.shape_error(f"expected {1 + self.weights + self.states + masked} inputs, got {1 + len(rest)}")
        u, first = rest[0], rest[self.weights : self.weights + self.states]
        units = u.shape[0]
        if x.ndim != 3 or x.shape[2] != self.gates * units or u.shape[1] != self.gates * units:
            raise self.shape_error(
                f"the projected input {list(x.shape)} does not match recurrent weights {list(u.shape)}"
            )
        if x.shape[1] < 1:
            raise self.shape_error("expected at least one time step")
        for state in first:
            if state.shape != (x.shape[0], units):
                raise self.shape_error(
                    f"expected initial states of shape {[x.shape[0], units]}, got {list(state.shape)}"
                )
        if masked and rest[-1] != Spec(x.shape[:2], "bool"):
            raise self.shape_error(f"expected a mask bool{list(x.shape[:2])}, got {rest[-1]}")
        per_step = Spec((x.shape[0], x.shape[1], units), x.dtype)
        last = Spec((x.shape[0], units), x.dtype)
        return (per_step, *(last,) * self.states, *(per_step,) * (self.states - 1))

    def decompose(self, x: Any, *rest: Any, masked: bool = False, reverse: bool = False, **attrs: Any) -> Any:
        weights, states = rest[: self.weights], list(rest[self.weights : self.weights + self.states])
        mask = rest[-1] if masked else None
        history: list[list[Any]] = []
        steps = range(x.shape[1])
        for t in reversed(steps) if reverse else steps:
            new = self.cell(x[:, t], weights, states, **attrs)
            if mask is not None:
                keep = mask[:, t : t + 1]
                new = [where(keep, a, b) for a, b in zip(new, states, strict=True)]
            states = new
            history.append(states)
        first, *others = (stack(list(each), axis=1) for each in zip(*history, strict=True))
        return (first, *states, *others)

    def reference(self, xp: Any, x: Any, *rest: Any, masked: bool = False, reverse: bool = False, **attrs: Any) -> Any:
        weights, states = rest[: self.weights], list(rest[self.weights : self.weights + self.states])
        step = self.make_step(xp, weights, **attrs)
        history = [xp.empty((x.shape[1], *states[0].shape), dtype=x.dtype) for _ in states]
        for position, t in enumerate(reversed(range(x.shape[1])) if reverse else range(x.shape[1])):
            new = step(x[:, t, :], *states)
            if masked:
                keep = rest[-1][:, t : t + 1]
                new = [xp.where(keep, a, b) for a, b in zip(new, states, strict=True)]
            states = list(new)
            for per_step, state in zip(history, states, strict=True):
                per_step[position, ...] = state
        first, *others = (xp.permute_dims(per_step, (1, 0, 2)) for per_step in history)
        return (first, *states, *others)

    def vjp(self, grads, outputs, inputs, needs, attrs):
        count = self.states + 1
        if any(g is not None for g in grads[count:]):
            return self.vjp_by_decomposition(grads, inputs, needs, attrs)
        output_grads = [
            full.apply_like(y, shape=tuple(y.shape), value=0.0, dtype=y.dtype) if g is None else g
            for g, y in zip(grads[:count], outputs[:count], strict=True)
        ]
        input_grads = OPS[f"{self.name}_grad"](*inputs, outputs[0], *outputs[count:], *output_grads, **attrs)
        return [*input_grads, *[None] * (len(inputs) - len(input_grads))]

    def cell(self, x: Any, weights: Any, states: Any, **attrs: Any) -> list[Any]:
        """One time step, in ops."""
        raise TypeError(f"{self.name} does not define cell")

    def make_step(self, xp: Any, weights: Any, **attrs: Any) -> Callable[..., Any]:
        """A function of one time step on arrays: (x, *states) to the new states."""
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
            gates = gate(z[:, : 2 * n])
            c = gates[:, n:] * c + gates[:, :n] * squash(z[:, 2 * n : 3 * n])
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
        gate_weights, candidate_weights = u[:, : 2 * n], u[:, 2 * n :]

        def step(x, h):
            inner = xp.matmul(h, u if reset_after else gate_weights) + (bias if reset_after else bias[: 2 * n])
            gates = gate(x[:, : 2 * n] + inner[:, : 2 * n])
            z, r = gates[:, :n], gates[:, n:]
            part = r * inner[:, 2 * n :] if reset_after else xp.matmul(r * h, candidate_weights) + bias[2 * n :]
            new = squash(x[:, 2 * n :] + part)
            return (new + z * (h - new),)

        return step


simple_rnn_sequence, lstm_sequence, gru_sequence = SimpleRnnSequence(), LstmSequence(), GruSequence()
