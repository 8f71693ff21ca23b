"""Safetensors, written from the arrays where they are, whole or not at all (the package would write them in place)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from prototorch.engine.storage.atomic_write import write_bytes
from prototorch.errors import UsageError
from prototorch.interop.writers.output_format import OutputFormat
from prototorch.interop.writers.system_arrays import find_system, system_arrays
from prototorch.model.foreign_files import ModelToWrite

__all__ = ["FORMAT", "write_arrays"]

_CODES = {
    "bool": "BOOL", "uint8": "U8", "int8": "I8", "uint16": "U16", "int16": "I16", "uint32": "U32", "int32": "I32",
    "uint64": "U64", "int64": "I64", "float16": "F16", "float32": "F32", "float64": "F64", "complex64": "C64",
}  # fmt: skip
#: whose names and layouts the arrays have -> the metadata ``format`` that tells it
_FORMATS = {"torch": "pt"}  # what the metadata call a system
_ALIGNMENT = 8


def write_model(path: str, model: ModelToWrite, names: str = "torch") -> tuple[str, ...]:
    """Write the weights. names: whose names and layouts they have, "torch" (the metadata's format is then "pt"),
    "prototorch", or those of a weight set of the model ("torchvision/resnet18") or its source ("torchvision").

    Raises UsageError for other names and for layers that PyTorch does not have, SnapshotError where the file cannot be
    written.
    """
    arrays = system_arrays(model.net, model.weights, names)
    system = find_system(names, model.net)
    return write_arrays(path, arrays, {**model.metadata, "format": _FORMATS.get(system, system)})


def write_arrays(path: str, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> tuple[str, ...]:
    """Write arrays under their names, with metadata. Raises UsageError for a dtype or name that the format does not
    have, SnapshotError where the file cannot be written."""
    if "__metadata__" in arrays:
        raise UsageError("safetensors: a weight cannot be called '__metadata__'")
    contiguous = {name: _little_endian(name, array) for name, array in arrays.items()}
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    entries: dict[str, dict[str, Any]] = {}
    pieces = []
    position = 0
    for name in sorted(contiguous, key=lambda name: -contiguous[name].itemsize):  # so that each is aligned
        array = contiguous[name]
        offsets = [position, position + array.nbytes]
        entries[name] = {"dtype": _CODES[array.dtype.name], "shape": list(array.shape), "data_offsets": offsets}
        pieces.append(array.reshape(-1).view(np.uint8).data)
        position += array.nbytes
    header |= {name: entries[name] for name in contiguous}
    content = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    content += b" " * (-len(content) % _ALIGNMENT)
    write_bytes(path, [len(content).to_bytes(8, "little"), content, *pieces])
    return (path,)


def _little_endian(name: str, array: np.ndarray) -> np.ndarray:
    """The array in C order; its own memory where it is so already."""
    if array.dtype.name not in _CODES:
        raise UsageError(f"{name}: safetensors has no dtype {array.dtype}; convert it to float32 first")
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(np.shape(array))


FORMAT = OutputFormat("safetensors", "safetensors", (".safetensors",), False, write_model, ("names",), write_arrays)
