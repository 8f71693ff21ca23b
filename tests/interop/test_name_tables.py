"""Facts of other systems' layers stand in rows: no other table of names, and no row that changes nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from prototorch.base.index import entries
from prototorch.engine.harness.case import cases
from prototorch.graph.net import InputNode, LayerNode, Net
from prototorch.interop.counterparts import row as counterparts
from prototorch.interop.counterparts.onnx.row import OpPair
from prototorch.interop.counterparts.row import Counterpart, counterpart_rows
from prototorch.interop.counterparts.torch.row import LAYOUTS, TorchRow
from prototorch.interop.onnx import op_pairs
from prototorch.interop.onnx.importer import find_importer
from prototorch.interop.onnx.importer.constants import is_evaluated
from prototorch.interop.torch.codegen.module_source import torch_source
from prototorch.model.loading.layout.layout_table import NotExpressibleError
from prototorch.model.model import Model
from tests.interop.onnx.exported import model_of

#: the folders of rows, of the layers' own ops, and of PyTorch's modules, which have names of layers
ROWS = (
    "interop/counterparts/keras/",
    "caffe/interop/layers/",
    "caffe/interop/export/",
    "caffe/interop/model_conversion/windows.py",
    "nn/modules/",
    "ops/",
    "base/index_table.py",
)
#: tables outside rows, and why
TABLES = {
    "caffe/coord_map.py": "pycaffe's list of Caffe's types whose coordinates stay",
    "caffe/interop/backward_flags.py": "Caffe's types and the bottoms that its loss layers give no gradient",
    "caffe/interop/formats/binary_weights.py": "Caffe's types with blobs",
    "caffe/label_range.py": "Caffe's types that read labels, and their message's fields",
    "caffe/text/upgrade_v1.py": "Caffe's own table of the names of its old version",
    "graph/operator_layers.py": "the functions of a symbol and a number, which are layers with fields of the number",
    "layers/foreign_names.py": "names that are no layer's, and what to write",
    "text/case_conversion.py": "spellings in which capitals are no beginning of a word",
}
LAYERS = {entry.name for entry in entries("layer")}
#: the calls that make rows
ROW_CALLS = {"OpPair", "op_pair", "missing_ops", "ReductionPair", "RecurrentPair", "TorchRow", "RecurrentRow"}
LEAST_NAMES = 3


def _is_row(node: ast.AST) -> bool:
    """Whether a node is a row, or writes a node of ONNX, whose ops have the names of some layers."""
    function = node.func if isinstance(node, ast.Call) else None
    return getattr(function, "id", "") in ROW_CALLS or getattr(function, "attr", "") == "emit"


def _tables(tree: ast.AST) -> Iterator[tuple[int, set[str]]]:
    """Line and names of each literal, and each union of types, of layers, by their names or classes, that is not an
    argument of a row."""
    for node in ast.iter_child_nodes(tree):
        if _is_row(node):
            continue
        is_union = isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr)
        if is_union or isinstance(node, ast.Dict | ast.Set | ast.Tuple | ast.List):
            names = set(_names(node))
            if len(names) >= LEAST_NAMES:
                yield node.lineno, names
                continue
        yield from _tables(node)


def _names(node: ast.AST) -> Iterator[str]:
    if _is_row(node):
        return
    if isinstance(node, ast.Constant) and node.value in LAYERS:
        yield node.value
    elif isinstance(node, ast.Attribute) and node.attr in LAYERS:
        yield node.attr
    elif isinstance(node, ast.Name) and node.id in LAYERS:
        yield node.id
    else:
        for child in ast.iter_child_nodes(node):
            yield from _names(child)


def test_no_table_of_layers_stands_outside_rows():
    root = Path(counterparts.__file__).parents[2]
    tables: dict[str, list[str]] = {}
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root).as_posix()
        if not name.startswith(ROWS):
            for line, names in _tables(ast.parse(path.read_text("utf-8"))):
                tables.setdefault(name, []).append(f"{line} {sorted(names)}")
    assert {name: lines for name, lines in tables.items() if name not in TABLES} == {}
    assert TABLES.keys() <= tables.keys(), "a reason for a table that is not there any more"


def test_a_table_in_a_text_is_seen():
    lines = [
        "A = {'ReLU': 1, 'Dense': 2, 'LSTM': 3}",
        "B = (layers.ReLU, layers.ELU, layers.SELU)",
        "C = op_pair('Relu', fields={'ReLU': 1, 'Dense': 2, 'LSTM': 3})",
        "D = isinstance(x, layers.ReLU | layers.ELU | layers.SELU)",
    ]
    text = "\n".join(lines)
    assert [line for line, _ in _tables(ast.parse(text))] == [1, 2, 4]


# ---------------------------------------------------------------- each row changes something


@pytest.fixture
def without_row(monkeypatch):
    """A function that takes rows of a system away, or puts others in their place."""

    def change(system: str, old: Counterpart, new: Counterpart | None = None) -> None:
        rows = [new if row is old else row for row in counterpart_rows(system)]
        table = {layer: row for row in rows if row is not None for layer in row.layers}
        monkeypatch.setattr(counterparts, "_by_layer", lambda name, wanted=table: wanted)
        if system == "onnx":
            pairs = tuple(row for row in rows if isinstance(row, OpPair))
            monkeypatch.setattr(op_pairs, "op_pairs", lambda: pairs)
            op_pairs.pairs_by_op.cache_clear()

    yield change
    monkeypatch.undo()
    op_pairs.pairs_by_op.cache_clear()


def _torch_texts(row: TorchRow) -> list[str]:
    texts = []
    for case in cases():
        if case.layer in row.layers and False in case.phases:
            model = model_of(case)
            texts.append(torch_source(model.net, {n: np.asarray(a) for n, a in model.weights.items()}, {})[0])
    return texts


TORCH_ROWS = [row for row in counterpart_rows("torch") if isinstance(row, TorchRow)]


#: that of Activation is a module for an activation with weights alone, which no example has: see the test below
MODULE_ROWS = [row for row in TORCH_ROWS if row.module and row.layers[0].__name__ != "Activation"]


@pytest.mark.parametrize("row", MODULE_ROWS, ids=lambda r: r.layers[0].__name__)
def test_without_a_module_of_pytorch_an_export_differs(row: TorchRow, without_row):
    before = _torch_texts(row)
    without_row("torch", row, replace(row, module=None))
    assert _torch_texts(row) != before


def test_without_its_row_an_activation_layer_with_weights_is_no_module(without_row):
    import prototorch.layers as layers

    layer = layers.Activation(activation=layers.PReLU())
    net = Net("net", (InputNode("x", (3,), "float32"),), (LayerNode("layer", layer, ("x",), ("layer",)),), ("layer",))
    model = Model(net)
    model.build()
    weights = {n: np.asarray(a) for n, a in model.weights.items()}
    before = torch_source(net, weights, {})[0]
    row = next(r for r in TORCH_ROWS if layers.Activation in r.layers)
    without_row("torch", row)
    assert torch_source(net, weights, {})[0] != before


@pytest.mark.parametrize("row", [r for r in TORCH_ROWS if r.weights or r.layouts], ids=lambda r: r.layers[0].__name__)
def test_the_weights_of_a_row_are_those_of_the_table(row: TorchRow):
    """Of each example with weights: the table has them, as long as the row does."""
    examples = [c for c in cases() if c.layer in row.layers and c.weights("float32")]
    assert examples
    for case in examples:
        shapes = {n.removeprefix("layer/"): a.shape for n, a in case.weights("float32").items()}
        with suppress(NotExpressibleError):  # of fields that PyTorch does not have
            assert LAYOUTS.layouts(case.instance, shapes)
        assert LAYOUTS.knows(case.layer)


PAIRS = [p for p in op_pairs.op_pairs() if p.name]


@pytest.mark.parametrize("pair", [p for p in PAIRS if p.our_op], ids=lambda p: p.name)
def test_without_a_row_an_op_has_no_name_in_onnx(pair: OpPair):
    assert op_pairs.pair_by_our_op(pair.our_op) is pair
    assert onnx.defs.has(pair.name)


@pytest.mark.parametrize("pair", [p for p in PAIRS if p.layers], ids=lambda p: p.name)
def test_without_a_row_a_node_is_no_layer(pair: OpPair, without_row):
    """The importer of the op is that of the row, or looks the row up when it runs."""
    for name in (pair.name, *pair.variants):
        assert find_importer(name) is not None
    own: Any = find_importer(pair.name)
    without_row("onnx", pair)
    assert pair.name not in op_pairs.pairs_by_op()
    if getattr(own, "__module__", "").endswith("rows") or not hasattr(own, "__module__"):
        assert find_importer(pair.name) is None
        assert not is_evaluated(pair.name) or pair.layer is None


def test_an_op_that_onnx_lacks_has_a_reason():
    absent = [p for p in op_pairs.op_pairs() if not p.name]
    assert absent
    assert all(p.reason and p.our_op and not p.is_written for p in absent)
