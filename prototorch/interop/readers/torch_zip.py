"""PyTorch's zip container (``torch.save`` since 1.6): ``NAME/data.pkl``, and a member for each storage's bytes."""

from __future__ import annotations

from functools import cache, partial

from prototorch.engine.storage.mapped_file import MappedFile
from prototorch.engine.storage.zip_members import ZipMember, check_crc, read_member, zip_members
from prototorch.errors import ModelFileError
from prototorch.interop.readers.torch_container import (
    ByteOrder,
    StorageBytes,
    TorchArchive,
    load_pickle,
    make_weight_file,
)
from prototorch.interop.readers.torch_objects import StorageRef
from prototorch.model.loading.read.file_format import Format, UnknownFile
from prototorch.model.loading.weight_file import WeightFile

__all__ = ["FORMAT", "open_archive"]

MAX_PICKLE_BYTES = 256 << 20


def _recognize(file: UnknownFile) -> bool:
    return file.is_zip and file.has_member("data.pkl")


def open_archive(path: str | MappedFile) -> TorchArchive:
    """Read the pickle of a container of ``torch.save``, by its path or mapped. Raises ModelFileError for what is none,
    and for names with which code would have to be run."""
    file = path if isinstance(path, MappedFile) else MappedFile(path)
    members = zip_members(file)
    pickles = [name for name in members if name == "data.pkl" or name.partition("/")[2] == "data.pkl"]
    if len(pickles) != 1:
        raise ModelFileError(f"{file.path}: {len(pickles)} members data.pkl; a file of torch.save has one")
    prefix = pickles[0].removesuffix("data.pkl")
    if f"{prefix}constants.pkl" in members or any(name.startswith(f"{prefix}code/") for name in members):
        raise ModelFileError(
            f"{file.path}: is a TorchScript program, which holds code; load it with torch.jit.load and save "
            "torch.save(module.state_dict(), path), or export the module to ONNX"
        )
    order = _byteorder(file, members.get(f"{prefix}byteorder"))
    data = memoryview(read_member(file, members[pickles[0]], MAX_PICKLE_BYTES))

    def is_stored(storage: StorageRef) -> bool:
        member = members.get(f"{prefix}data/{storage.key}")
        return member is not None and member.size >= storage.size

    value, _ = load_pickle(file, data, 0, {}, is_stored)

    @cache
    def locate(key: str) -> StorageBytes:
        member = members.get(f"{prefix}data/{key}")
        if member is None:
            raise ModelFileError(f"{file.path}: the bytes of storage {key[:40]!r} are missing")
        if member.is_compressed:
            raise ModelFileError(
                f"{file.path}: its storages are compressed, which torch.save does not do: unpack the archive and pack "
                "it again without compression (zip -0)"
            )
        return StorageBytes(member.offset, member.size, cache(partial(check_crc, file, member)))

    return TorchArchive(file, value, order, locate)


def _open(path: str) -> WeightFile:
    archive = open_archive(path)
    return make_weight_file(archive.file, FORMAT.name, archive.value, archive.byteorder, archive.locate)


def _byteorder(file: MappedFile, member: ZipMember | None) -> ByteOrder:
    """Of the storages; files before 2.1 do not tell, and are little-endian."""
    if member is None:
        return "<"
    order = bytes(read_member(file, member, 16))
    if order not in (b"little", b"big"):
        raise ModelFileError(f"{file.path}: the byte order {order!r} is neither 'little' nor 'big'")
    return "<" if order == b"little" else ">"


FORMAT = Format("PyTorch zip", _recognize, _open, (".pt", ".pth", ".bin"))
