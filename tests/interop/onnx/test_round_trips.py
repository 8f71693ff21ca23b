"""What is exported comes back: by our importer, through PyTorch, and with random nets, with equal outputs."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import prototorch as pt
from prototorch.engine.harness.case import Case, cases
from prototorch.interop.onnx.importer.model import import_onnx
from tests.interop.onnx.exported import (
    assert_same,
    check_file,
    model_of,
    predictions,
    random_inputs,
    run_onnx,
    scatter_weights,
)
from tests.interop.torch.test_module_source import load_net, run_net
from tests.nets.random_nets import random_model

pytestmark = pytest.mark.filterwarnings("ignore::prototorch.errors.ModelWarning")  # a mask may end in a random net


def _shipped(name: str) -> pt.Model:
    model = pt.load_model(name)
    model = pt.Model(replace(model.net, preprocess=(), augment=()))
    scatter_weights(model)
    return model


def _read_back(path: Path) -> pt.Model:
    imported = import_onnx(path)
    model = pt.Model(imported.net)
    model.build()
    model.set_weights(dict(imported.weights))
    return model


def _assert_comes_back(model: pt.Model, path: Path, tolerance: float = 2e-5) -> pt.Model:
    model.export(path)
    again = _read_back(path)
    inputs = random_inputs(model, 2)
    renamed = dict(zip(again.inputs, inputs.values(), strict=True))
    assert_same(predictions(model, inputs), predictions(again, renamed), tolerance)
    return again


@pytest.mark.parametrize("name", ["lenet", "mlp", "siamese", "multi_task", "resnet20"])
def test_a_shipped_model_comes_back(name: str, tmp_path: Path):
    _assert_comes_back(_shipped(name), tmp_path / "net.onnx")


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(p.stem for p in Path("models").glob("*.proto")))
def test_every_shipped_model_comes_back(name: str, tmp_path: Path):
    _assert_comes_back(_shipped(name), tmp_path / "net.onnx")


@pytest.mark.slow
@pytest.mark.parametrize("case", [c for c in cases() if False in c.phases], ids=lambda c: c.id)
def test_every_layer_comes_back(case: Case, tmp_path: Path):
    model = model_of(case)
    model.export(tmp_path / "net.onnx")
    again = _read_back(tmp_path / "net.onnx")
    inputs = {f"x{i}": x for i, x in enumerate(case.inputs("float32"))}
    renamed = dict(zip(again.inputs, inputs.values(), strict=True))
    assert_same(predictions(model, inputs), predictions(again, renamed), 2e-5)


def test_names_and_weights_come_back(tmp_path: Path):
    model = _shipped("resnet20")
    again = _assert_comes_back(model, tmp_path / "net.onnx")
    for name, array in model.weights.items():
        np.testing.assert_array_equal(again.weights[name], array)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet20", "lenet", "squeezenet", "multi_task", "mobilenet_v2"])
@pytest.mark.parametrize("dynamo", [False, True])
def test_through_pytorch_and_its_exporter(name: str, dynamo: bool, tmp_path: Path):
    model = _shipped(name)
    model.export(tmp_path / "net.py")
    inputs = random_inputs(model, 2)
    net = load_net(tmp_path / "net.py")
    tensors = tuple(map(torch.from_numpy, inputs.values()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            net,
            tensors,
            str(tmp_path / "net.onnx"),
            dynamo=dynamo,
            input_names=list(inputs),
            **({"verbose": False, "external_data": False} if dynamo else {}),
        )
    again = _read_back(tmp_path / "net.onnx")
    renamed = dict(zip(again.inputs, inputs.values(), strict=True))
    assert_same(predictions(model, inputs), predictions(again, renamed), 1e-4)


#: nets whose values overflow or are logarithms of negative numbers: what becomes of NaN differs between systems
_NOT_FINITE = {5, 30}


@pytest.mark.parametrize("seed", [2, 7, 10, 12, 20, 25, 53, 76])
def test_random_nets(seed: int, tmp_path: Path):
    _check_random(seed, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", sorted(set(range(120)) - _NOT_FINITE))
def test_many_random_nets(seed: int, tmp_path: Path):
    _check_random(seed, tmp_path)


def _check_random(seed: int, folder: Path) -> None:
    """A random net in ONNX Runtime and in PyTorch."""
    model = pt.Model(replace(random_model(seed).net, preprocess=(), augment=()))
    scatter_weights(model)
    inputs = random_inputs(model, 3, seed)
    ours = predictions(model, inputs)
    model.export(folder / "net.onnx")
    check_file(folder / "net.onnx")
    assert_same(ours, run_onnx(folder / "net.onnx", inputs), 1e-4)
    model.export(folder / "net.py")
    assert_same(ours, run_net(load_net(folder / "net.py"), inputs), 1e-4)
