"""Importers of whole models, one module a format; a `ModelFormat` at the top of a module is registered by being
there."""

from __future__ import annotations

import os
from functools import cache

from prototorch.base.index import load_extensions
from prototorch.interop.importers.model_format import ModelFormat
from prototorch.model.loading.read.file_format import UnknownFile

__all__ = ["find_importer", "importers"]


def find_importer(path: str | os.PathLike[str]) -> ModelFormat | None:
    """The format of a whole model; None for a file that is no model of another system (its weights may be readable).

    Raises ModelFileError for a file that cannot be read.
    """
    file = UnknownFile(path)
    return next((one for one in importers() if one.recognize(file)), None)


@cache
def importers() -> tuple[ModelFormat, ...]:
    """All importers, in the order of their modules' names."""
    return tuple(load_extensions(ModelFormat))
