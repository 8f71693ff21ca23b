"""A function of tensors that reads their elements, as a function of arrays in the host's memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from prototorch.compiler.signature import collect_tensors
from prototorch.eager.backward import run_backward
from prototorch.eager.edge import Edge
from prototorch.eager.grad_mode import enable_grad
from prototorch.eager.interpreter import cpu_interpreter
from prototorch.eager.tensor import Tensor
from prototorch.eager.tracing import outside_trace
from prototorch.errors import PrototorchError, UsageError
from prototorch.ops.host_call import HostFunction
from prototorch.spec import Spec

__all__ = ["host_function"]


class _EagerCalls:
    """Runs the function on tensors, and keeps the last call for its backward pass."""

    def __init__(self, name: str, function: Callable[..., Any]):
        self.name, self.function = name, function
        self._last: tuple[list[np.ndarray], list[Tensor], list[Tensor]] | None = None

    def run(self, arrays: Sequence[np.ndarray]) -> list[Tensor]:
        """The outputs for arrays, which are copied."""
        copies = [np.array(a) for a in arrays]
        host = cpu_interpreter()
        with outside_trace(), enable_grad():
            tensors = [host.wrap(a) for a in copies]
            for t in tensors:
                t.leaf_requires_grad = t.spec.is_float
            outputs = collect_tensors(self.function(*tensors))
        if not outputs:
            raise UsageError(f"{self.name} must return a tensor, or a tuple of tensors")
        self._last = copies, tensors, outputs
        return outputs

    def forward(self, *arrays: np.ndarray) -> list[np.ndarray]:
        """See `HostFunction`."""
        return [t.numpy() for t in self.run(arrays)]

    def backward(
        self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], grads: Sequence[np.ndarray]
    ) -> list[np.ndarray | None]:
        """See `HostFunction`. The last call is used where its inputs are these, else the function runs again."""
        last = self._last
        if last is None or not all(
            np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in zip(last[0], inputs, strict=True)
        ):
            self.run(inputs)
        assert self._last is not None
        _, tensors, results = self._last
        host = cpu_interpreter()
        pairs = [(r, host.wrap(np.array(g))) for r, g in zip(results, grads, strict=True) if isinstance(r.edge, Edge)]
        targets = [t for t in tensors if t.leaf_requires_grad]
        if not pairs or not targets:
            return [None] * len(inputs)
        with outside_trace():
            _, input_gradients = run_backward(
                [r for r, _ in pairs], [g for _, g in pairs], targets, retain_graph=True, create_graph=False
            )
        gradients = iter(input_gradients)
        each = [next(gradients) if t.leaf_requires_grad else None for t in tensors]
        return [None if g is None else g.numpy() for g in each]


def host_function(name: str, function: Callable[..., Any], specs: Sequence[Spec]) -> HostFunction:
    """A `HostFunction` of a function of tensors, for inputs of these specs.

    It runs once with example elements, which tell the specs of the results. Raises UsageError where that fails.
    """
    calls = _EagerCalls(name, function)
    examples = [np.full(s.shape, 0.5 if s.is_float else 0, s.dtype) for s in specs]
    try:
        with np.errstate(all="ignore"):
            outputs = calls.run(examples)
    except PrototorchError as error:
        raise UsageError(f"{name}, called with example elements: {error}") from error
    except Exception as error:
        raise UsageError(f"{name}, called with example elements: {type(error).__name__}: {error}") from error
    return HostFunction(name, [t.spec for t in outputs], calls.forward, calls.backward)
