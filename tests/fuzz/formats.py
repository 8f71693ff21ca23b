"""The formats that are fuzzed."""

from __future__ import annotations

import importlib

from tests.fuzz.harness import FuzzFormat

__all__ = ["MODULES", "load_format"]

#: the module of each format, and the name in it
MODULES = {
    "onnx": "onnx_graphs.FORMAT",
    "snapshot": "own_files.SNAPSHOT",
    "model_text": "own_files.TEXT",
    "static_graph": "graph_files.STATIC_GRAPH",
    "compiled_function": "graph_files.COMPILED_FUNCTION",
    "solver": "solver_files.FORMAT",
    "tokenizer": "tokenizer_files.FORMAT",
    "prototxt": "caffe_files.NET",
    "caffemodel": "caffe_files.MODEL",
    "keras_config": "keras_files.CONFIG",
    "keras": "keras_files.KERAS",
    "keras_h5": "keras_files.LEGACY",
    "weights_h5": "keras_weight_files.FORMAT",
}


def load_format(name: str) -> FuzzFormat:
    """A format by its name."""
    module, attribute = MODULES[name].split(".")
    format: FuzzFormat = getattr(importlib.import_module(f"tests.fuzz.{module}"), attribute)
    return format
