"""Results as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import click
import numpy as np

__all__ = ["format_json", "print_json", "to_json_types", "to_plain_types"]


def print_json(value: Any) -> None:
    """A result as JSON; numbers that are not finite, which JSON does not know, as null."""
    click.echo(format_json(value))


def format_json(value: Any) -> str:
    """A value as JSON; numbers that are not finite, which JSON does not know, as null."""
    return json.dumps(to_json_types(value), indent=2, allow_nan=False)


def to_json_types(value: Any) -> Any:
    """A value of the types that JSON knows; numbers that are not finite as None."""
    return _replace_nonfinite(to_plain_types(value))


def to_plain_types(value: Any) -> Any:
    """Numbers and arrays of NumPy as Python's own."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {str(k): to_plain_types(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain_types(v) for v in value]
    return value


def _replace_nonfinite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {k: _replace_nonfinite(v) for k, v in value.items()}
    return [_replace_nonfinite(v) for v in value] if isinstance(value, list) else value
