"""ONNX models in tests: made of nodes, exported by PyTorch, and run by ONNX Runtime and as imported."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prototorch.graph.net import Net
from prototorch.graph.trace import trace
from prototorch.interop.imported_model import ImportedModel
from prototorch.interop.onnx.importer.model import import_onnx
from prototorch.model import Model

onnx = pytest.importorskip("onnx")


def make_model(nodes: Sequence[Any], inputs: Mapping[str, Sequence[Any]], outputs: Sequence[str],
               weights: Mapping[str, np.ndarray] | None = None, opset: int = 20, dtype: int = 1) -> Any:  # fmt: skip
    """A ModelProto of nodes. inputs: shapes by name, a string for a symbol."""
    helper = onnx.helper
    graph = helper.make_graph(
        nodes, "graph",
        [helper.make_tensor_value_info(n, dtype, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info(n, dtype, None) for n in outputs],
        [onnx.numpy_helper.from_array(a, n) for n, a in (weights or {}).items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def node(op: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> Any:
    """A NodeProto."""
    return onnx.helper.make_node(op, inputs, outputs, **attributes)


def save(model: Any, path: Path) -> str:
    """Write a ModelProto; the path."""
    path.write_bytes(model.SerializeToString())
    return str(path)


def export(module: Any, inputs: Sequence[Any], path: Path, dynamo: bool, **options: Any) -> str:
    """A PyTorch module exported with a batch of any size; the path."""
    import torch

    names = [f"x{i}" for i in range(len(inputs))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if dynamo:
            shapes = tuple({0: torch.export.Dim.DYNAMIC} for _ in inputs)
            torch.onnx.export(module, tuple(inputs), str(path), dynamo=True, input_names=names, dynamic_shapes=shapes,
                              verbose=False, external_data=False, **options)  # fmt: skip
        else:
            axes = {n: {0: "batch"} for n in names}
            torch.onnx.export(
                module, tuple(inputs), str(path), dynamo=False, input_names=names, dynamic_axes=axes, **options
            )
    return str(path)


def run_imported(imported: ImportedModel, feeds: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The outputs of an imported net, in order; its weights must be exactly those that the file gave."""
    net: Net = imported.net
    model = Model(net)
    for name, array in imported.weights.items():
        model.variables.create(name, np.ascontiguousarray(array), own=True)
    model.build()
    assert set(model.variables) == set(imported.weights)
    outputs = model.predict({i.name: x for i, x in zip(net.inputs, feeds, strict=True)}, verbose=0)
    values = list(outputs.values()) if isinstance(outputs, dict) else outputs
    return list(values) if isinstance(values, list | tuple) else [values]


def run_onnxruntime(path: str, feeds: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The outputs of ONNX Runtime."""
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(None, {i.name: x for i, x in zip(session.get_inputs(), feeds, strict=True)})


def assert_same_outputs(
    path: str, feeds: Sequence[np.ndarray], tolerance: float = 1e-4, **options: Any
) -> ImportedModel:
    """Assert that the imported net gives what ONNX Runtime gives; the imported model."""
    imported = import_onnx(path, **options)
    trace(imported.net, Model(imported.net).input_specs(1), True)  # it can be trained
    expected = run_onnxruntime(path, feeds)
    for mine, theirs in zip(run_imported(imported, feeds), expected, strict=True):
        assert mine.shape == theirs.shape
        assert np.abs(mine - theirs).max(initial=0) <= tolerance * max(1, np.abs(theirs).max(initial=0))
    return imported
