"""Nets as Python files for PyTorch: they run without prototorch, load weights strictly, and give what ours give."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import prototorch as pt
from prototorch.engine.harness.case import Case, cases
from prototorch.errors import UsageError
from prototorch.interop.torch.codegen.identifiers import MODULE_ATTRIBUTES, attribute_name, variable_name
from prototorch.interop.writers import write_model
from prototorch.model.foreign_files import ModelToWrite
from prototorch.model.load import model_from_text
from tests.interop.onnx.exported import assert_same, model_of, predictions, random_inputs, refusal_of, scatter_weights

CASES = [c for c in cases() if False in c.phases and refusal_of(c) is None]
REFUSED = [c for c in cases() if refusal_of(c) is not None]


def load_net(path: Path) -> nn.Module:
    """The net of a file, with the weights beside it."""
    found = importlib.util.spec_from_file_location("net_of_a_test", path)
    assert found is not None
    module: Any = importlib.util.module_from_spec(found)
    assert found.loader is not None
    found.loader.exec_module(module)
    net = module.Net()
    net.load_state_dict(torch.load(path.with_suffix(".pt"), weights_only=True), strict=True)
    return net.eval()


def run_net(net: nn.Module, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """The outputs of a net for its inputs in order."""
    with torch.no_grad():
        made = net(*(torch.from_numpy(x) for x in inputs.values()))
    return [y.detach().numpy() for y in (made if isinstance(made, tuple) else (made,))]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_every_layer_gives_there_what_it_gives_here(case: Case, tmp_path: Path):
    model = model_of(case)
    assert model.export(tmp_path / "net.py") == (str(tmp_path / "net.py"), str(tmp_path / "net.pt"))
    net = load_net(tmp_path / "net.py")
    for batch in (3, 1) if case.extra("batched", True) else (3,):
        inputs = {f"x{i}": x[:batch] for i, x in enumerate(case.inputs("float32"))}
        assert_same(predictions(model, inputs), run_net(net, inputs), 2e-5)


@pytest.mark.parametrize("case", REFUSED, ids=lambda c: c.id)
def test_layers_of_one_batch_size_are_refused_in_words(case: Case, tmp_path: Path):
    with pytest.raises(UsageError, match=refusal_of(case)):
        model_of(case).export(tmp_path / "net.py")
    assert not list(tmp_path.iterdir())


_MASKED = {
    "lstm": "Embedding { input_dim: 9  output_dim: 3  mask_zero: true }  LSTM { units: 4  return_sequences: true }",
    "gru both ways": "Masking { }  Bidirectional { GRU { units: 3 } }",
    "reset before": "Masking { }  GRU { units: 3  reset_after: false  go_backwards: true  return_sequences: true }",
    "attention": "Masking { }  MultiHeadAttention { num_heads: 2  key_dim: 3 }",
    "mean": "Masking { }  Dense { units: 3  activation: tanh }  GlobalAveragePooling1D { }",
    "merged": "Multiply { branch { Masking { } } branch { Dense { units: 3 }  Masking { } } }",
}


@pytest.mark.parametrize("name", list(_MASKED))
def test_masks_count_as_they_do_here(name: str, tmp_path: Path):
    text = _MASKED[name]
    shape, dtype = ("[6]", "int32") if "Embedding" in text else ("[6, 3]", "float32")
    model = model_from_text(f'input {{ name: "x"  shape: {shape}  dtype: {dtype} }}  {text}')
    scatter_weights(model)
    model.export(tmp_path / "net.py")
    x = random_inputs(model, 5)["x"]
    for sample, steps in enumerate((6, 3, 1, 0, 2)):
        x[sample, steps:] = 0
    x[4, 0] = 0
    assert_same(predictions(model, {"x": x}), run_net(load_net(tmp_path / "net.py"), {"x": x}), 2e-5)


_SMALL = ["lenet", "multi_task", "siamese", "autoencoder", "resnet20", "transformer"]


@pytest.mark.parametrize("name", _SMALL)
def test_a_shipped_model_runs_there(name: str, tmp_path: Path):
    _check_shipped(name, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(p.stem for p in Path("models").glob("*.proto") if p.stem not in _SMALL))
def test_every_shipped_model_runs_there(name: str, tmp_path: Path):
    _check_shipped(name, tmp_path)


def _check_shipped(name: str, folder: Path) -> None:
    model = pt.load_model(name)
    model = pt.Model(replace(model.net, preprocess=(), augment=()))
    scatter_weights(model)
    model.export(folder / "net.py")
    net = load_net(folder / "net.py")
    trained = sum(a.size for name, a in model.weights.items() if not name.endswith(("moving_mean", "moving_variance")))
    assert sum(p.numel() for p in net.parameters()) >= trained
    inputs = random_inputs(model, 2)
    assert_same(predictions(model, inputs), run_net(net, inputs), 2e-5)


def test_the_file_is_as_a_person_writes_it(tmp_path: Path):
    model = pt.load_model("resnet18")
    model.export(tmp_path / "resnet18.py")
    text = (tmp_path / "resnet18.py").read_text()
    classes = [n.name for n in ast.parse(text).body if isinstance(n, ast.ClassDef)]
    assert classes == ["Conv", "Block", "Block2", "Stage", "Stage2", "Net"]  # with and without a projection
    assert (
        "self.conv = nn.Conv2d(in_channels, out_channels, kernel_size, stride=stride, padding=padding, bias=False)"
        in text
    )
    assert "        self.stage3 = Stage2(128, 256)" in text
    assert "        x = self.max_pooling2d_1(x)  # [batch, 64, 56, 56]" in text
    assert len(text.splitlines()) < 110
    assert max(map(len, text.splitlines())) <= 120


def test_it_runs_where_prototorch_is_not_installed(tmp_path: Path):
    model = pt.load_model("lenet")
    model.export(tmp_path / "net.py")
    code = (
        "import sys, torch; sys.modules['prototorch'] = None; import net; n = net.Net(); "
        "n.load_state_dict(torch.load('net.pt', weights_only=True)); print(tuple(n(torch.zeros(2, 1, 28, 28)).shape))"
    )
    made = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert made.stdout.strip() == "(2, 10)"


def test_the_weights_come_back(tmp_path: Path):
    model = pt.load_model("resnet20")
    scatter_weights(model)
    model.export(tmp_path / "net.py")
    other = pt.load_model("resnet20")
    other.build()
    other.load_weights(tmp_path / "net.pt")
    assert all(np.array_equal(other.weights[name], array) for name, array in model.weights.items())


HOSTILE = [
    'x"); import os; os.system("touch owned") #', "a\nimport os", "__class__", "class", "lambda",
    "forward", "state_dict",
    "self", "torch", "F", "0", "1.5", "a-b", "é", "x y", "training", "{}", "%s", "\\", "'''", '"""', "weight", "None",
]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_never_becomes_code(name: str, tmp_path: Path):
    """Names reach the file through Python as well, which does not restrict them as the language does."""
    net = model_from_text("""
        input { name: "x"  shape: [3] }
        Dense { name: "g/a"  units: 3  activation: relu }  Dense { name: "g/b"  units: 4 }
        Dense { name: "c"  units: 4 }  Dense { name: "d"  units: 2 }
    """).net
    swap = {"g/a": f"{name}/a", "g/b": f"{name}/b", "c": name, "d": "d", "x": f"{name} input"}
    nodes = tuple(
        replace(
            n,
            name=swap[n.name],
            layer=n.layer.__class__(**_fields(n.layer)),
            bottoms=tuple(swap[b] for b in n.bottoms),
            tops=tuple(swap[t] for t in n.tops),
        )
        for n in net.nodes
    )
    hostile = replace(net, name=name, nodes=nodes, outputs=("d",), inputs=(replace(net.inputs[0], name=swap["x"]),))
    rng = np.random.default_rng(0)
    sizes = {f"{name}/a": (3, 3), f"{name}/b": (3, 4), name: (4, 4), "d": (4, 2)}
    weights = {f"{k}/kernel": rng.normal(size=s).astype(np.float32) for k, s in sizes.items()}
    weights |= {f"{k}/bias": rng.normal(size=s[1]).astype(np.float32) for k, s in sizes.items()}
    write_model(tmp_path / "net.py", ModelToWrite(hostile, weights, classes=(name,), metadata={"license": name}))
    text = (tmp_path / "net.py").read_bytes()
    assert text.isascii()
    tree = ast.parse(text)
    calls = {ast.unparse(n.func) for n in ast.walk(tree) if isinstance(n, ast.Call)}
    assert not {c.partition(".")[0] for c in calls} & {"os", "exec", "eval", "__import__", "getattr", "open"}
    imports = [ast.unparse(n) for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom)]
    assert imports == ["import torch", "import torch.nn.functional as F", "from torch import nn"]
    x = rng.normal(size=(2, 3)).astype(np.float32)
    y = np.maximum(x @ weights[f"{name}/a/kernel"] + weights[f"{name}/a/bias"], 0)
    for key in (f"{name}/b", name, "d"):
        y = y @ weights[f"{key}/kernel"] + weights[f"{key}/bias"]
    assert_same([y], run_net(load_net(tmp_path / "net.py"), {"x": x}), 2e-5)


