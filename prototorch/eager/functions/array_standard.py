"""The array API standard's methods of arrays."""

from __future__ import annotations

from typing import Any

from prototorch.eager.array_api.namespace import ArrayNamespace, array_namespace
from prototorch.eager.registry import tensor_method
from prototorch.eager.tensor import Tensor
from prototorch.errors import UsageError

__all__: list[str] = []


@tensor_method(name="__array_namespace__")
def _array_namespace(self: Tensor, *, api_version: str | None = None) -> ArrayNamespace:
    """The namespace of the array API standard for tensors (see `prototorch.eager.array_api`)."""
    return array_namespace(api_version)


@tensor_method
def to_device(self: Tensor, device: Any, /, *, stream: Any = None) -> Tensor:
    """The tensor on a device, as the array API standard names `to`."""
    if stream is not None:
        raise UsageError("to_device: stream is not supported")
    moved: Tensor = self.to(device)
    return moved
