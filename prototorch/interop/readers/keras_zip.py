"""Keras 3's ``.keras``: a zip archive of the model's config and its weights.

The config is read as data: no class that it names is looked up, and assets are not read. A member without compression,
as Keras writes it, is mapped in its place; a compressed one is decompressed to a temporary file.
"""

from __future__ import annotations

from prototorch.engine.storage.mapped_file import MappedFile
from prototorch.engine.storage.zip_members import read_member, zip_members
from prototorch.engine.storage.zipped_hdf5 import read_zipped_layout
from prototorch.errors import ModelFileError
from prototorch.interop.keras.config_json import MAX_CONFIG_BYTES, parse_config
from prototorch.interop.keras.weights_file import is_keras_layout, keras_weight_file
from prototorch.model.loading.read.file_format import Format, UnknownFile
from prototorch.model.loading.weight_file import WeightFile

__all__ = ["FORMAT"]

WEIGHTS, CONFIG, METADATA = "model.weights.h5", "config.json", "metadata.json"


def _recognize(file: UnknownFile) -> bool:
    return file.is_zip and CONFIG in file.members and METADATA in file.members


def _open(path: str) -> WeightFile:
    file = MappedFile(path)
    members = zip_members(file)
    config = parse_config(bytes(read_member(file, members[CONFIG], MAX_CONFIG_BYTES)), f"{path}: {CONFIG}")
    metadata = parse_config(bytes(read_member(file, members[METADATA], MAX_CONFIG_BYTES)), f"{path}: {METADATA}")
    if WEIGHTS not in members:
        raise ModelFileError(f"{path}: a Keras archive without {WEIGHTS}; save the model with model.save(...)")
    layout = read_zipped_layout(file, members[WEIGHTS])
    if layout.datasets and not is_keras_layout(layout):
        raise ModelFileError(f"{path}: {WEIGHTS} is not in Keras' layout")
    if not layout.datasets:
        return WeightFile(path, "Keras 3 model", "keras", {}, (), config)
    weights = keras_weight_file(layout, config)
    version = {"keras_version": str(metadata["keras_version"])[:40]} if "keras_version" in metadata else {}
    return WeightFile(
        path,
        "Keras 3 model",
        "keras",
        weights.arrays,
        weights.layers,
        config,
        {**weights.metadata, **version},
        weights.skipped,
    )


FORMAT = Format("Keras", _recognize, _open, (".keras",))
