"""ONNX: one set of facts (`interop.counterparts.onnx`), read by the importer and by the exporter."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from prototorch.errors import UsageError


def onnx_package(name: str = "onnx") -> Any:
    """The `onnx` package, or a module of it. Raises UsageError where it is not installed."""
    if importlib.util.find_spec("onnx") is None:
        raise UsageError('reading and writing ONNX files needs the onnx package: pip install "onnx>=1.18"')
    return importlib.import_module(name)
