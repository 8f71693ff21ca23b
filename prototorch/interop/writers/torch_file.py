"""PyTorch's zip container with a ``state_dict``, written without PyTorch.

The pickle has the same opcodes and names as that of ``torch.save``; ``torch.load(path, weights_only=True)`` reads it,
in all versions since 1.6. Arrays are written from where they are, without a copy.
"""

from __future__ import annotations

import os
import re
import struct
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import numpy as np

from prototorch.engine.storage.atomic_write import write_bytes
from prototorch.engine.storage.zip_writer import Buffer, encode_zip
from prototorch.errors import UsageError
from prototorch.interop.writers.output_format import OutputFormat
from prototorch.interop.writers.system_arrays import system_arrays
from prototorch.model.foreign_files import ModelToWrite

__all__ = ["FORMAT", "encode_value", "write_arrays", "write_value"]

_MAX_DEPTH = 100
_STORAGES = {
    "float64": "Double", "float32": "Float", "float16": "Half", "int64": "Long", "int32": "Int", "int16": "Short",
    "int8": "Char",
    "uint8": "Byte", "bfloat16": "BFloat16", "bool": "Bool", "complex64": "ComplexFloat", "complex128": "ComplexDouble",
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
    write_value(path, OrderedDict(arrays))
    return (path,)


def write_value(path: str, value: Any) -> None:
    """As `encode_value`, to a file. Raises also SnapshotError where it cannot be written."""
    stem = re.sub(r"[^A-Za-z0-9._-]", "_", os.path.splitext(os.path.basename(path))[0]).strip(".") or "archive"
    write_bytes(path, encode_value(value, stem))


def encode_value(value: Any, stem: str = "archive") -> list[Buffer]:
    """The bytes, as buffers to concatenate, of dictionaries, lists and tuples of arrays, numbers, texts and None, as
    ``torch.save`` writes them. stem: the folder in the archive.

    Raises UsageError for anything else, and for a dtype that PyTorch does not have.
    """
    arrays: list[np.ndarray] = []
    pickle = b"".join([b"\x80\x02", *_pickle(value, "the value", arrays, 0), b"."])
    members: dict[str, list[Any]] = {f"{stem}/data.pkl": [pickle], f"{stem}/byteorder": [b"little"]}
    for number, array in enumerate(arrays):
        members[f"{stem}/data/{number}"] = [array.reshape(-1).view(np.uint8).data]
    members[f"{stem}/version"] = [b"3\n"]
    return encode_zip(members)


def _pickle(value: Any, name: str, arrays: list[np.ndarray], depth: int) -> list[bytes]:
    """The pickle (protocol 2) of a value; each array gets a storage of its own."""
    if depth > _MAX_DEPTH:
        raise UsageError(f"{name}: nested deeper than {_MAX_DEPTH} levels, or a container that holds itself")
    if isinstance(value, np.ndarray):
        return _pickle_array(value, name, arrays)
    if value is None or isinstance(value, bool):
        return [b"N" if value is None else b"\x88" if value else b"\x89"]
    if type(value) in (int, float, str):
        return [
            _integer(value)
            if type(value) is int
            else _text(value)
            if type(value) is str
            else b"G" + struct.pack(">d", value)
        ]
    if isinstance(value, dict):
        start = b"ccollections\nOrderedDict\n)R(" if isinstance(value, OrderedDict) else b"}("
        pieces = [start]
        for key, item in value.items():
            inner = str(key) if depth == 0 else f"{name}[{key!r:.60}]"
            pieces += [*_pickle(key, f"a key of {name}", arrays, depth + 1), *_pickle(item, inner, arrays, depth + 1)]
        return [*pieces, b"u"]
    if type(value) in (list, tuple):
        items = [p for i, item in enumerate(value) for p in _pickle(item, f"{name}[{i}]", arrays, depth + 1)]
        return [b"](", *items, b"e"] if type(value) is list else [b"(", *items, b"t"]
    raise UsageError(
        f"{name} is a {type(value).__name__}: a file holds tensors, numbers, texts, None, and dictionaries, lists and "
        "tuples of them"
    )


def _pickle_array(value: np.ndarray, name: str, arrays: list[np.ndarray]) -> list[bytes]:
    array = np.ascontiguousarray(value, value.dtype.newbyteorder("<")).reshape(np.shape(value))
    storage = _STORAGES.get(array.dtype.name)
    if storage is None:
        raise UsageError(f"{name}: PyTorch has no dtype {array.dtype}; convert it to float32 first")
    arrays.append(array)
    strides = tuple(stride // array.itemsize for stride in _contiguous_strides(array))
    return [
        b"ctorch._utils\n_rebuild_tensor_v2\n(",
        b"(" + _text("storage") + f"ctorch\n{storage}Storage\n".encode(),
        _text(str(len(arrays) - 1)) + _text("cpu") + _integer(array.size) + b"tQ",
        _integer(0) + _tuple(array.shape) + _tuple(strides) + b"\x89" + b"ccollections\nOrderedDict\n)R" + b"tR",
    ]


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
