"""Gradients of the recurrent ops: backpropagation through time, with all that is independent of the order computed for
all steps at once.

The gates of the forward pass are recomputed from the states, in one matrix product over all steps, so that only the
states are saved.
"""

from __future__ import annotations

from typing import Any

from prototorch.ops.core import ArrayInterpreter, Op, gradients, use_interpreter
from prototorch.ops.elementwise import full
from prototorch.ops.facts import recurrent_flops
from prototorch.ops.recurrent import (
    GATE_ACTIVATIONS,
    RecurrentSequence,
    gru_sequence,
    lstm_sequence,
    simple_rnn_sequence,
)
from prototorch.spec import Spec


def _value_and_derivative(xp: Any, name: str, z: Any) -> tuple[Any, Any]:
    """An activation of an array, and its derivative there."""
    op = GATE_ACTIVATIONS[name]
    if not isinstance(op, Op):
        return z, xp.ones(z.shape, dtype=z.dtype)
    y = op.reference(xp, z)
    with use_interpreter(ArrayInterpreter(xp)) as arrays:
        one = arrays.value(xp.ones(z.shape, dtype=z.dtype))
        (derivative,) = op.vjp([one], [arrays.value(y)], [arrays.value(z)], [True], {})
    return y, derivative.array


def _sum_of_products(xp: Any, a: Any, b: Any) -> Any:
    """The sum over steps and samples of a^T b: [T, N, m] and [T, N, n] give [m, n]."""
    return xp.matmul(xp.matrix_transpose(xp.reshape(a, (-1, a.shape[-1]))), xp.reshape(b, (-1, b.shape[-1])))


class RecurrentSequenceGrad(Op):
    """Gradients of x, the weights and the initial states.

    Inputs: those of the forward op, its states after every step, the gradients of its outputs: that of the first state
    after every step, then those of the last states.
    """

    forward: RecurrentSequence

    def _split_inputs(self, rest: Any, masked: bool) -> tuple[Any, Any, Any, Any, Any]:
        f = self.forward
        ends = [f.weights, f.weights + f.states, f.weights + f.states + masked]
        ends.append(ends[2] + f.states)
        return (
            rest[: ends[0]],
            rest[ends[0] : ends[1]],
            rest[ends[1] : ends[2]],
            rest[ends[2] : ends[3]],
            rest[ends[3] :],
        )

    def infer_spec(self, x: Spec, *rest: Spec, masked: bool = False, **attrs: Any) -> tuple[Spec, ...]:
        weights, states, _, _, grads = self._split_inputs(rest, masked)
        if len(grads) != 1 + self.forward.states:
            raise self.shape_error(f"expected {1 + self.forward.states} gradients, got {len(grads)}")
        return (x, *weights, *states)

    def decompose(self, x: Any, *rest: Any, masked: bool = False, **attrs: Any) -> Any:
        weights, states, mask, _, grads = self._split_inputs(rest, masked)
        targets = (x, *weights, *states)
        seeds = (*grads, *(None,) * (self.forward.states - 1))
        input_grads = gradients(
            lambda *_: self.forward.decompose(*targets, *mask, masked=masked, **attrs), *targets, seeds=seeds
        )
        return tuple(
            full.apply_like(v, shape=tuple(v.shape), value=0.0, dtype=v.dtype) if g is None else g
            for v, g in zip(targets, input_grads, strict=True)
        )

    def reference(self, xp: Any, x: Any, *rest: Any, masked: bool = False, reverse: bool = False, **attrs: Any) -> Any:
        weights, states, mask, after, grads = self._split_inputs(rest, masked)

        def by_time(array: Any, flip: bool) -> Any:
            array = xp.permute_dims(array, (1, 0, 2))
            return xp.flip(array, axis=0) if flip else array

        after = [by_time(a, False) for a in after]
        before = [
            xp.concat([xp.expand_dims(s, axis=0), a[:-1, ...]], axis=0) for s, a in zip(states, after, strict=True)
        ]
        keep = None
        if masked:
            keep = xp.astype(by_time(xp.expand_dims(mask[0], axis=2), reverse), x.dtype)
        dx, *input_grads = self.backward(
            xp, by_time(x, reverse), weights, before, after, by_time(grads[0], False), grads[1:], keep, **attrs
        )
        dx = xp.flip(dx, axis=0) if reverse else dx
        return (xp.permute_dims(dx, (1, 0, 2)), *input_grads)

    def backward(
        self, xp: Any, x: Any, weights: Any, before: Any, after: Any, g: Any, last: Any, keep: Any, **attrs: Any
    ) -> Any:
        """The backward loop. Time is the first axis, in iteration order: x [T, N, gates * units], the states before and
        after each step and the gradient of the first state [T, N, units], keep [T, N, 1] or None."""
        raise TypeError(f"{self.name} does not define back")


class SimpleRnnSequenceGrad(RecurrentSequenceGrad):
    """The gradient of `simple_rnn_sequence`."""

    forward = simple_rnn_sequence
    flops = recurrent_flops(3, 4)

    def backward(self, xp, x, weights, before, after, g, last, keep, activation="tanh"):
        (u,), (hs,) = weights, before
        _, derivative = _value_and_derivative(xp, activation, x + xp.matmul(hs, u))
        derivative = derivative if keep is None else derivative * keep
        dh, weights_t = last[0], xp.matrix_transpose(u)
        dz = xp.empty(x.shape, dtype=x.dtype)
        for t in range(x.shape[0] - 1, -1, -1):
            dh = dh + g[t, ...]
            dz[t, ...] = dh * derivative[t, ...]
            dh_previous = xp.matmul(dz[t, ...], weights_t)
            dh = dh_previous if keep is None else dh_previous + dh * (1 - keep[t, ...])
        return dz, _sum_of_products(xp, hs, dz), dh


