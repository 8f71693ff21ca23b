"""The names of devices: "auto", "cpu", "cuda", and "cuda:1" for a GPU by its number ("cpu:0" is "cpu")."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from prototorch.errors import UsageError, did_you_mean

__all__ = ["DEVICE_NAMES", "MAX_NUMBER", "DeviceName", "describe_device_names", "name_of_device", "parse_device",
           "suggest_device", "unknown_device_error"]  # fmt: skip

DEVICE_NAMES = ("auto", "cpu", "cuda")
MAX_NUMBER = 9999  # of a GPU
_NAME = re.compile(r"(auto|cpu|cuda)|(cpu):0|cuda:(0|[1-9][0-9]{0,3})", re.ASCII)
_SIMILAR = re.compile(r"(?:cuda|gpu|nvidia|cu|c)\W?([0-9]{1,4})?", re.ASCII | re.IGNORECASE)


class DeviceName(NamedTuple):
    """type: "auto", "cpu" or "cuda". number: of a GPU (0 of the CPU), None where the name has none."""

    type: str
    number: int | None = None

    def __str__(self) -> str:
        return self.type if self.number is None else f"{self.type}:{self.number}"


def parse_device(name: str) -> DeviceName | None:
    """A device by its name; None for what is no such name. Numbers of GPUs have at most four digits."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    if match[3] is not None:
        return DeviceName("cuda", int(match[3]))
    return DeviceName(match[1]) if match[1] else DeviceName(match[2], 0)


def unknown_device_error(name: str) -> UsageError:
    """The error for what is no device of a tensor."""
    hint = "" if parse_device(name) else suggest_device(name, ("cpu", "cuda"))
    return UsageError(f"there is no device {name[:60]!r}; there are 'cpu', 'cuda' and 'cuda:N'.{hint}")


def name_of_device(value: Any) -> str:
    """The name of a device of tensors, which is given as its name, a `prototorch.device`, or the number of a GPU.
    Raises UsageError for what is none."""
    name = f"cuda:{value}" if type(value) is int else str(value)
    parsed = parse_device(name)
    if parsed is None or parsed.type == "auto":
        raise unknown_device_error(name)
    return name


def describe_device_names() -> str:
    """The names in words, for messages."""
    return "'auto', 'cpu', 'cuda' or 'cuda:N' (the GPU number N, from 0)"


def suggest_device(name: str, names: Sequence[str] = DEVICE_NAMES) -> str:
    """`` Did you mean 'cuda:1'?`` for what looks like a device's name; else an empty string. names: without numbers."""
    similar = _SIMILAR.fullmatch(name.strip())
    if similar is not None:
        number = None if similar[1] is None else int(similar[1])
        return f" Did you mean {str(DeviceName('cuda', number))!r}?"
    return did_you_mean(name, names)
