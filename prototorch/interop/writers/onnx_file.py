"""ONNX files: one file, or one beside a file of the weights where protobuf's limit of 2 GiB does not allow one."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from prototorch.engine.storage.atomic_write import write_bytes
from prototorch.errors import ModelError, UsageError
from prototorch.graph.net_writer import net_fields
from prototorch.interop.onnx import onnx_package
from prototorch.interop.onnx.export.model_writer import DEFAULT_OPSET, OnnxSettings, onnx_model
from prototorch.interop.writers.output_format import OutputFormat, preprocess_notes
from prototorch.layers.base import Layer
from prototorch.layers.tokenizer import Tokenizer
from prototorch.model.foreign_files import ModelToWrite
from prototorch.text.writer import format_fields

__all__ = ["FORMAT", "onnx_metadata", "write_onnx"]

MAX_FILE_BYTES = 2_000_000_000  # of the weights in one file; protobuf reads messages below 2 GiB
_ALIGNMENT = 64 * 1024  # of arrays in the file of weights, so that they can be mapped into memory on any system


def write_onnx(
    path: str,
    model: ModelToWrite,
    *,
    opset: int | None = None,
    include_preprocess: bool | None = None,
    external_data: bool | None = None,
) -> tuple[str, ...]:
    """Write a model as an ONNX file; returns the paths of the files.

    Args:
        opset: of the default domain, 13 to 25; default 18.
        include_preprocess: whether the layers of ``preprocess`` are a part of the graph, whose first input is then what
            they read, with the elements of the data that the model was trained on; None: those that ONNX can express,
            and a note names the others.
        external_data: whether the weights lie in a file of their own, ``PATH.data``; None: where one file would be too
            large.

    Raises UsageError, ShapeError (see `onnx_model`), SnapshotError where a file cannot be written.
    """
    opset = DEFAULT_OPSET if opset is None else opset
    nbytes = sum(a.nbytes for a in model.weights.values())
    apart = nbytes > MAX_FILE_BYTES if external_data is None else external_data
    if include_preprocess is None:
        proto, arrays = _with_expressible_preprocess(model, opset)
    else:
        proto, arrays = _graph(model, opset, model.net.preprocess if include_preprocess else ())
        if not include_preprocess:
            model.notes.extend(preprocess_notes(model.net.preprocess, FORMAT, "as include_preprocess=false says"))
    files = []
    if apart:
        files.append(_write_external(f"{path}.data", proto, arrays))
    else:
        tensors = (onnx_package("onnx.numpy_helper").from_array(a, name) for name, a in arrays.items())
        proto.graph.initializer.extend(tensors)
    write_bytes(path, proto.SerializeToString())
    return (path, *files)


def _graph(model: ModelToWrite, opset: int, preprocess: Sequence[Layer]) -> tuple[Any, dict[str, np.ndarray]]:
    """The ModelProto with the last of the layers of ``preprocess``, and its initializers."""
    net, is_whole = model.net, len(preprocess) == len(model.net.preprocess)
    first = net.inputs[0].name if net.inputs else ""
    dtype = model.input_dtypes.get(first, "") if preprocess and is_whole else ""
    settings = OnnxSettings(
        opset=opset,
        include_preprocess=bool(preprocess),
        shapes=model.shapes,
        metadata=onnx_metadata(model, bool(preprocess) and is_whole),
        input_dtypes={first: "float32" if dtype == "float64" else dtype} if dtype else {},
    )
    return onnx_model(replace(net, preprocess=tuple(preprocess)), model.weights, settings)


def _with_expressible_preprocess(model: ModelToWrite, opset: int) -> tuple[Any, dict[str, np.ndarray]]:
    """The graph with as many of the last layers of ``preprocess`` as ONNX can express; a note names the others."""
    layers = model.net.preprocess
    first = max((i + 1 for i, layer in enumerate(layers) if isinstance(layer, Tokenizer)), default=0)
    reason = "ONNX has no tokenizers" if first else ""
    while True:
        try:
            graph = _graph(model, opset, layers[first:])
        except (UsageError, ModelError) as error:
            if first == len(layers):  # the net itself cannot be written
                raise
            first, reason = first + 1, f"{error!s:.200}"
        else:
            model.notes.extend(preprocess_notes(layers[:first], FORMAT, reason))
            return graph


def _write_external(path: str, proto: Any, arrays: Mapping[str, np.ndarray]) -> str:
    """The arrays in a file of their own, to which the graph's initialisers point; the file's path."""
    helper = onnx_package("onnx.helper")
    pieces: list[Any] = []
    position = 0
    for name, array in arrays.items():
        tensor = proto.graph.initializer.add()
        tensor.name, tensor.data_type = name, helper.np_dtype_to_tensor_dtype(array.dtype)
        tensor.dims.extend(array.shape)
        tensor.data_location = onnx_package().TensorProto.EXTERNAL
        pieces += [bytes(-position % _ALIGNMENT), np.ascontiguousarray(array).reshape(-1).view(np.uint8)]
        position += -position % _ALIGNMENT
        for key, value in (("location", os.path.basename(path)), ("offset", position), ("length", array.nbytes)):
            entry = tensor.external_data.add()
            entry.key, entry.value = key, str(value)
        position += array.nbytes
    write_bytes(path, [memoryview(p) for p in pieces])
    return path


def onnx_metadata(model: ModelToWrite, include_preprocess: bool) -> dict[str, str]:
    """What the file tells besides the graph: the text, the classes (a line each), the preprocessing that a caller has
    to do, and what is known of the weights."""
    metadata = {"model": model.net.name, **model.metadata}
    if model.text:
        metadata["prototorch_text"] = model.text
    if model.classes:
        metadata["classes"] = "\n".join(model.classes)
    if model.net.preprocess:
        only = replace(model.net, inputs=(), nodes=(), outputs=(), augment=())
        metadata["preprocess"] = format_fields([f for f in net_fields(only) if f.name == "preprocess"]).strip()
        metadata["preprocess_included"] = str(include_preprocess).lower()
    return metadata


FORMAT = OutputFormat(
    "onnx",
    "ONNX",
    (".onnx",),
    True,
    write_onnx,
    ("opset", "include_preprocess", "external_data"),
    includes_preprocess=True,
)
