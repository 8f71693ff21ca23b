"""Keras' legacy ``.h5`` of a whole model, in the form of Keras 3."""

from __future__ import annotations

import json

from prototorch.engine.storage.atomic_write import write_bytes
from prototorch.interop.keras.file_contents import KERAS_VERSION, legacy_contents
from prototorch.interop.writers.keras_files import encode, keras_contents
from prototorch.interop.writers.output_format import OutputFormat
from prototorch.model.foreign_files import ModelToWrite

__all__ = ["FORMAT"]


def _write(path: str, model: ModelToWrite) -> tuple[str, ...]:
    contents = keras_contents(model, FORMAT.title)
    tree = legacy_contents(contents.layers, contents.weights, "model_weights")
    tree.attributes[""] = {
        "model_config": json.dumps(contents.config),
        "backend": "torch",
        "keras_version": KERAS_VERSION,
    }
    write_bytes(path, encode(tree))
    return (path,)


FORMAT = OutputFormat("keras-h5", "Keras model (legacy HDF5)", (), True, _write)
