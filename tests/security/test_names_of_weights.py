"""Whatever a layer is called: it can be saved and is read back, or it is a mistake before the training."""

from __future__ import annotations

import numpy as np
import pytest

import prototorch as pt
from prototorch.errors import ModelError, TextError, UsageError
from prototorch.model.diagnose import check_model
from prototorch.model.load import model_from_text

X, Y = np.zeros((4, 2), np.float32), np.zeros((4, 1), np.float32)


def text_of(*names: str, first: str = "Dense { units: 2") -> str:
    layers = "\n".join(f'{first}  name: "{name}" }}' for name in names)
    return f'input {{ name: "x"  shape: [2] }}\n{layers}\nDense {{ name: "end"  units: 1 }}\ncompile {{ loss: mse }}\n'


CONFLICTS = [("a", "a/kernel"), ("a/kernel", "a"), ("a", "a/bias/b"), ("a", "a/kernel/kernel/b")]


@pytest.mark.parametrize("names", CONFLICTS)
def test_layers_that_cannot_be_saved_together(names, tmp_path):
    text = text_of(*names)
    (tmp_path / "net.proto").write_text(text)
    with pytest.raises(TextError, match=rf"net\.proto:3:.*'{names[1]}'.*'a/\w+.*rename one of the layers"):
        check_model(str(tmp_path / "net.proto"))
    with pytest.raises(ModelError, match="rename one of the layers"):
        model_from_text(text).fit(X, Y, verbose=0)


def test_layers_that_would_share_weights_by_accident():
    layers = 'Dense { name: "a"  units: 2  activation: PReLU }\nPReLU { name: "a/activation" }'
    text = f'input {{ name: "x"  shape: [2] }}\n{layers}\n'
    with pytest.raises(ModelError, match=r"<text>:3.*'a/activation/\w+'.*of the layer 'a'.*rename one of the layers"):
        model_from_text(text).build()


@pytest.mark.parametrize("name", [
    "a/b", "a.b", "a:b", "conv1/7x7_s2", "layer.0.weight", "model/dense/MatMul:0", "größe", "卷积1", "a-b", "0",
    "kernel", "optimizer", "loss_scale", "weights/a", "meta", "a" * 199, "/".join("a" * 20), "a/kernel2", "state/0",
])  # fmt: skip
def test_names_that_can_be_saved(name, tmp_path):
    model = model_from_text(text_of(name, f"{name}2") + "fit { epochs: 1 }")
    model.fit(X, Y, verbose=0)
    model.save(tmp_path / "m.h5")
    other = pt.load_model(tmp_path / "m.h5")
    assert other.weights.keys() == model.weights.keys()
    assert all(np.array_equal(a, other.weights[n]) for n, a in model.weights.items())
    assert other.trainer.state() == model.trainer.state()


@pytest.mark.parametrize(
    "name", ["a//b", "/a", "a/", "/", ".", "..", "a/..", "../a", "a/./b", "a" * 201, "/".join("a" * 40)]
)
def test_names_that_cannot_be_saved_are_mistakes_of_the_text(name):
    with pytest.raises(TextError, match=r"<text>:2:.*(part|characters)"):
        model_from_text(text_of(name))
    with pytest.raises((UsageError, ModelError), match=r"part|characters"):
        pt.layers.Dense(2, name=name)
    with pytest.raises(TextError, match=r"<text>:1:.*(part|characters)"):
        model_from_text(f'input {{ name: "{name}"  shape: [2] }}\nDense {{ units: 1 }}')
