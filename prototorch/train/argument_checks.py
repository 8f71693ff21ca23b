"""Checks of the arguments of `Model`'s methods."""

from __future__ import annotations

import operator
from typing import Any

from prototorch.errors import UsageError

__all__ = ["check_integer", "check_optional_integer"]


def check_integer(name: str, value: Any, least: int = 1) -> int:
    """The value as an int. Raises UsageError, which names the argument, unless it is an integer >= ``least``."""
    try:
        number = least - 1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = least - 1
    if number < least:
        raise UsageError(f"{name} must be an integer of at least {least}, not {value!r}.")
    return number


def check_optional_integer(name: str, value: Any) -> int | None:
    """As `check_integer`, but None stays None."""
    return None if value is None else check_integer(name, value)
