"""LSTM with the default activations: one BLAS product per step, into reused memory.

The gradient first computes for all steps what is independent of the order: the gates again from the states, in one
large product, then their derivatives on several threads. The backward loop is left with a product and five short
passes per step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from prototorch.engine.backends.cpu.worker_pool import parallel_for, scratch_arrays
from prototorch.engine.backends.registry import KernelFn, kernel
from prototorch.spec import Spec

MIN_STEP_ELEMENTS = 1 << 14  # elements of all gates of a step, below which a thread takes several steps at a time


def has_default_activations(ins: tuple[Spec, ...], attrs: dict[str, Any]) -> bool:
    """Whether these kernels apply: tanh and sigmoid, no mask, float32 or float64, no empty input."""
    return (
        ins[0].dtype in ("float32", "float64")
        and not attrs.get("masked")
        and attrs.get("activation", "tanh") == "tanh"
        and attrs.get("recurrent_activation", "sigmoid") == "sigmoid"
        and all(s.size for s in ins)
    )


def sigmoid(z: Any, out: Any) -> None:
    """1 / (1 + exp(-z)); exp overflows for a large -z, and the result is 0 as it must be."""
    np.negative(z, out=out)
    np.exp(out, out=out)
    np.add(out, 1, out=out)
    np.divide(1, out, out=out)


def time_order(steps: int, reverse: bool) -> Any:
    """Pairs (index in iteration order, time step)."""
    return enumerate(reversed(range(steps)) if reverse else range(steps))


def states_before(first: Any, after: Any, out: Any) -> None:
    """The states before each step [T, N, n], from the first and those after each step [N, T, n]."""
    out[0] = first
    np.copyto(out[1:], after[:, :-1].swapaxes(0, 1))


@kernel("numpy", "lstm_sequence")
def lstm_sequence(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
    """Outputs: h after every step, the last h and c, c after every step."""
    if not has_default_activations(ins, attrs):
        return None
    (batch, steps, _), n, dtype = ins[0].shape, ins[1].shape[0], ins[0].dtype
    reverse = bool(attrs.get("reverse"))

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        x, u, h, c = inputs
        hs, last_h, last_c, cs = outputs
        small = (batch, n)
        z, gates, candidate, one = scratch_arrays(
            ((batch, 4 * n), dtype), ((batch, 4 * n), dtype), (small, dtype), (small, dtype), use="lstm"
        )
        i, f, o = gates[:, :n], gates[:, n : 2 * n], gates[:, 3 * n :]
        np.copyto(last_h, h)
        np.copyto(last_c, c)
        for step_index, t in time_order(steps, reverse):
            np.matmul(last_h, u, out=z)
            np.add(z, x[:, t], out=z)
            sigmoid(z, gates)
            np.tanh(z[:, 2 * n : 3 * n], out=candidate)
            np.multiply(candidate, i, out=candidate)
            np.multiply(last_c, f, out=last_c)
            np.add(last_c, candidate, out=last_c)
            np.tanh(last_c, out=one)
            np.multiply(one, o, out=last_h)
            hs[:, step_index] = last_h
            cs[:, step_index] = last_c

    return run


@kernel("numpy", "lstm_sequence_grad")
def lstm_sequence_grad(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
    """Gradients of x, u and the first h and c."""
    if not has_default_activations(ins, attrs):
        return None
    (batch, steps, _), n, dtype = ins[0].shape, ins[1].shape[0], ins[0].dtype
    reverse = bool(attrs.get("reverse"))
    grain = max(MIN_STEP_ELEMENTS // (batch * 4 * n), 1)
    each = (steps, batch, n)

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        x, u, h, c, after_h, after_c, g, last_h, last_c = inputs
        dx, du, dh, dc = outputs
        z, before_h, before_c, by_h, forget, dc_from_h = scratch_arrays(
            ((steps, batch, 4 * n), dtype), *((each, dtype),) * 4, ((batch, n), dtype), use="lstm"
        )
        states_before(h, after_h, before_h)
        states_before(c, after_c, before_c)
        np.matmul(before_h.reshape(-1, n), u, out=z.reshape(-1, 4 * n))
        times = list(time_order(steps, reverse))

        def work(start: int, stop: int) -> None:
            for step_index, t in times[start:stop]:
                np.add(z[step_index], x[:, t], out=z[step_index])
                _gate_derivatives(
                    z[step_index], before_c[step_index], after_c[:, step_index], by_h[step_index], forget[step_index]
                )

        parallel_for(work, steps, grain)
        derivatives = z.reshape(steps, batch, 4, n)
        np.copyto(dh, last_h)
        np.copyto(dc, last_c)
        u_t = np.ascontiguousarray(u.T)
        for step_index, t in reversed(times):
            np.add(dh, g[:, step_index], out=dh)
            np.multiply(dh, by_h[step_index], out=dc_from_h)
            np.add(dc, dc_from_h, out=dc)
            derivative = derivatives[step_index]
            np.multiply(derivative[:, :3], dc[:, None], out=derivative[:, :3])
            np.multiply(derivative[:, 3], dh, out=derivative[:, 3])
            np.matmul(z[step_index], u_t, out=dh)
            np.multiply(dc, forget[step_index], out=dc)
            dx[:, t] = z[step_index]
        np.matmul(before_h.reshape(-1, n).T, z.reshape(-1, 4 * n), out=du)

    return run


def _gate_derivatives(z: Any, before: Any, after: Any, by_h: Any, forget: Any) -> None:
    """Overwrites a step's sums z [N, 4 n] with the derivatives that dc (the first three) and dh (the last) multiply.

    ``by_h`` becomes the derivative of c for dh, ``forget`` the forget gate.
    """
    n = z.shape[1] // 4
    gates, candidate, one, out = scratch_arrays(
        (z.shape, z.dtype.str), *(((len(z), n), z.dtype.str),) * 3, use="derivatives"
    )
    i, f, o = gates[:, :n], gates[:, n : 2 * n], gates[:, 3 * n :]
    sigmoid(z, gates)
    np.tanh(z[:, 2 * n : 3 * n], out=candidate)
    np.copyto(forget, f)
    np.subtract(1, gates, out=z)
    np.multiply(z, gates, out=z)  # the derivatives of the sigmoids
    np.multiply(z[:, :n], candidate, out=z[:, :n])
    np.multiply(z[:, n : 2 * n], before, out=z[:, n : 2 * n])
    np.multiply(candidate, candidate, out=one)
    np.subtract(1, one, out=one)
    np.multiply(one, i, out=z[:, 2 * n : 3 * n])
    np.tanh(after, out=out)
    np.multiply(z[:, 3 * n :], out, out=z[:, 3 * n :])
    np.multiply(out, out, out=out)
    np.subtract(1, out, out=out)
    np.multiply(out, o, out=by_h)
