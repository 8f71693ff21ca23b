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
from prototorch.interop.onnx.importer.model import import_graph
from prototorch.interop.onnx.importer.operands import NetValue
from prototorch.interop.onnx.model_file import open_onnx
from prototorch.model.model import Model

onnx = pytest.importorskip("onnx")


def make_model(
    nodes: Sequence[Any],
    inputs: Mapping[str, Sequence[Any]],
    outputs: Sequence[str],
    weights: Mapping[str, np.ndarray] | None = None,
    opset: int = 20,
    dtype: int = 1,
) -> Any:
    """A ModelProto of nodes. inputs: shapes by name, a string for a symbol."""
    helper = onnx.helper
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(n, dtype, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info(n, dtype, None) for n in outputs],
        [onnx.numpy_helper.from_array(a, n) for n, a in (weights or {}).items()],
    )
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
            torch.onnx.export(
                module,
                tuple(inputs),
                str(path),
                dynamo=True,
                input_names=names,
                dynamic_shapes=shapes,
                verbose=False,
                external_data=False,
                **options,
            )
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
        model.variables.create(name, np.array(array, order="C"), own=True)
    model.build()
    assert set(model.variables) == set(imported.weights)
    outputs = model.predict({i.name: x for i, x in zip(net.inputs, feeds, strict=True)}, verbose=0)
    values = list(outputs.values()) if isinstance(outputs, dict) else outputs
    return list(values) if isinstance(values, list | tuple) else [values]


def as_onnx(array: np.ndarray, value: NetValue) -> np.ndarray:
    """An output of the net as the ONNX value that it stands for."""
    if value.batch_axis is None:
        return array[0] if len(array) == 1 else array
    parts = value.parts
    order = [0 if p is None else 1 + [q for q in parts if q is not None].index(p) for p in parts]
    array = np.transpose(array, [*order, *range(len(parts), array.ndim)])
    array = array.reshape(int(np.prod(array.shape[: len(parts)])), *array.shape[len(parts) :])
    return np.moveaxis(array, 0, value.batch_axis)


def run_onnxruntime(path: str, feeds: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The outputs of ONNX Runtime."""
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(None, {i.name: x for i, x in zip(session.get_inputs(), feeds, strict=True)})


def assert_same_outputs(
    path: str, feeds: Sequence[np.ndarray], tolerance: float = 1e-4, **options: Any
) -> ImportedModel:
    """Assert that the imported net gives what ONNX Runtime gives; the imported model."""
    graph = import_graph(open_onnx(path), **options)
    imported = graph.model
    trace(imported.net, Model(imported.net).input_specs(1), True)  # it can be trained
    expected = run_onnxruntime(path, feeds)
    mine = run_imported(imported, [np.moveaxis(f, options.get("batch_axis", 0), 0) for f in feeds])
    for array, value, theirs in zip(mine, graph.outputs, expected, strict=True):
        mine = as_onnx(array, value)
        assert mine.shape == theirs.shape
        assert np.abs(mine - theirs).max(initial=0) <= tolerance * max(1, np.abs(theirs).max(initial=0))
    return imported
