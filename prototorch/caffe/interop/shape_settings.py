"""Settings of the command line for a net of Caffe: the sizes of inputs that only data files tell."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any

from prototorch.errors import UsageError
from prototorch.text.overrides import Override, parse_overrides
from prototorch.text.syntax_tree import ListValue, to_python_value

__all__ = ["input_sizes", "parse_shape_settings", "shape_settings"]


def input_sizes(blob: str, shape: Any) -> tuple[int, ...]:
    """The sizes that a caller gives for an input, without axis 0. Raises UsageError unless they are 1 or more."""
    try:
        sizes = tuple(index(n) for n in shape)
    except TypeError:
        sizes = (0,)
    if min(sizes, default=1) < 1:
        raise UsageError(f"the shape of the input {blob!r}, without the batch, has integers of at least 1, not {shape}")
    return sizes


def parse_shape_settings(settings: Sequence[str]) -> tuple[dict[str, tuple[int, ...]], list[Override]]:
    """Shapes without axis 0 by blob, of ``data.shape=[3,227,227]``, and the other settings. Raises UsageError for
    sizes below 1, and for a param, which a net of Caffe has not."""
    params, others = parse_overrides(settings)
    if params:
        raise UsageError(f"--set {next(iter(params))}: a net of Caffe has no params; layer.field=value sets a field")
    shapes, other_settings = {}, []
    for setting in others:
        if len(setting.path) == 2 and setting.path[1] == "shape" and isinstance(setting.value, ListValue):
            shapes[setting.path[0]] = input_sizes(setting.path[0], to_python_value(setting.value))
        else:
            other_settings.append(setting)
    return shapes, other_settings


def shape_settings(settings: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """As `parse_shape_settings`, where no other setting has a meaning: UsageError for one."""
    shapes, others = parse_shape_settings(settings)
    for setting in others:
        raise UsageError(f"--set {'.'.join(map(str, setting.path))}: a net of Caffe takes BLOB.shape=[3,227,227] here")
    return shapes
