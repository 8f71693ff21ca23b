"""GRU with the default activations and the reset gate after the product, as in the module `lstm`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from prototorch.engine.backends.cpu.numpy.lstm import (
    has_default_activations,
    sigmoid,
    time_order,
)
from prototorch.engine.backends.cpu.worker_pool import scratch_arrays
from prototorch.engine.backends.registry import KernelFn, kernel
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
