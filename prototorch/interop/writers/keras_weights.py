"""Keras 3's ``.weights.h5``: the weights of a model that its user builds in Keras.

Keras' images are channels-last unless its user says otherwise, so that is the default here: the rows of a Dense behind
a Flatten are in that order. Layers of models inside the model are found by a file of it (``like``).
"""

from __future__ import annotations

from prototorch.engine.storage.atomic_write import write_bytes
from prototorch.errors import UsageError
from prototorch.interop.keras.file_contents import vars_contents_like
from prototorch.interop.writers.keras_files import encode, keras_contents
from prototorch.interop.writers.output_format import OutputFormat
from prototorch.model.foreign_files import ModelToWrite
from prototorch.model.loading.read.read_file import read_weights
from prototorch.model.loading.weight_file import WeightFile

__all__ = ["FORMAT"]


def _write(
    path: str, model: ModelToWrite, *, data_format: str | None = None, like: str | None = None
) -> tuple[str, ...]:
    if data_format not in (None, "channels_last", "channels_first"):
        raise UsageError(f"data_format: expected channels_last or channels_first, got {data_format!r:.60}")
    if like is None:
        contents = keras_contents(model, FORMAT.title, data_format or "channels_last").vars_tree()
    else:
        contents = encode(vars_contents_like(_open_keras_file(like), model, data_format))
    write_bytes(path, contents)
    return (path,)


def _open_keras_file(path: str) -> WeightFile:
    file = read_weights(path)
    if file.system != "keras":
        raise UsageError(f"like: expected a file that Keras wrote of the model, got {path} ({file.format})")
    return file


FORMAT = OutputFormat("keras-weights", "Keras weights", (".weights.h5",), False, _write, ("data_format", "like"))
