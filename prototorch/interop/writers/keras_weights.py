"""Keras 3's ``.weights.h5``: the weights of a model that its user builds in Keras.

Keras' images are channels-last unless its user says otherwise, so that is the default here: the rows of a Dense behind
a Flatten are in that order.
"""

from __future__ import annotations

from prototorch.engine.storage.atomic_write import write_bytes
from prototorch.errors import UsageError
from prototorch.interop.writers.keras_files import keras_contents
from prototorch.interop.writers.output_format import OutputFormat
from prototorch.model.foreign_files import ModelToWrite

__all__ = ["FORMAT"]


def _write(path: str, model: ModelToWrite, *, data_format: str = "channels_last") -> tuple[str, ...]:
    if data_format not in ("channels_last", "channels_first"):
        raise UsageError(f"data_format: expected channels_last or channels_first, got {data_format!r:.60}")
    write_bytes(path, keras_contents(model, FORMAT.title, data_format).vars_tree())
    return (path,)


FORMAT = OutputFormat("keras-weights", "Keras weights", (".weights.h5",), False, _write, ("data_format",))
