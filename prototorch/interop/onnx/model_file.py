"""An ONNX file: its graph, its opsets and its initializers, read in bounded memory and without running anything."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from prototorch.data.safe_io import expand_path, physical_memory
from prototorch.engine.storage.mapped_file import MappedFile
from prototorch.errors import DataError, ModelFileError, UsageError
from prototorch.interop.onnx import onnx_package
from prototorch.interop.onnx.tensors import TensorReader
from prototorch.interop.onnx.wire_format import skim
from prototorch.model.loading.weight_file import StoredArray

__all__ = ["OnnxFile", "open_onnx"]

MAX_PARSED_BYTES = min(1 << 29, physical_memory() // 8)  # of what is not mapped
DEFAULT_DOMAINS = ("", "ai.onnx")


@dataclass(frozen=True)
class OnnxFile:
    """A parsed file.

    path: printable. model: the ModelProto; the raw data of large initializers are not in it. arrays: the initializers
    by name. opsets: version by domain, the default domain being "". tensors: reads the tensors of attributes.
    """

    path: str
    model: Any
    arrays: Mapping[str, StoredArray]
    opsets: Mapping[str, int]
    tensors: TensorReader

    @property
    def graph(self) -> Any:
        """The main graph, a GraphProto."""
        return self.model.graph

    @cached_property
    def metadata(self) -> dict[str, str]:
        """metadata_props, and what the file tells of its producer."""
        texts = {entry.key: entry.value for entry in self.model.metadata_props}
        for key in ("producer_name", "producer_version", "domain", "doc_string"):
            if getattr(self.model, key):
                texts.setdefault(key, getattr(self.model, key))
        return texts


def open_onnx(path: str | os.PathLike[str]) -> OnnxFile:
    """Read an ONNX file.

    Raises UsageError for what is no path and where the onnx package is missing, ModelFileError for a file that is
    missing, damaged or hostile.
    """
    if not isinstance(path, str | os.PathLike):
        raise UsageError(f"expected the path of an ONNX file, got {path!r:.80}")
    onnx = onnx_package()
    try:
        name = os.fspath(expand_path(path))
    except DataError as error:
        raise ModelFileError(str(error)) from None
    file = MappedFile(name)
    if not file.size:
        raise ModelFileError(f"{file.path}: is empty")
    skimmed = skim(file.data, file.path)
    if len(skimmed.content) > MAX_PARSED_BYTES:
        raise ModelFileError(
            f"{file.path}: {len(skimmed.content):,} bytes besides its initializers' raw data; the limit "
            f"is {MAX_PARSED_BYTES:,}"
        )
    model = onnx.ModelProto()
    try:
        model.ParseFromString(skimmed.content)
    except Exception as error:  # google.protobuf.message.DecodeError; the package is not imported here
        raise ModelFileError(f"{file.path}: damaged: {error!s:.200}; is this an ONNX file?") from None
    if not model.HasField("graph"):
        raise ModelFileError(f"{file.path}: has no graph; is this an ONNX model?")
    tensors = TensorReader(file, os.path.dirname(os.path.abspath(name)))
    arrays: dict[str, StoredArray] = {}
    for number, tensor in enumerate(model.graph.initializer):
        if not tensor.name:
            raise ModelFileError(f"{file.path}: initializer {number} has no name")
        if tensor.name in arrays:
            raise ModelFileError(f"{file.path}: two initializers are named {tensor.name[:80]!r}")
        arrays[tensor.name] = tensors.stored_array(tensor, tensor.name, skimmed.raw.get(number))
    if model.graph.sparse_initializer:
        raise ModelFileError(f"{file.path}: sparse initializers are not read; save them dense")
    return OnnxFile(file.path, model, arrays, _opsets(model, file.path), tensors)


def _opsets(model: Any, path: str) -> dict[str, int]:
    opsets: dict[str, int] = {}
    for entry in model.opset_import:
        domain = "" if entry.domain in DEFAULT_DOMAINS else entry.domain
        if opsets.setdefault(domain, entry.version) != entry.version:
            raise ModelFileError(
                f"{path}: states two versions of the opset {domain or 'ai.onnx'!r}: {opsets[domain]} and "
                f"{entry.version}"
            )
    return opsets
