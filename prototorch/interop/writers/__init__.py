"""Writers of models and weights for other systems, one module a format; an `OutputFormat` at the top of a module is
registered by being there."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

from prototorch.base.index import load_extensions
from prototorch.errors import UsageError, did_you_mean
from prototorch.interop.writers.output_format import OutputFormat
from prototorch.model.foreign_files import ModelToWrite

__all__ = ["find_output_format", "output_formats", "write_model", "written_endings"]


def write_model(
    path: str | os.PathLike[str], model: ModelToWrite, format: str | None = None, **options: Any
) -> tuple[str, ...]:
    """Write a model in a format, by its name or by the ending of the path; returns the paths of the files written.

    Raises UsageError for an unknown format, and for an option that it does not have; what else the format raises.
    """
    return find_output_format(os.fspath(path), format).save(path, model, **options)


def find_output_format(path: str, name: str | None = None) -> OutputFormat:
    """The format of that name, else the one of the path's ending. Raises UsageError."""
    formats = output_formats()
    if name is not None:
        for one in formats:
            if one.name == name:
                return one
        names = [one.name for one in formats]
        raise UsageError(f"there is no format {name!r}; there are {', '.join(names)}.{did_you_mean(name, names)}")
    endings = [(ending, one) for one in formats for ending in one.endings if path.lower().endswith(ending)]
    if not endings:
        raise UsageError(
            f"{path}: no format that is written has this ending; there are {written_endings()}; or format= says which: "
            f"{', '.join(one.name for one in formats)}"
        )
    return max(endings, key=lambda pair: len(pair[0]))[1]


def written_endings() -> str:
    """The endings of the formats that have some, with their titles, for messages. Others are asked for by name."""
    return ", ".join(f"{'/'.join(one.endings)} ({one.title})" for one in output_formats() if one.endings)


@cache
def output_formats() -> tuple[OutputFormat, ...]:
    """All formats, in the order of their modules' names."""
    return tuple(load_extensions(OutputFormat))
