"""What a writer's module declares: an `OutputFormat` at its top, with a function that writes a model or its weights."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from prototorch.base.index import Extension
from prototorch.errors import UsageError, did_you_mean
from prototorch.layers.base import Layer
from prototorch.model.foreign_files import ModelToWrite

__all__ = ["OutputFormat", "preprocess_notes"]


@dataclass(frozen=True)
class OutputFormat(Extension):
    """A format that is written.

    name: what ``--to`` and ``format=`` call it ("onnx"). title: what messages call it ("ONNX"). endings: of its files,
    in lower case with the dot; none of two formats are equal. holds_model: whether the file tells the net, not the
    weights alone. write: ``(path, model, **options)`` writes the file, whole or not at all, and returns the paths of
    all files that it has written. options: the names of the keyword arguments that it takes. includes_preprocess:
    whether the layers of ``preprocess`` are written where the format can express them. write_arrays:
    ``(path, arrays by name, metadata)`` writes arrays as they are, without a net; None for a format that needs one.
    """

    name: str
    title: str
    endings: tuple[str, ...]
    holds_model: bool
    write: Callable[..., Sequence[str]]
    options: tuple[str, ...] = ()
    write_arrays: Callable[[str, Mapping[str, np.ndarray], Mapping[str, str]], Sequence[str]] | None = None
    includes_preprocess: bool = False

    def save(self, path: str | os.PathLike[str], model: ModelToWrite, **options: Any) -> tuple[str, ...]:
        """Write a model; the paths of the files written. Raises UsageError for an option that the format has not."""
        for name in options:
            if name not in self.options:
                option_names = ", ".join(self.options) or "none"
                raise UsageError(
                    f"{self.title} has no option {name!r}; it has {option_names}.{did_you_mean(name, self.options)}"
                )
        paths = tuple(self.write(os.fspath(path), model, **options))
        if self.holds_model and not self.includes_preprocess and not options.get("include_preprocess"):
            model.notes.extend(preprocess_notes(model.net.preprocess, self))
        return paths


def preprocess_notes(preprocess: Sequence[Layer], format: OutputFormat, reason: str = "") -> list[str]:
    """The line that names the layers of ``preprocess`` that a file does not hold; none where there are none."""
    if not preprocess:
        return []
    names = ", ".join(type(layer).__name__ for layer in preprocess)
    if "include_preprocess" in format.options and not reason:
        reason = "include_preprocess=true puts it in"
    return [f"{format.title}: the preprocessing ({names}) is not in the file{reason and f' ({reason})'}: do it before"]
