"""The writers of other systems' files for a `Model`."""

from __future__ import annotations

from prototorch.interop.writers import write_model
from prototorch.model.foreign_files import ModelWriter

__all__ = ["WRITER"]

WRITER = ModelWriter(write_model)
