"""PyTorch's zip container with a ``state_dict``, written without PyTorch.

The pickle has the same opcodes and names as that of ``torch.save``; ``torch.load(path, weights_only=True)`` reads it,
in all versions since 1.6. Arrays are written from where they are, without a copy.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from prototorch.errors import UsageError
from prototorch.interop.writers.output_format import ModelToWrite, OutputFormat
from prototorch.interop.writers.system_arrays import system_arrays
from prototorch.storage.atomic_write import write_bytes
from prototorch.storage.zip_writer import encode_zip

__all__ = ["FORMAT", "write_arrays"]

_STORAGES = {
    "float64": "Double", "float32": "Float", "float16": "Half", "int64": "Long", "int32": "Int", "int16": "Short",
    "int8": "Char", "uint8": "Byte", "bool": "Bool", "complex64": "ComplexFloat", "complex128": "ComplexDouble",
}  # fmt: skip


def write_model(path: str, model: ModelToWrite, names: str = "torch") -> tuple[str, ...]:
    """Write a ``state_dict``. names: whose names and layouts it has: "torch", "prototorch", or those of a weight set of
    the model ("torchvision/resnet18") or its source ("torchvision").

    Raises UsageError for other names and for layers that PyTorch does not have, SnapshotError where the file cannot be
    written.
    """
    return write_arrays(path, system_arrays(model.net, model.weights, names), {})


def write_arrays(path: str, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> tuple[str, ...]:
    """Write arrays under their names; metadata: not written, since a ``state_dict`` has tensors alone.

    Raises UsageError for a dtype that PyTorch does not have, SnapshotError where the file cannot be written.
    """
    stem = re.sub(r"[^A-Za-z0-9._-]", "_", os.path.splitext(os.path.basename(path))[0]).strip(".") or "archive"
    contiguous = {
        name: np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(np.shape(array))
        for name, array in arrays.items()
    }
    members: dict[str, list[Any]] = {f"{stem}/data.pkl": [_pickle(contiguous)], f"{stem}/byteorder": [b"little"]}
    for number, array in enumerate(contiguous.values()):
        members[f"{stem}/data/{number}"] = [array.reshape(-1).view(np.uint8).data]
    members[f"{stem}/version"] = [b"3\n"]
    write_bytes(path, encode_zip(members))
    return (path,)


def _pickle(arrays: Mapping[str, np.ndarray]) -> bytes:
    """The pickle (protocol 2) of an OrderedDict of tensors, each with a storage of its own."""
    ordered_dict = b"ccollections\nOrderedDict\n)R"
    pieces = [b"\x80\x02", ordered_dict, b"("]
    for number, (name, array) in enumerate(arrays.items()):
        storage = _STORAGES.get(array.dtype.name)
        if storage is None:
            raise UsageError(f"{name}: PyTorch has no dtype {array.dtype}; convert it to float32 first")
        strides = tuple(stride // array.itemsize for stride in _contiguous_strides(array))
        pieces += [
            _text(name),
            b"ctorch._utils\n_rebuild_tensor_v2\n(",
            b"(" + _text("storage") + f"ctorch\n{storage}Storage\n".encode(),
            _text(str(number)) + _text("cpu") + _integer(array.size) + b"tQ",
            _integer(0) + _tuple(array.shape) + _tuple(strides) + b"\x89" + ordered_dict + b"tR",
        ]
    return b"".join([*pieces, b"u."])


def _contiguous_strides(array: np.ndarray) -> tuple[int, ...]:
    """In bytes, of an array in C order; NumPy's own may differ for lengths of 0 and 1."""
    strides = []
    step = array.itemsize
    for length in reversed(array.shape):
        strides.append(step)
        step *= max(length, 1)
    return tuple(reversed(strides))


def _text(text: str) -> bytes:
    content = text.encode("utf-8", "surrogatepass")
    return b"X" + struct.pack("<I", len(content)) + content


def _integer(value: int) -> bytes:
    if value < 1 << 31:
        return b"J" + struct.pack("<i", value)
    content = value.to_bytes((value.bit_length() + 8) // 8, "little", signed=True)
    return b"\x8a" + bytes([len(content)]) + content


def _tuple(values: tuple[int, ...]) -> bytes:
    return b"(" + b"".join(map(_integer, values)) + b"t"


FORMAT = OutputFormat("pt", "PyTorch weights", (".pt", ".pth"), False, write_model, ("names",), write_arrays)
