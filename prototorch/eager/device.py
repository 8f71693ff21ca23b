"""Devices by PyTorch's names: "cpu", "cuda", "cuda:1"."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from prototorch.engine.backends.device_name import MAX_NUMBER, parse_device, suggest_device
from prototorch.errors import UsageError

__all__ = ["CPU", "Device", "as_device", "current_gpu"]

#: the number of the GPU that "cuda" means
current_gpu: ContextVar[int] = ContextVar("prototorch_current_gpu", default=0)


class Device:
    """Where the elements of a tensor are.

    type: "cpu" or "cuda", or a name with its number ("cuda:1"), or the number of a GPU alone. index: the number of the
    GPU, None for the CPU or for the current GPU. Raises UsageError for what is no device.
    Equal to its name: ``x.device == "cuda:0"``.
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
            hint = "" if resolved else suggest_device(name, ("cpu", "cuda"))
            raise UsageError(f"there is no device {name[:60]!r}; there are 'cpu', 'cuda' and 'cuda:N'.{hint}")
        self.type: str = resolved.type
        self.index: int | None = index if resolved.number is None else resolved.number
        if self.type == "cpu" and self.index is not None and self.index != 0:
            raise UsageError(f"there is one device 'cpu', and no {name}:{self.index}")

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
