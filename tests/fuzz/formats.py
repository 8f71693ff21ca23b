"""The formats that are fuzzed."""

from __future__ import annotations

import importlib

from tests.fuzz.harness import FuzzFormat

__all__ = ["MODULES", "load_format"]

#: the module of each format
MODULES = {"onnx": "onnx_graphs"}


def load_format(name: str) -> FuzzFormat:
    """A format by its name."""
    return importlib.import_module(f"tests.fuzz.{MODULES[name]}").FORMAT
