"""PyTorch's legacy container (``torch.save`` before 1.6): pickles of a magic number, a protocol version, the machine's
sizes, the object and the storages' keys; then each storage's number of elements and bytes, always little-endian."""

from __future__ import annotations

from typing import Any

from prototorch.engine.storage.mapped_file import MappedFile
from prototorch.errors import ModelFileError
from prototorch.interop.element_types import is_known_dtype
from prototorch.interop.readers.torch_container import StorageBytes, TorchArchive, load_pickle, make_weight_file
from prototorch.interop.readers.torch_objects import StorageRef
from prototorch.model.loading.read.file_format import Format
from prototorch.model.loading.weight_file import WeightFile

__all__ = ["FORMAT", "is_legacy", "open_legacy"]

_MAGIC_NUMBER = 0x1950A86A20F9469CFC6C
_PROTOCOL_VERSION = 1001


def is_legacy(head: bytes) -> bool:
    """Whether a file that begins with these bytes is a legacy container."""
    magic = _MAGIC_NUMBER.to_bytes(10, "little")
    return magic in head[:40] or str(_MAGIC_NUMBER).encode() in head[:40]


def open_legacy(path: str | MappedFile) -> TorchArchive:
    """Read the pickles of a legacy container, by its path or mapped. Raises ModelFileError for what is none, and for
    names with which code would have to be run."""
    file = path if isinstance(path, MappedFile) else MappedFile(path)
    storages: dict[str, StorageRef] = {}
    magic, position = load_pickle(file, file.data, 0, {})
    version, position = load_pickle(file, file.data, position, {})
    if magic != _MAGIC_NUMBER or version != _PROTOCOL_VERSION:
        version_text = str(version)[:40] if type(version) is int else "none"
        raise ModelFileError(f"{file.path}: expected protocol version {_PROTOCOL_VERSION}, got {version_text}")
    _, position = load_pickle(file, file.data, position, {})
    free = file.size - position

    def is_stored(storage: StorageRef) -> bool:
        """Whether this storage and all before it can be in the file, each with its number of elements."""
        nonlocal free
        free -= 8 + storage.size
        return free >= 0

    value, position = load_pickle(file, file.data, position, storages, is_stored)
    keys, position = load_pickle(file, file.data, position, {})
    located = _locate_storages(file, keys, position, storages)

    def locate(key: str) -> StorageBytes:
        if key not in located:
            raise ModelFileError(f"{file.path}: the bytes of storage {key[:40]!r} are missing")
        return located[key]

    return TorchArchive(file, value, "<", locate)


def _open(path: str) -> WeightFile:
    archive = open_legacy(path)
    return make_weight_file(archive.file, FORMAT.name, archive.value, archive.byteorder, archive.locate)


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
        size = storage.size
        file.check_range(position + 8, size, f"storage {key[:40]!r}")
        located[key] = StorageBytes(position + 8, size)
        position += 8 + size
    if position != file.size:
        raise ModelFileError(f"{file.path}: damaged: {file.size - position:,} bytes follow its storages")
    return located


FORMAT = Format("PyTorch legacy", lambda file: is_legacy(file.head), _open, (".pt", ".pth"))
