"""Which arguments of PyTorch's ``to`` by position are devices, and which are element types."""

from __future__ import annotations

from typing import Any

from prototorch.eager.device import Device
from prototorch.eager.dtype import ALIASES, DTYPES
from prototorch.errors import did_you_mean

__all__ = ["is_device_argument"]


def is_device_argument(value: Any) -> bool:
    """Whether an argument means a device: a `Device`, a number, or a name that is neither an element type's nor like
    one. What is neither is taken for a device, as PyTorch takes every name: "mps" is then a device that is not there.
    """
    if not isinstance(value, str):
        return isinstance(value, Device | int) and not isinstance(value, bool)
    name = value.rpartition(".")[2]
    return name not in DTYPES and name not in ALIASES and not did_you_mean(name, DTYPES)