def _fields(layer: Any) -> dict[str, Any]:
    return {"units": layer.units, "activation": layer.activation}


def test_names_of_modules_are_those_that_pytorch_takes():
    module = nn.Module()
    taken = nn.ModuleDict()
    for name in sorted({*dir(module), *dir(taken), *HOSTILE, "a.b", "", "_", "__x__"}):
        module.add_module(attribute_name(name), nn.Module())
        assert attribute_name(name).replace("_", "a").isalnum()
        assert variable_name(name).isidentifier()
    assert {n for n in dir(nn.Module()) if not n.startswith("_")} <= MODULE_ATTRIBUTES


def test_what_a_layer_does_in_training_alone_is_told(tmp_path: Path):
    model = model_from_text("""
        input { name: "x"  shape: [3, 4] }  GaussianNoise { name: "noise"  stddev: 0.5 }
        Dropout { name: "drop"  rate: 0.5 }  Dense { name: "d"  units: 2  kernel_regularizer: L2 { l2: 0.1 } }
    """)
    model.export(tmp_path / "net.py")
    text = (tmp_path / "net.py").read_text()
    assert "# noise (GaussianNoise) is written as in prediction, not as in training" in text
    assert "drop (" not in text
    assert "# the regularizer or constraint of d/kernel is left out" in text
    net = load_net(tmp_path / "net.py").train()
    assert not torch.equal(net(torch.ones(4, 3, 4)), net(torch.ones(4, 3, 4)))


def test_preprocessing_inside(tmp_path: Path):
    model = model_from_text("""
        input { name: "image"  shape: [3, 4, 4] }
        preprocess { Normalization { mean: [100, 110, 120]  variance: [9, 16, 25] } }  Flatten { }  Dense { units: 2 }
    """)
    scatter_weights(model)
    image = np.random.default_rng(0).uniform(0, 255, (3, 3, 4, 4)).astype(np.float32)
    model.export(tmp_path / "net.py", include_preprocess=True)
    assert_same([model.predict(image)], run_net(load_net(tmp_path / "net.py"), {"image": image}), 2e-5)
    model.export(tmp_path / "net.py")
    assert "# the preprocessing (Normalization) is not a part of it" in (tmp_path / "net.py").read_text()
