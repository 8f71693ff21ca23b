"""ONNX models: their graph as layers."""

from __future__ import annotations

from prototorch.interop.importers.model_format import ModelFormat
from prototorch.interop.onnx.importer.model import import_onnx
from prototorch.interop.readers import onnx_file

__all__ = ["IMPORTER"]

IMPORTER = ModelFormat(
    "onnx", "ONNX", onnx_file.FORMAT.recognize, import_onnx, ("input_shapes", "fixed_inputs", "batch_axis")
)
