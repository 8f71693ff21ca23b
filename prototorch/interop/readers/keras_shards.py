"""Keras' weights in several files: ``x.weights.json`` and the ``x_00000.weights.h5`` that it lists."""

from __future__ import annotations

from typing import Any

from prototorch.data.safe_io import read_file
from prototorch.errors import DataError, ModelFileError
from prototorch.interop.keras.config_json import MAX_CONFIG_BYTES, parse_config
from prototorch.interop.keras.sharded_layout import read_sharded_layout
from prototorch.interop.keras.weights_file import is_keras_layout, keras_weight_file
from prototorch.model.loading.read.file_format import Format, UnknownFile
from prototorch.model.loading.weight_file import WeightFile

__all__ = ["FORMAT"]


def _recognize(file: UnknownFile) -> bool:
    return file.head.lstrip()[:1] == b"{" and b'"weight_map"' in file.head and b".weights.h5" in file.head


def _open(path: str) -> WeightFile:
    try:
        index = parse_config(bytes(read_file(path, MAX_CONFIG_BYTES)), path)
    except DataError as error:
        raise ModelFileError(str(error)) from None
    layout = read_sharded_layout(path, _file_names(path, index.get("weight_map")))
    if not is_keras_layout(layout):
        raise ModelFileError(f"{path}: the files that it lists are not in Keras' layout")
    return keras_weight_file(layout)


def _file_names(path: str, weight_map: Any) -> list[str]:
    lists = list(weight_map.values()) if isinstance(weight_map, dict) else []
    names = [name for one in lists for name in (one if isinstance(one, list) else [one])]
    if not names or not all(isinstance(name, str) for name in names):
        raise ModelFileError(f'{path}: expected {{"weight_map": {{group: [files]}}}}')
    return sorted(set(names))


FORMAT = Format("Keras in several files", _recognize, _open, (".weights.json",))
