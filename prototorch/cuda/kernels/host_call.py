"""Functions that compute in the host's memory: their inputs are copied there, and their results back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from prototorch.engine.backends.registry import kernel
from prototorch.ops.host_call import HostFunction
from prototorch.spec import Spec

__all__ = ["HostStep"]


class HostStep:
    """One call of a function. It waits for the device, so a step with it is no CUDA graph."""

    not_capturable_reason = "it computes in NumPy, in the host's memory"

    def __init__(self, function: HostFunction):
        self._function = function

    def __call__(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Copy, compute, and copy back."""
        results = self._function.run([a.get() for a in inputs])
        for target, result in zip(outputs, results, strict=True):
            target.set(np.ascontiguousarray(result))


@kernel("cuda", "host_call")
def prepare(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> HostStep:
    """It takes any inputs."""
    return HostStep(attrs["function"])
