"""PyTorch's legacy container (``torch.save`` before 1.6): pickles of a magic number, a protocol version, the machine's
sizes, the object and the storages' keys; then each storage's number of elements and bytes, always little-endian."""

from __future__ import annotations

from typing import Any

from prototorch.engine.storage.mapped_file import MappedFile
from prototorch.errors import ModelFileError
from prototorch.interop.element_types import is_known_dtype, stored_dtype
from prototorch.interop.readers.torch_container import StorageBytes, load_pickle, make_weight_file
from prototorch.interop.readers.torch_objects import StorageRef
from prototorch.model.loading.read.file_format import Format, UnknownFile
from prototorch.model.loading.weight_file import WeightFile

__all__ = ["FORMAT"]

_MAGIC_NUMBER = 0x1950A86A20F9469CFC6C
_PROTOCOL_VERSION = 1001


def _recognize(file: UnknownFile) -> bool:
    magic = _MAGIC_NUMBER.to_bytes(10, "little")
    return magic in file.head[:40] or str(_MAGIC_NUMBER).encode() in file.head[:40]


def _open(path: str) -> WeightFile:
    file = MappedFile(path)
    storages: dict[str, StorageRef] = {}
    magic, position = load_pickle(file, file.data, 0, {})
    version, position = load_pickle(file, file.data, position, {})
    if magic != _MAGIC_NUMBER or version != _PROTOCOL_VERSION:
        version_text = str(version)[:40] if type(version) is int else "none"
        raise ModelFileError(f"{file.path}: expected protocol version {_PROTOCOL_VERSION}, got {version_text}")
    _, position = load_pickle(file, file.data, position, {})
    value, position = load_pickle(file, file.data, position, storages)
    keys, position = load_pickle(file, file.data, position, {})
    located = _locate_storages(file, keys, position, storages)

    def locate(key: str) -> StorageBytes:
        if key not in located:
            raise ModelFileError(f"{file.path}: the bytes of storage {key[:40]!r} are missing")
        return located[key]

    return make_weight_file(file, FORMAT.name, value, "<", locate)


def _locate_storages(
    file: MappedFile, keys: Any, position: int, storages: dict[str, StorageRef]
) -> dict[str, StorageBytes]:
    """Where each storage is: they follow one another in the order of the keys."""
    if type(keys) is not list or not all(type(key) is str for key in keys) or set(keys) != storages.keys():
        raise ModelFileError(f"{file.path}: damaged: the list of its storages is not that of its tensors")
    located: dict[str, StorageBytes] = {}
    for key in keys:
        if key in located:
            raise ModelFileError(f"{file.path}: damaged: storage {key[:40]!r} occurs twice")
        storage = storages[key]
        if not is_known_dtype(storage.dtype):
            raise ModelFileError(f"{file.path}: has elements of type {storage.dtype}, which are not read")
        count = int.from_bytes(file.read(position, 8, f"the size of storage {key[:40]!r}"), "little", signed=True)
        if count != storage.count:
            raise ModelFileError(
                f"{file.path}: damaged: storage {key[:40]!r} has {count:,} elements, expected {storage.count:,}"
            )
        size = count * stored_dtype(storage.dtype).itemsize
        file.check_range(position + 8, size, f"storage {key[:40]!r}")
        located[key] = StorageBytes(position + 8, size)
        position += 8 + size
    if position != file.size:
        raise ModelFileError(f"{file.path}: damaged: {file.size - position:,} bytes follow its storages")
    return located


FORMAT = Format("PyTorch legacy", _recognize, _open, (".pt", ".pth"))
