"""Caffe's binary files: ``.caffemodel`` of all versions, and ``.binaryproto`` (a mean image).

Solver states are read by `prototorch.caffe.interop.solver_state`.
"""

from __future__ import annotations

import os
from typing import NoReturn

from prototorch.caffe.interop.blob_proto import blob_array
from prototorch.caffe.interop.stored_net import file_of_message
from prototorch.caffe.interop.wire import ProtobufError, decode
from prototorch.caffe.text.message import Message
from prototorch.data.safe_io import printable_path
from prototorch.engine.storage.mapped_file import MappedFile
from prototorch.errors import ModelFileError
from prototorch.interop.protobuf_reader import BYTES
from prototorch.model.loading.read.file_format import Format, UnknownFile
from prototorch.model.loading.weight_file import StoredArray, WeightFile

__all__ = ["FORMAT"]

_SIGNATURES = (b"\x89HDF\r\n\x1a\n", b"PK\x03\x04", b"PK\x05\x06")
_ENDINGS = (".caffemodel", ".binaryproto", ".solverstate")
#: types of layers with parameters: a file that has such layers and no blobs is no file of weights
_WITH_WEIGHTS = frozenset((
    "BatchNorm", "Bias", "Convolution", "Deconvolution", "Embed", "InnerProduct", "LSTM", "PReLU", "Parameter", "RNN",
    "Scale",
))  # fmt: skip
_NAME, _LAYERS, _LAYER = 1, 2, 100  # fields of NetParameter
_FIRST_FIELDS = {_LAYERS: (1, 2, 3, 4), _LAYER: (1, 2)}  # with which a layer begins: names, bottoms, tops


def _recognize(file: UnknownFile) -> bool:
    """A file of one of Caffe's endings, or one that begins as a NetParameter with a layer does."""
    if file.is_folder or not file.head or file.head.startswith(_SIGNATURES):
        return False
    return file.ending in _ENDINGS or _begins_with_layer(file)


def _begins_with_layer(file: UnknownFile) -> bool:
    size = os.path.getsize(file.path)
    head = memoryview(file.head)
    if head[8:9] == b"{":  # safetensors
        return False
    position = 0
    while position + 2 < len(head):
        tag, position = _read_number(head, position)
        number, kind = tag >> 3, tag & 7
        if kind == 0 and number in (5, 7):  # force_backward, debug_info
            _, position = _read_number(head, position)
        elif kind == BYTES and number in (_NAME, _LAYERS, 3, 8, _LAYER):
            count, position = _read_number(head, position)
            if number in _FIRST_FIELDS:
                first = head[position] >> 3 if position < len(head) else 0
                fits = position + count <= size and first in _FIRST_FIELDS[number]
                return fits and head[position] & 7 == BYTES
            position += count
        else:
            return False
    return False


def _read_number(head: memoryview, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 35, 7):
        if position >= len(head):
            break
        byte = head[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
    return value, position


def _open(path: str) -> WeightFile:
    file = MappedFile(path)
    ending = os.path.splitext(path)[1].lower()
    if ending == ".solverstate":
        _refuse(path, "a solver state, which holds no weights", "give the .caffemodel that was written beside it")
    unknown: dict[str, int] = {}
    try:
        if ending == ".binaryproto":
            array = blob_array(decode(file.data, "BlobProto", unknown))
            return WeightFile(
                path, "Caffe blob", "", {"blob": StoredArray(array.shape, array.dtype.name, lambda: array)}
            )
        _check_is_net(file.data)
        net = decode(file.data, "NetParameter", unknown)
        weights = file_of_message(file.path, net, unknown)
    except ProtobufError as error:
        raise ModelFileError(f"{file.path}: damaged, truncated or not a Caffe file: {error}") from None
    if not weights.arrays and (not weights.layers or any(layer.kind in _WITH_WEIGHTS for layer in weights.layers)):
        _refuse(path, "a net without weights" if _has_layers(net) else "no net of Caffe", "train it first")
    return weights


def _check_is_net(data: memoryview) -> None:
    """Raise ProtobufError for a text with the ending of a binary file."""
    if bytes(data[:512]).strip().startswith((b"name:", b"layer", b"#")):
        raise ProtobufError("it is a text, not a binary file; give the .prototxt as the model")


def _has_layers(net: Message) -> bool:
    return net.has("layer") or net.has("layers")


def _refuse(path: str, what: str, remedy: str) -> NoReturn:
    raise ModelFileError(f"{printable_path(path)}: is {what}; {remedy}")


FORMAT = Format("Caffe", _recognize, _open, (".caffemodel",))
