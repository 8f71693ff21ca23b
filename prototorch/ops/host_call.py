"""A function that computes on NumPy arrays in the host's memory, as one op: what cannot be expressed in other ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from prototorch.errors import ShapeError, UsageError
from prototorch.ops.core import Op
from prototorch.ops.elementwise import zeros_like
from prototorch.ops.reduce import broadcast_to
from prototorch.spec import Spec

__all__ = ["HostFunction", "host_call"]


class HostFunction:
    """A function of arrays: what `host_call` runs. It is compared by identity, so that two of them never share a step.

    Attributes:
        name: for messages.
        output_specs: the specs of what ``forward`` returns.
        forward: takes the inputs as NumPy arrays, which it must not change, and returns one array or a sequence.
        backward: ``backward(inputs, outputs, gradients)`` returns an array for each input, None for one without a
            gradient. None: the function has no derivative.
    """

    def __init__(
        self,
        name: str,
        output_specs: Sequence[Spec],
        forward: Callable[..., Any],
        backward: Callable[..., Sequence[Any]] | None = None,
    ):
        self.name, self.output_specs = name, tuple(output_specs)
        self.forward, self.backward = forward, backward

    def __repr__(self) -> str:
        return f"<host function {self.name}>"

    def run(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The results as arrays. Raises UsageError or ShapeError where they are not what ``output_specs`` says."""
        results = self.forward(*arrays)
        results = list(results) if isinstance(results, tuple | list) else [results]
        if len(results) != len(self.output_specs):
            raise UsageError(f"{self.name}: expected {len(self.output_specs)} results, got {len(results)}")
        return [self._checked(result, spec) for result, spec in zip(results, self.output_specs, strict=True)]

    def _checked(self, result: Any, spec: Spec) -> np.ndarray:
        array = np.asarray(result)
        if array.shape != spec.shape:
            raise ShapeError(f"{self.name}: expected a result of shape {list(spec.shape)}, got {list(array.shape)}")
        return array.astype(spec.dtype, copy=False)

    def gradient(self, input_specs: Sequence[Spec], needs: Sequence[bool]) -> HostFunction:
        """The function of inputs, outputs and their gradients that gives the gradients of the inputs that need one."""
        backward, ins, outs = self.backward, len(input_specs), len(self.output_specs)
        assert backward is not None
        specs = [spec for spec, need in zip(input_specs, needs, strict=True) if need]

        def forward(*arrays: np.ndarray) -> list[np.ndarray]:
            gradients = backward(arrays[:ins], arrays[ins : ins + outs], arrays[ins + outs :])
            if len(gradients) != ins:
                raise UsageError(f"{self.name}: expected {ins} gradients, one for each input, got {len(gradients)}")
            pairs = zip(gradients, input_specs, needs, strict=True)
            return [np.zeros(s.shape, s.dtype) if g is None else g for g, s, need in pairs if need]

        return HostFunction(f"{self.name}, its gradient", specs, forward)


class HostCall(Op):
    """``host_call(*inputs, function=)``: what a `HostFunction` computes, one value or a tuple.

    It runs in the host's memory on every device, one call for a step: of what a GPU has computed it gets a copy. The
    results must follow from the inputs alone.
    """

    calls_user_code = True

    def infer_spec(self, *specs: Spec, function: HostFunction) -> Any:
        outs = function.output_specs
        return outs[0] if len(outs) == 1 else outs

    def reference(self, xp: Any, *arrays: Any, function: HostFunction) -> Any:
        results = function.run([np.asarray(a) for a in arrays])
        return xp.asarray(results[0]) if len(results) == 1 else tuple(xp.asarray(result) for result in results)

    def vjp(
        self,
        grads: Sequence[Any],
        outputs: Sequence[Any],
        inputs: Sequence[Any],
        needs: Sequence[bool],
        attrs: dict[str, Any],
    ) -> Sequence[Any]:
        function: HostFunction = attrs["function"]
        if function.backward is None or not any(needs):
            return [None] * len(inputs)
        grads_of_outputs = [
            broadcast_to(zeros_like(y), shape=y.shape) if g is None else g for g, y in zip(grads, outputs, strict=True)
        ]
        gradient = function.gradient([Spec(x.shape, x.dtype) for x in inputs], needs)
        results = host_call(*inputs, *outputs, *grads_of_outputs, function=gradient)
        input_grads = iter(results if isinstance(results, tuple) else (results,))
        return [next(input_grads) if need else None for need in needs]


host_call = HostCall()
