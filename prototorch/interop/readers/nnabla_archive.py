"""NNabla's ``.nnp``: a zip archive with parameters as HDF5 or as protobuf.

Of protobuf's message NNablaProtoBuf the parameters are field 200: variable_name = 1, shape = 20 {dim = 1}, data = 100
(packed float32), need_grad = 101. Networks and datasets in the archive are not read.
"""

from __future__ import annotations

from functools import partial
from math import prod

import numpy as np

from prototorch.engine.storage.mapped_file import MappedFile
from prototorch.engine.storage.zip_members import ZipMember, read_member, zip_members
from prototorch.engine.storage.zipped_hdf5 import read_zipped_layout
from prototorch.errors import ModelFileError
from prototorch.interop.protobuf_reader import BYTES, FIXED32, ProtobufError, iter_fields, read_varints
from prototorch.interop.readers.foreign_hdf5_file import plain_weight_file
from prototorch.model.loading.read.file_format import Format, UnknownFile, check_weight_name
from prototorch.model.loading.weight_file import StoredArray, WeightFile

__all__ = ["FORMAT"]

VERSION = "nnp_version.txt"
MAX_PARAMETERS = 20_000
MAX_DIMENSIONS = 32
_PARAMETER, _NAME, _SHAPE, _DIM, _DATA = 200, 1, 20, 1, 100
_MAX_EXPANSION = 16  # bytes for each byte of a compressed member


def _recognize(file: UnknownFile) -> bool:
    return file.is_zip and VERSION in file.members


def _open(path: str) -> WeightFile:
    file = MappedFile(path)
    members = zip_members(file)
    parameter_members = [member for name, member in members.items() if name in ("parameter.h5", "parameter.protobuf")]
    if len(parameter_members) != 1:
        raise ModelFileError(f"{path}: expected one parameter.h5 or parameter.protobuf, found {len(parameter_members)}")
    skipped = {name: "the optimizer's state" for name in members if name.endswith(".optimizer")}
    if parameter_members[0].name == "parameter.h5":
        weights = plain_weight_file(read_zipped_layout(file, parameter_members[0]))
        return WeightFile(path, FORMAT.name, "nnabla", weights.arrays, skipped=skipped)
    return WeightFile(path, FORMAT.name, "nnabla", _read_parameters(file, parameter_members[0]), skipped=skipped)


def _read_parameters(file: MappedFile, member: ZipMember) -> dict[str, StoredArray]:
    content = memoryview(read_member(file, member, _MAX_EXPANSION * member.stored_size + (1 << 20)))
    arrays: dict[str, StoredArray] = {}
    try:
        for number, kind, value in iter_fields(content):
            if number != _PARAMETER or kind != BYTES or not isinstance(value, memoryview):
                continue
            name, array = _read_parameter(value)
            check_weight_name(name, file.path)
            if name in arrays:
                raise ProtobufError(f"the parameter {name!r:.80} occurs twice")
            if len(arrays) >= MAX_PARAMETERS:
                raise ProtobufError(f"more than {MAX_PARAMETERS:,} parameters")
            arrays[name] = array
    except ProtobufError as error:
        raise ModelFileError(f"{file.path}, member {member.name!r}: damaged: {error}") from None
    return arrays


def _read_parameter(message: memoryview) -> tuple[str, StoredArray]:
    name, shape, pieces, elements = "", [], [], bytearray()
    for number, kind, value in iter_fields(message):
        if number == _NAME and isinstance(value, memoryview):
            name = bytes(value[:2000]).decode("utf-8", "replace")
        elif number == _SHAPE and isinstance(value, memoryview):
            shape = _read_shape(value)
        elif number == _DATA and isinstance(value, memoryview):
            pieces.append(value)
        elif number == _DATA and kind == FIXED32:
            elements += int(value).to_bytes(4, "little")
    if elements:
        pieces.append(memoryview(bytes(elements)))
    nbytes = sum(len(piece) for piece in pieces)
    if not name:
        raise ProtobufError("a parameter without a name")
    if prod(max(n, 1) for n in shape) >= 1 << 60 or 4 * prod(shape) != nbytes:
        raise ProtobufError(f"the parameter {name!r:.80} has the shape {shape!s:.80}, but {nbytes:,} bytes")
    return name, StoredArray(tuple(shape), "float32", partial(_read, pieces, tuple(shape)))


def _read_shape(message: memoryview) -> list[int]:
    shape: list[int] = []
    for number, _, value in iter_fields(message):
        if number == _DIM:
            shape += read_varints(value, MAX_DIMENSIONS) if isinstance(value, memoryview) else [value]
        if len(shape) > MAX_DIMENSIONS:
            raise ProtobufError(f"a shape of more than {MAX_DIMENSIONS} dimensions")
    return shape


def _read(pieces: list[memoryview], shape: tuple[int, ...]) -> np.ndarray:
    content = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    array = np.frombuffer(content, "<f4").reshape(shape)
    array = array.astype(np.float32, copy=False)
    array.flags.writeable = False
    return array


FORMAT = Format("NNabla", _recognize, _open, (".nnp",))