class LstmSequenceGrad(RecurrentSequenceGrad):
    """The gradient of `lstm_sequence`."""

    forward = lstm_sequence
    flops = recurrent_flops(3, 8)

    def backward(self, xp, x, weights, before, after, g, last, keep, activation="tanh", recurrent_activation="sigmoid"):
        (u,), (hs, cs) = weights, before
        n = u.shape[0]
        (i, f, new, o), derivatives = self.gate_derivatives(xp, x, hs, u, activation, recurrent_activation)
        out, derivative_out = _value_and_derivative(xp, activation, after[1])
        by_h = o * derivative_out  # of c, for each unit of h's gradient
        of_o = out * derivatives[3]
        of_c = xp.stack([new * derivatives[0], cs * derivatives[1], i * derivatives[2]], axis=2)
        if keep is not None:
            by_h, of_o, f = by_h * keep, of_o * keep, f * keep + (1 - keep)
            of_c = of_c * xp.expand_dims(keep, axis=3)
        (dh, dc), weights_t = last, xp.matrix_transpose(u)
        dz = xp.empty((*x.shape[:2], 4, n), dtype=x.dtype)
        flat = xp.reshape(dz, x.shape)
        for t in range(x.shape[0] - 1, -1, -1):
            dh = dh + g[t, ...]
            dc = dc + dh * by_h[t, ...]
            dz[t, :, :3, :] = of_c[t, ...] * xp.expand_dims(dc, axis=1)
            dz[t, :, 3, :] = dh * of_o[t, ...]
            dh_previous = xp.matmul(flat[t, ...], weights_t)
            dh = dh_previous if keep is None else dh_previous + dh * (1 - keep[t, ...])
            dc = dc * f[t, ...]
        return flat, _sum_of_products(xp, hs, flat), dh, dc

    def gate_derivatives(
        self, xp: Any, x: Any, hs: Any, u: Any, activation: str, recurrent_activation: str
    ) -> tuple[Any, Any]:
        """The gates i, f, c, o of all steps, and the derivatives of their activations."""
        z, n = xp.matmul(hs, u) + x, u.shape[0]
        names = (recurrent_activation, recurrent_activation, activation, recurrent_activation)
        input_grads = [_value_and_derivative(xp, name, z[..., j * n : (j + 1) * n]) for j, name in enumerate(names)]
        return tuple(y for y, _ in input_grads), tuple(derivative for _, derivative in input_grads)


class GruSequenceGrad(RecurrentSequenceGrad):
    """The gradient of `gru_sequence`."""

    forward = gru_sequence
    flops = recurrent_flops(3, 8)

    def backward(
        self,
        xp,
        x,
        weights,
        before,
        after,
        g,
        last,
        keep,
        activation="tanh",
        recurrent_activation="sigmoid",
        reset_after=True,
    ):
        (u, bias), (hs,) = weights, before
        n = u.shape[0]
        gate_weights, candidate_weights = u[:, : 2 * n], u[:, 2 * n :]
        inner = xp.matmul(hs, u if reset_after else gate_weights) + (bias if reset_after else bias[: 2 * n])
        gates, derivative = _value_and_derivative(xp, recurrent_activation, x[..., : 2 * n] + inner[..., : 2 * n])
        z, r = gates[..., :n], gates[..., n:]
        part = r * inner[..., 2 * n :] if reset_after else xp.matmul(r * hs, candidate_weights) + bias[2 * n :]
        new, derivative_new = _value_and_derivative(xp, activation, x[..., 2 * n :] + part)
        of_z, of_new = (hs - new) * derivative[..., :n], (1 - z) * derivative_new
        of_r = derivative[..., n:] * (inner[..., 2 * n :] if reset_after else hs)
        if keep is not None:
            of_z, of_new, z = of_z * keep, of_new * keep, z * keep + (1 - keep)
        dh, weights_t, candidate_weights_t = (
            last[0],
            xp.matrix_transpose(u if reset_after else gate_weights),
            xp.matrix_transpose(candidate_weights),
        )
        dx, dz = xp.empty(x.shape, dtype=x.dtype), xp.empty(x.shape, dtype=x.dtype)
        for t in range(x.shape[0] - 1, -1, -1):
            dh = dh + g[t, ...]
            d_new = dh * of_new[t, ...]
            d_candidate = d_new * r[t, ...] if reset_after else d_new
            through = d_new if reset_after else xp.matmul(d_new, candidate_weights_t)
            d_r = through * of_r[t, ...]
            dz[t, :, :n] = dh * of_z[t, ...]
            dz[t, :, n : 2 * n] = d_r
            dz[t, :, 2 * n :] = d_candidate
            dx[t, :, 2 * n :] = d_new
            if reset_after:
                dh = dh * z[t, ...] + xp.matmul(dz[t, ...], weights_t)
            else:
                dh = dh * z[t, ...] + through * r[t, ...] + xp.matmul(dz[t, :, : 2 * n], weights_t)
        dx[..., : 2 * n] = dz[..., : 2 * n]
        if reset_after:
            du = _sum_of_products(xp, hs, dz)
        else:
            du = xp.concat(
                [_sum_of_products(xp, hs, dz[..., : 2 * n]), _sum_of_products(xp, r * hs, dz[..., 2 * n :])], axis=1
            )
        return dx, du, xp.sum(dz, axis=(0, 1)), dh


simple_rnn_sequence_grad, lstm_sequence_grad = SimpleRnnSequenceGrad(), LstmSequenceGrad()
gru_sequence_grad = GruSequenceGrad()
