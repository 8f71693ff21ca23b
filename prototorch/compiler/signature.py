"""The signature of a call: what of its arguments a plan depends on, and the tensors among them."""

from __future__ import annotations

import enum
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from prototorch.eager.tensor import Tensor
from prototorch.errors import UsageError
from prototorch.nn.module import Module

__all__ = ["CallSignature", "collect_tensors", "map_tensors"]

_VALUE_TYPES = (bool, int, float, complex, str, bytes, type(None), enum.Enum, range, slice, type(...), np.dtype)


class CallSignature:
    """A call's key, equal for calls that one plan serves, and its tensors in the order of the arguments.

    Tensors count by spec, device and whether they require a gradient (and have one already), modules and functions as
    the objects that they are, other values by type and value.
    """

    __slots__ = ("key", "tensors")

    def __init__(self, args: tuple[Any, ...], options: Mapping[str, Any]):
        self.tensors: list[Tensor] = []
        parts = [self._part(a) for a in args]
        self.key: Hashable = (tuple(parts), tuple([(n, self._part(v)) for n, v in sorted(options.items())]))

    def _part(self, value: Any) -> Hashable:
        if isinstance(value, Tensor):
            return self._tensor(value)
        kind = type(value)
        if isinstance(value, _VALUE_TYPES):
            return kind, value
        if isinstance(value, list | tuple):
            return kind, tuple([self._part(v) for v in value])
        if isinstance(value, dict):
            return kind, tuple([(k, self._part(v)) for k, v in value.items()])
        if isinstance(value, np.ndarray | np.generic):
            raise UsageError(
                f"a compiled function takes tensors, not NumPy's {kind.__name__}: pass from_numpy(array), of the same "
                "memory"
            )
        if isinstance(value, Module) or callable(value) or hasattr(value, "__dict__"):
            return kind, id(value)
        raise UsageError(f"a compiled function cannot take an argument of type {kind.__name__}")

    def _tensor(self, t: Tensor) -> Hashable:
        for k, position_tensor in enumerate(self.tensors):
            if position_tensor is t:
                return "the tensor of argument", k
        self.tensors.append(t)
        requires_grad = t.requires_grad
        grad = t.grad if requires_grad and t.is_leaf else None
        key = (t.spec, t.interpreter.device, requires_grad, t.is_leaf, t.array.flags.c_contiguous)
        return key if grad is None else (*key, self._part(grad))


def collect_tensors(value: Any) -> list[Tensor]:
    """The tensors of a nest, in order."""
    tensors: list[Tensor] = []

    def note(tensor: Tensor) -> Tensor:
        tensors.append(tensor)
        return tensor

    map_tensors(value, note)
    return tensors


def map_tensors(value: Any, function: Any) -> Any:
    """A nest of lists, tuples and dicts with ``function(tensor)`` in the place of each tensor."""
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(map_tensors(v, function) for v in value))
    if isinstance(value, list | tuple):
        return type(value)(map_tensors(v, function) for v in value)
    if isinstance(value, dict):
        return {k: map_tensors(v, function) for k, v in value.items()}
    return value
