"""ONNX nodes with wrong attributes, axes and shapes: each is refused with its op, its name and what is wrong."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from prototorch.errors import ModelFileError
from prototorch.interop.onnx.importer.model import import_onnx
from tests.interop.onnx.onnx_models import make_model, node, save

pytest.importorskip("onnx")
INT = np.int64


def ints(*values):
    return np.array(values, INT)


CASES = {
    "axis 9 does not exist in a value of 3 dimensions": ("Unsqueeze", {"a": ints(9)}, {}),
    "name a dimension of 4 twice": ("Unsqueeze", {"a": ints(1, 1)}, {}),
    "it has 1 inputs; expected 2": ("Unsqueeze", {}, {}),
    "does not broadcast to [1, 5]": ("Expand", {"shape": ints(1, 5)}, {}),
    "input 1 (shape) has 2 dimensions": ("Expand", {"shape": ints(1, 3)[None]}, {}),
    "it has no attribute 'bogus' in opset 20; it has none": ("Relu", {}, {"bogus": 3}),
    "its attribute axis is a value of type INTS; expected INT": ("Softmax", {}, {"axis": [1]}),
    "axis 5 does not exist in a value of 2 dimensions": ("Softmax", {}, {"axis": 5}),
    "inputs 0 and 1 are float32 and int64; Add takes one type": ("Add", {"b": ints(1, 2, 3)}, {}),
    "inputs 0 and 1 are float32 and float64; Mul takes one type": ("Mul", {"b": np.ones(3)}, {}),
    "its attribute keepdims is 5; expected 0 or 1": ("ReduceSum", {"axes": ints(1)}, {"keepdims": 5}),
    "its attribute axis is missing": ("Concat", {}, {}),
    "it has 2 starts, 1 ends": ("Slice", {"s": ints(0, 0), "e": ints(1)}, {}),
    "p is 3; norms are of p 1 or 2": ("LpNormalization", {}, {"p": 3}),
}


@pytest.mark.parametrize("reason", CASES)
def test_a_broken_node_is_refused_by_op_and_name(tmp_path, reason):
    op, weights, attributes = CASES[reason]
    broken = node(op, ["x", *weights], ["y"], name="that_node", **attributes)
    path = save(make_model([broken], {"x": ["N", 3]}, ["y"], weights), tmp_path / "net.onnx")
    with pytest.raises(ModelFileError) as raised:
        import_onnx(path)
    message = str(raised.value)
    assert reason in message
    assert f"{op} ('that_node')" in message
    assert "net.onnx" in message


def test_constants_that_do_not_broadcast_are_refused(tmp_path):
    nodes = [node("Add", ["a", "b"], ["c"], name="constants"), node("Add", ["x", "c"], ["y"])]
    weights = {"a": np.ones(3, np.float32), "b": np.ones(4, np.float32)}
    path = save(make_model(nodes, {"x": ["N", 3]}, ["y"], weights), tmp_path / "net.onnx")
    with pytest.raises(ModelFileError, match=r"Add \('constants'\): its constants do not fit together.*\(3,\).*\(4,\)"):
        import_onnx(path)


@pytest.mark.parametrize("shape", [ints(-1), ints(2)[None], ints(1 << 40)])
def test_a_constant_of_an_impossible_shape_is_refused(tmp_path, shape):
    nodes = [node("ConstantOfShape", ["s"], ["c"], name="zeros"), node("Add", ["x", "c"], ["y"])]
    path = save(make_model(nodes, {"x": ["N", 3]}, ["y"], {"s": shape}), tmp_path / "net.onnx")
    with pytest.raises(ModelFileError, match=r"ConstantOfShape \('zeros'\)"):
        import_onnx(path)


def test_an_output_of_another_type_than_it_is_declared_with_is_refused(tmp_path):
    model = make_model([node("ArgMax", ["x"], ["y"], axis=1)], {"x": ["N", 3]}, ["y"])
    with pytest.raises(ModelFileError, match="'y' is declared as float32, but the graph computes int64"):
        import_onnx(save(model, tmp_path / "net.onnx"))


def test_the_order_of_the_layers_does_not_depend_on_the_hash_seed(tmp_path):
    outputs = [f"y{i}" for i in range(6)]
    model = make_model([node("Relu", ["x"], [n], name=f"relu_of_{n}") for n in outputs], {"x": ["N", 3]}, outputs)
    path = save(model, tmp_path / "net.onnx")
    code = (
        "import sys; from prototorch.interop.onnx.importer.model import import_onnx; "
        "print([n.name for n in import_onnx(sys.argv[1]).net.nodes])"
    )
    orders = {
        subprocess.run(
            [sys.executable, "-c", code, path], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert orders == {f"{[f'relu_of_{n}' for n in outputs]}\n"}
