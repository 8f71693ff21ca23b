"""Devices by PyTorch's names: "cpu", "cuda", "cuda:1"."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from typing import Any

from prototorch.engine.backends import device_scope
from prototorch.engine.backends.device_name import MAX_NUMBER, parse_device, unknown_device_error
from prototorch.errors import UsageError

__all__ = ["CPU", "Device", "as_device", "current_gpu", "get_default_device", "set_default_device"]

#: the number of the GPU that "cuda" means
current_gpu: ContextVar[int] = ContextVar("prototorch_current_gpu", default=0)


class Device:
    """Where the elements of a tensor are.

    type: "cpu" or "cuda", or a name with its number ("cuda:1"), or the number of a GPU alone. index: the number of the
    GPU, None for the CPU or for the current GPU. Raises UsageError for what is no device.
    Equal to its name: ``x.device == "cuda:0"``.

    As a context (``with pt.device("cuda:0"):``) it is the device of new tensors and variables, and the place of symbols
    in static graphs; as a decorator the same for the calls of a function.
    """

    __slots__ = ("index", "type")

    def __init__(self, type: Any, index: int | None = None):
        if isinstance(type, int) and not isinstance(type, bool) and index is None:
            type, index = "cuda", type
        name = type.type if isinstance(type, Device) else str(type)
        if isinstance(type, Device) and index is None:
            index = type.index
        if index is not None and not (isinstance(index, int) and 0 <= index <= MAX_NUMBER):
            raise UsageError(f"there is no device {f'{name}:{index}'[:60]!r}: GPUs have numbers from 0 to {MAX_NUMBER}")
        resolved = parse_device(name)
        if resolved is None or resolved.type == "auto" or (resolved.number is not None and index is not None):
            raise unknown_device_error(name)
        self.type: str = resolved.type
        self.index: int | None = index if resolved.number is None else resolved.number
        if self.type == "cpu" and self.index is not None and self.index != 0:
            raise UsageError(f"there is one device 'cpu', and no {name}:{self.index}")

    def __enter__(self) -> Device:
        device_scope.push_device(str(self))
        return self

    def __exit__(self, *_: object) -> None:
        device_scope.pop_device()

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function with this device as its default (PyTorch's decorator)."""

        @wraps(function)
        def call(*args: Any, **options: Any) -> Any:
            with self:
                return function(*args, **options)

        return call

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            try:
                other = Device(other)
            except UsageError:
                return False
        return isinstance(other, Device) and (self.type, self.index or 0) == (other.type, other.index or 0)

    def __hash__(self) -> int:
        return hash((self.type, self.index or 0))

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        return f"device(type={self.type!r}" + (")" if self.index is None else f", index={self.index})")


CPU = Device("cpu")


def as_device(value: Any) -> Device:
    """The device that a value names: a Device, its name, or the number of a GPU. Raises UsageError for none."""
    if isinstance(value, Device):
        return value
    if isinstance(value, str | int) and not isinstance(value, bool):
        return Device(value)
    raise UsageError(f"expected a device such as 'cpu' or 'cuda:0', got {value!r:.60}")


def set_default_device(device: Any) -> None:
    """Set the device of new tensors, variables and graphs for which none is given; None is the CPU
    (torch.set_default_device)."""
    device_scope.set_default_device(None if device is None else str(as_device(device)))


def get_default_device() -> Device:
    """The device of new tensors for which none is given (torch.get_default_device)."""
    device = Device(device_scope.default_device() or "cpu")
    return Device("cuda", current_gpu.get()) if device.type == "cuda" and device.index is None else device
