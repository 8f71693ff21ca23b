"""Keras 3's ``.keras``: a zip archive of the model's config and its weights. The net is channels-first as here."""

from __future__ import annotations

import json
from collections.abc import Sequence

from prototorch.engine.storage.atomic_write import write_bytes
from prototorch.engine.storage.zip_writer import encode_zip
from prototorch.interop.keras.file_contents import KERAS_VERSION
from prototorch.interop.writers.keras_files import keras_contents
from prototorch.interop.writers.output_format import OutputFormat
from prototorch.model.foreign_files import ModelToWrite

__all__ = ["FORMAT"]


def _write(path: str, model: ModelToWrite) -> tuple[str, ...]:
    contents = keras_contents(model, FORMAT.title)
    metadata = {"keras_version": KERAS_VERSION, "date_saved": "1980-01-01@00:00:00"}
    members: dict[str, Sequence[bytes | memoryview]] = {
        "metadata.json": [json.dumps(metadata).encode()],
        "config.json": [json.dumps(contents.config).encode()],
        "model.weights.h5": contents.vars_tree(),
    }
    write_bytes(path, encode_zip(members))
    return (path,)


FORMAT = OutputFormat("keras", "Keras model", (".keras",), True, _write)
