"""Fine-tuning: a text that begins with the weights of a file, with a new head, frozen layers and stages."""

import json

import numpy as np
import pytest
import torch

import prototorch as pt
from prototorch.cli import main
from prototorch.errors import PrototorchError
from prototorch.model.load import model_from_text

NET = """
name: "net"
param classes: 4
input { name: "x"  shape: [6] }
Dense { name: "stem/a"  units: 8  activation: tanh }
BatchNormalization { name: "stem/norm" }
Dense { name: "body"  units: 8  activation: tanh }
Dense { name: "logits"  units: $classes }
"""
TUNED = (
    NET
    + """
weights { source: "base.pt"  except: "logits/*" }
compile { loss: LOSS  optimizer: Adam { learning_rate: 0.01 }  freeze: ["**", "!logits"]  metrics: [accuracy] }
fit { data { source: "set.npz" }  epochs: 4  batch_size: 8
      callbacks: Unfreeze { epoch: 2  layers: "body"  learning_rate: 0.001 } }
""".replace("LOSS", "sparse_categorical_crossentropy { from_logits: true }")
)


class Base(torch.nn.Module):
    """The net in PyTorch, of 4 classes."""

    def __init__(self):
        super().__init__()
        self.stem = torch.nn.ModuleDict({"a": torch.nn.Linear(6, 8), "norm": torch.nn.BatchNorm1d(8)})
        self.body, self.logits = torch.nn.Linear(8, 8), torch.nn.Linear(8, 4)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Weights from PyTorch (with statistics), a text that begins with them, and data of 3 classes."""
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    base = Base()
    base.stem["norm"].running_mean.uniform_(-1, 1)
    base.stem["norm"].running_var.uniform_(0.5, 2)
    torch.save(base.state_dict(), "base.pt")
    (tmp_path / "net.proto").write_text(TUNED)
    rng = np.random.default_rng(0)
    np.savez("set.npz", x=rng.normal(size=(32, 6)).astype("f"), y=rng.integers(0, 3, 32))
    return tmp_path


@pytest.fixture
def shell(capfd):
    """Run a command: (exit code, standard output, standard error)."""

    def run(*args):
        with pytest.raises(SystemExit) as done:
            main(list(args))
        out, err = capfd.readouterr()
        return int(done.value.code or 0), out, err

    return run


def expected_weights():
    state = torch.load("base.pt", weights_only=True)
    return {
        "stem/a/kernel": state["stem.a.weight"].numpy().T,
        "stem/a/bias": state["stem.a.bias"].numpy(),
        "stem/norm/gamma": state["stem.norm.weight"].numpy(),
        "stem/norm/beta": state["stem.norm.bias"].numpy(),
        "stem/norm/moving_mean": state["stem.norm.running_mean"].numpy(),
        "stem/norm/moving_variance": state["stem.norm.running_var"].numpy(),
        "body/kernel": state["body.weight"].numpy().T,
        "body/bias": state["body.bias"].numpy(),
    }


def test_the_head_begins_anew_and_the_rest_with_the_file(folder):
    model = pt.load_model("net.proto", classes=3)
    for name, array in expected_weights().items():
        np.testing.assert_array_equal(model.weights[name], array)
    fresh = pt.load_model("net.proto", classes=3, weights=False)
    for name in ("logits/kernel", "logits/bias"):
        np.testing.assert_array_equal(model.weights[name], fresh.weights[name])
    assert model.trainer.step == 0
    assert not any(name.startswith("optimizer:") for name in model.variables)


def test_a_training_from_the_command_line_needs_no_weights_afterwards(folder, shell):
    code, _, err = shell("run", "net.proto", "--set", "classes=3", "-q")
    assert code == 0, err
    expected = expected_weights()
    (folder / "base.pt").unlink()
    model = pt.load_model("runs/net/model.h5")
    for name, array in expected.items():
        assert np.array_equal(model.weights[name], array) == (not name.startswith("body")), name
    history = json.loads((folder / "runs/net/history.json").read_text())
    assert history["learning_rate"] == pytest.approx([0.01, 0.01, 0.001, 0.001])
    code, out, _ = shell("evaluate", "runs/net/model.h5", "--json")
    assert code == 0
    assert json.loads(out)["loss"] == pytest.approx(history["loss"][-1], rel=0.5)
    assert shell("predict", "runs/net/model.h5", "set.npz", "--output", "stem", "--to", "f.h5")[0] == 0


@pytest.mark.parametrize("epochs", ["1", "2", "3"])
def test_a_resumed_training_is_the_same_and_does_not_load_the_file_again(folder, shell, epochs):
    args = ("run", "net.proto", "--set", "classes=3", "-q", "--run-dir")
    assert shell(*args, "whole")[0] == 0
    assert shell(*args, "parts", "--epochs", epochs)[0] == 0
    (folder / "base.pt").unlink()
    code, _, err = shell(*args, "parts", "--resume")
    assert code == 0, err
    whole, parts = pt.load_model("whole/model.h5"), pt.load_model("parts/model.h5")
    for name, array in whole.variables.items():
        np.testing.assert_array_equal(parts.variables[name], array, err_msg=name)


def test_the_options_of_the_command_line_say_the_same_as_the_text(folder, shell):
    text = TUNED.replace('weights { source: "base.pt"  except: "logits/*" }\n', "")
    (folder / "plain.proto").write_text(text.replace('name: "net"', 'name: "plain"'))
    args = ("--set", "classes=3", "-q")
    assert shell("run", "net.proto", *args)[0] == 0
    code, _, err = shell("run", "plain.proto", "--weights", "base.pt", "--except", "logits", *args)
    assert code == 0, err
    ours, theirs = pt.load_model("runs/net/model.h5"), pt.load_model("runs/plain/model.h5")
    for name, array in ours.weights.items():
        np.testing.assert_array_equal(theirs.weights[name], array, err_msg=name)


def test_another_number_of_classes_without_except_proposes_it(folder, shell):
    for args in (("--weights", "base.pt"), ("--set", 'weights.source="base.pt"', "--set", "weights.except=[]")):
        code, _, err = shell("run", "net.proto", "--set", "classes=3", *args)
        assert code != 0
        assert "[4, 8] in the file" in err
        assert "[8, 3] in the model" in err
        assert '--except "logits/*"' in err
        assert 'weights { except: ["logits/*"] }' in err
    assert not (folder / "runs/net/model.h5").exists()


@pytest.mark.parametrize(
    ("except_", "kept"),
    [
        ("logits", ["logits"]),
        (["logits/*", "body/bias"], ["logits", "body/bias"]),
        (["**", "!stem"], ["logits", "body"]),
        (["**/norm", "logits"], ["logits", "stem/norm"]),
    ],
    ids=str,
)
def test_except_takes_the_patterns_of_freeze(folder, except_, kept):
    model = pt.load_model("net.proto", classes=4, weights=pt.Weights("base.pt", except_=except_))
    fresh = pt.load_model("net.proto", classes=4, weights=False)
    for name, array in expected_weights().items():
        is_kept = any(name.startswith(k) for k in kept)
        np.testing.assert_array_equal(model.weights[name], fresh.weights[name] if is_kept else array, err_msg=name)


@pytest.mark.parametrize(
    ("except_", "message"),
    [
        ("logit/*", r"'logit/\*' matches no"),
        ("!logits", r"write \['\*\*', '!logits'\]"),
        ("[z-a]", "no pattern|invalid"),
    ],
)
def test_a_wrong_pattern_of_except_is_an_error(folder, except_, message):
    with pytest.raises(PrototorchError, match=message):
        pt.load_model("net.proto", classes=3, weights=pt.Weights("base.pt", except_=except_))


def test_except_without_weights_is_an_error(folder, shell):
    code, _, err = shell("run", "net.proto", "--except", "logits")
    assert code == 2
    assert "--set 'weights.except=logits'" in err


def test_a_base_of_our_own_brings_its_weights_and_not_its_training(folder):
    base = model_from_text(NET)
    base.compile("adam", pt.losses.SparseCategoricalCrossentropy(from_logits=True))
    base.fit(np.ones((8, 6), "f"), np.arange(8) % 4, verbose=0)
    base.save("base.h5")
    model = pt.load_model("net.proto", classes=3, weights=pt.Weights("base.h5", except_=["logits"]))
    for name, array in base.weights.items():
        assert np.array_equal(model.weights[name], array) == (not name.startswith("logits")), name
    assert model.trainer.step == 0
    model.fit(verbose=0)
    assert model.trainer.step == 16
