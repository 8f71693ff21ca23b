"""Methods of subclasses in other frameworks that nothing would call here: refused where a class defines them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from prototorch.errors import UsageError

__all__ = ["CONFIG_METHODS", "check_call", "refuse_overrides"]

#: of every declared class: its fields are what Keras' methods give and take
CONFIG_METHODS = dict.fromkeys(
    ("get_config", "from_config"),
    "fields are declared by annotations (`units: int = 8`), and a file holds them; leave the method out",
)


def refuse_overrides(cls: type, without_effect: Mapping[str, str]) -> None:
    """Raise UsageError where a class, or a class that it is mixed with, defines a method of this table.

    without_effect: the names of methods, each with what to write instead. Classes of the package may define them.
    """
    for name, hint in without_effect.items():
        owner = next((base for base in cls.__mro__ if name in vars(base)), None)
        if owner is not None and not _is_of_package(owner):
            raise UsageError(f"{cls.__name__}.{name} would have no effect, nothing calls it: {hint}")


def check_call(cls: Any, least_inputs: int, hint: str) -> None:
    """Raise UsageError for a ``call`` of a user's class that does not take a context and this number of inputs."""
    owner = next(base for base in cls.__mro__ if "call" in vars(base))
    if _is_of_package(owner):
        return
    signature = inspect.signature(owner.call)
    names = list(signature.parameters)
    foreign: list[str] = [name for name in ("training", "mask", "attention_mask", "initial_state") if name in names]
    try:
        signature.bind(*range(2 + least_inputs))  # self, ctx, inputs
    except TypeError:
        foreign = foreign or names[1:2]
    if foreign or names[1:2] in (["x"], ["inputs"], ["input"]):
        raise UsageError(f"{cls.__name__}.call{signature} cannot be called: {hint}")


def _is_of_package(cls: type) -> bool:
    return cls is object or cls.__module__.partition(".")[0] == __name__.partition(".")[0]
