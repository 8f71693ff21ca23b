"""Whole models of Keras: ``.keras``, ``.h5`` with a config, and the JSON of ``model.to_json()``."""

from __future__ import annotations

from prototorch.interop.importers.model_format import ModelFormat
from prototorch.interop.keras.config_import.whole_model import import_file
from prototorch.model.loading.read.file_format import UnknownFile
from prototorch.model.loading.read.read_file import read_weights

__all__ = ["IMPORTER"]

_HDF5 = b"\x89HDF\r\n\x1a\n"


def _recognize(file: UnknownFile) -> bool:
    if file.is_zip:
        return {"config.json", "metadata.json"} <= file.members
    if file.head.startswith(_HDF5):
        return read_weights(file.path).config is not None
    return file.head.lstrip()[:1] == b"{" and b'"class_name"' in file.head and file.ending == ".json"


IMPORTER = ModelFormat("keras", "Keras", _recognize, import_file)
