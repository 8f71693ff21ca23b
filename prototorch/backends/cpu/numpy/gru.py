"""GRU with the default activations and the reset gate after the product, as in the module `lstm`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from prototorch.backends.cpu.numpy.lstm import (
    MIN_STEP_ELEMENTS,
    has_default_activations,
    sigmoid,
    states_before,
    time_order,
)
from prototorch.backends.cpu.numpy.reduce import sum_columns
from prototorch.backends.cpu.worker_pool import parallel_for, scratch_arrays
from prototorch.backends.registry import KernelFn, kernel
from prototorch.spec import Spec


def _gates(inner: Any, x: Any, gates: Any, new: Any) -> None:
    """From inner [N, 3 n] = h @ u + bias and x: the gates z and r [N, 2 n], and tanh(x + r * inner) [N, n]."""
    n = new.shape[1]
    np.add(inner[:, : 2 * n], x[:, : 2 * n], out=gates)
    sigmoid(gates, gates)
    np.multiply(gates[:, n:], inner[:, 2 * n :], out=new)
    np.add(new, x[:, 2 * n :], out=new)
    np.tanh(new, out=new)


@kernel("numpy", "gru_sequence")
def gru_sequence(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
    """Outputs: h after every step, the last h."""
    if not has_default_activations(ins, attrs) or not attrs.get("reset_after", True):
        return None
    (batch, steps, _), n, dtype = ins[0].shape, ins[1].shape[0], ins[0].dtype
    reverse = bool(attrs.get("reverse"))

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        x, u, bias, initial = inputs
        hs, h = outputs
        inner, gates, new = scratch_arrays(
            ((batch, 3 * n), dtype), ((batch, 2 * n), dtype), ((batch, n), dtype), use="gru"
        )
        np.copyto(h, initial)
        for step_index, t in time_order(steps, reverse):
            np.matmul(h, u, out=inner)
            np.add(inner, bias, out=inner)
            _gates(inner, x[:, t], gates, new)
            np.subtract(h, new, out=h)
            np.multiply(h, gates[:, :n], out=h)
            np.add(h, new, out=h)
            hs[:, step_index] = h

    return run


@kernel("numpy", "gru_sequence_grad")
def gru_sequence_grad(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
    """Gradients of x, u, the bias and the first h."""
    if not has_default_activations(ins, attrs) or not attrs.get("reset_after", True):
        return None
    (batch, steps, _), n, dtype = ins[0].shape, ins[1].shape[0], ins[0].dtype
    reverse = bool(attrs.get("reverse"))
    grain = max(MIN_STEP_ELEMENTS // (batch * 4 * n), 1)
    each = (steps, batch, n)

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        x, u, bias, initial, after, g, last = inputs
        dx, du, dbias, dh = outputs
        inner, before, d_candidate, z, r, dh_through_gates = scratch_arrays(
            ((steps, batch, 3 * n), dtype), *((each, dtype),) * 4, ((batch, n), dtype), use="gru"
        )
        states_before(initial, after, before)
        np.matmul(before.reshape(-1, n), u, out=inner.reshape(-1, 3 * n))
        times = list(time_order(steps, reverse))

        def work(start: int, stop: int) -> None:
            for step_index, t in times[start:stop]:
                np.add(inner[step_index], bias, out=inner[step_index])
                _gate_derivatives(
                    inner[step_index],
                    x[:, t],
                    before[step_index],
                    d_candidate[step_index],
                    z[step_index],
                    r[step_index],
                )

        parallel_for(work, steps, grain)
        np.copyto(dh, last)
        u_t = np.ascontiguousarray(u.T)
        for step_index, t in reversed(times):
            derivatives = inner[step_index]
            d_new = dx[:, t, 2 * n :]
            np.add(dh, g[:, step_index], out=dh)
            np.multiply(dh, d_candidate[step_index], out=d_new)
            np.multiply(derivatives[:, :n], dh, out=derivatives[:, :n])
            np.multiply(derivatives[:, n : 2 * n], d_new, out=derivatives[:, n : 2 * n])
            np.multiply(r[step_index], d_new, out=derivatives[:, 2 * n :])
            dx[:, t, : 2 * n] = derivatives[:, : 2 * n]
            np.matmul(derivatives, u_t, out=dh_through_gates)
            np.multiply(dh, z[step_index], out=dh)
            np.add(dh, dh_through_gates, out=dh)
        derivatives = inner.reshape(-1, 3 * n)
        np.matmul(before.reshape(-1, n).T, derivatives, out=du)
        sum_columns(derivatives, dbias)

    return run


def _gate_derivatives(inner: Any, x: Any, before: Any, d_candidate: Any, z: Any, r: Any) -> None:
    """Overwrites a step's inner [N, 3 n] with the derivatives of z and r (the rest is scratch), d_candidate with that
    of the new state, and z and r with the gates."""
    n = z.shape[1]
    gates, new = scratch_arrays(((len(z), 2 * n), z.dtype.str), (z.shape, z.dtype.str), use="derivatives")
    _gates(inner, x, gates, new)
    np.copyto(z, gates[:, :n])
    np.copyto(r, gates[:, n:])
    of_z, of_r = inner[:, :n], inner[:, n : 2 * n]
    np.subtract(1, gates, out=inner[:, : 2 * n])
    np.multiply(new, new, out=d_candidate)
    np.subtract(1, d_candidate, out=d_candidate)
    np.multiply(d_candidate, of_z, out=d_candidate)  # (1 - z) * (1 - new^2)
    np.multiply(inner[:, : 2 * n], gates, out=inner[:, : 2 * n])
    np.multiply(of_r, inner[:, 2 * n :], out=of_r)
    np.subtract(before, new, out=new)
    np.multiply(of_z, new, out=of_z)
