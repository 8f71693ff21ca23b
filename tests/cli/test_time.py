"""`prototorch time`: where the time of a step goes. What is tested is what adds up, never a time."""

from __future__ import annotations

import json

import pytest

from prototorch.cli import main
from prototorch.errors import BackendError
from prototorch.graph.cost import Cost
from prototorch.measure import compare, machine
from prototorch.measure.machine import Peaks
from prototorch.measure.profile import ProfileEntry, find_owner

pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture
def quick(monkeypatch):
    """A machine that is known in no time."""
    monkeypatch.setattr(machine, "_SECONDS", 0.0)
    monkeypatch.setattr(machine, "_MATRIX_SIZE", 64)
    monkeypatch.setattr(machine, "_COPY_BYTES", 1 << 16)


@pytest.fixture
def shell(capfd, tmp_path, monkeypatch):
    """Run a command in an empty folder: (exit code, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)

    def run(*args: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as done:
            main(list(args))
        out, err = capfd.readouterr()
        return int(done.value.code or 0), out, err

    return run


def test_a_training_step_is_split_by_layer_and_phase(shell):
    code, out, _ = shell("time", "lenet", "--batch", "4", "--steps", "2", "--json")
    assert code == 0
    found = json.loads(out)
    layers = {p["name"]: p for p in found["layers"]}
    names = list(layers)
    assert names[:3] == ["conv2d_1", "max_pooling2d_1", "conv2d_2"]  # the order of the net
    assert "loss logits_loss" in names
    conv = layers["conv2d_2"]
    assert all(conv["seconds"][phase] > 0 for phase in ("forward", "backward", "update"))
    pairs = 2 * 4 * 50 * 8 * 8 * 20 * 5 * 5  # each output meets a filter; the two gradients cost the same again
    assert 3 * pairs <= conv["flops"] < 3.1 * pairs
    assert found["total"]["flops"] == sum(p["flops"] for p in found["layers"])
    assert found["rounds"] == 2
    assert found["samples_per_second"] == pytest.approx(4 / found["seconds"])
    assert [s["number"] for s in found["steps"]] == list(range(1, len(found["steps"]) + 1))


def test_the_table_has_a_total_and_the_whole_step(shell):
    code, out, _ = shell("time", "multi_task", "--batch", "2", "--steps", "1", "--detail")
    assert code == 0
    assert "layer" in out.splitlines()[3]
    for column in ("forward ms", "backward ms", "update ms", "GFLOP/s", "GB/s", "of peak", "memory"):
        assert column in out
    assert "\ntotal " in out
    assert "the whole step: " in out
    assert "kernel" in out


@pytest.mark.parametrize("name", ["siamese", "autoencoder", "lstm"])
def test_other_nets_are_fed_with_what_they_want(shell, name):
    for phase in ("train", "predict"):
        code, out, err = shell("time", name, "--batch", "2", "--steps", "1", "--phase", phase)
        assert code == 0, err
        assert ("backward ms" in out) == (phase == "train")


def test_tokens_are_numbers_of_the_table_they_are_looked_up_in(shell):
    args = [f"--set={k}={v}" for k, v in {"vocabulary": 7, "length": 8, "dim": 8}.items()]
    code, _, err = shell("time", "transformer", *args, "--batch", "2", "--steps", "1", "--phase", "test")
    assert code == 0, err


@pytest.mark.parametrize(
    ("args", "code", "told"),
    [
        (("lenet", "--phase", "learn"), 2, "there is no phase 'learn'"),
        (("lenet", "--batch", "0"), 2, "--batch"),
        (("lenet", "--steps", "0"), 2, "--steps"),
        (("lenet", "--device", "cuda"), 8, "cuda"),
        (("lenets",), 5, "Did you mean 'lenet'?"),
    ],
)
def test_wrong_usage_is_told(shell, args, code, told):
    found, _, err = shell("time", *args)
    assert found == code
    assert told in err


def test_a_model_without_a_loss_has_no_training_step(shell, tmp_path):
    (tmp_path / "m.proto").write_text('name: "m"\ninput { name: "a"  shape: [3] }\nDense { units: 2 }\n')
    assert shell("time", "m.proto", "--steps", "1")[0] == 0
    code, _, err = shell("time", "m.proto", "--phase", "train")
    assert code == 2
    assert "no loss" in err


def test_against_torch_both_are_timed_and_agree(shell):
    code, out, err = shell("time", "autoencoder", "--batch", "2", "--steps", "1", "--against", "torch", "--json")
    assert code == 0, err
    found = json.loads(out)["against"]
    assert found["rival"].startswith("torch ")
    assert set(found["differences"]) == {"picture", "loss"}
    assert [race["what"] for race in found["races"]] == ["prediction", "training step"]
    for race in found["races"]:
        assert list(race["seconds"]) == ["prototorch", "torch", "torch channels_last"]
        assert race["ratio"] > 0


def test_against_torch_a_prediction_alone(shell):
    args = ("--batch", "2", "--steps", "1", "--against", "torch", "--phase", "predict")
    code, out, err = shell("time", "two_layer", *args)
    assert code == 0, err
    assert "the nets agree" in out
    assert "prediction: prototorch " in out
    assert "training step: " not in out


def test_against_torch_wants_torch(shell, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    code, _, err = shell("time", "two_layer", "--batch", "2", "--steps", "1", "--against", "torch")
    assert code == 2
    assert "PyTorch is not installed here" in err


def test_against_torch_names_what_is_not_translated(shell, tmp_path):
    text = 'input { name: "a"  shape: [3] }\nGaussianNoise { name: "noise"  stddev: 0.1 }\nDense { units: 2 }\n'
    (tmp_path / "m.proto").write_text(text)
    code, _, err = shell("time", "m.proto", "--steps", "1", "--against", "torch")
    assert code == 2
    assert "GaussianNoise 'noise'" in err


@pytest.mark.parametrize(("args", "told"), [(("--phase", "test"), "compares train or predict"),
                                           (("--against", "caffe"), "'caffe' is not 'torch'")])  # fmt: skip
def test_against_something_else_is_told(shell, args, told):
    code, _, err = shell("time", "two_layer", "--batch", "2", "--steps", "1", "--against", "torch", *args)
    assert code == 2
    assert told in err


def test_nets_that_differ_are_not_timed():
    with pytest.raises(BackendError, match="the times would not be those of one net"):
        compare._record_differences({}, {"y": [1.0, 2.0]}, {"y": [1.0, 2.1]})
    noted: dict[str, float] = {}
    compare._record_differences(noted, {"y": [1.0, 2.0]}, {"y": [1.0, 2.0]})
    assert noted == {"y": 0.0}


def test_steps_find_their_layer():
    owners = {"tower/hidden": "left", "left": "left", "a/b": "a/b"}
    assert find_owner("tower/hidden/kernel", "update", owners) == "left"
    assert find_owner("a/b", "forward", owners) == "a/b"
    assert find_owner("metric accuracy", "forward", owners) == "metric accuracy"
    assert find_owner("", "update", owners) == "optimizer"


def test_the_share_of_the_peak_is_by_the_limit_that_is_reached_first():
    part = ProfileEntry("a", "", {"forward": 2.0}, Cost(flops=100, nbytes=10))
    assert part.rates(Peaks(flops=100.0, bandwidth=100.0, threads=1))["of_peak"] == 0.5
    assert part.rates(Peaks(flops=1e9, bandwidth=10.0, threads=1))["of_peak"] == 0.5
    assert ProfileEntry("b", "").rates(Peaks(1.0, 1.0, 1)) == {
        "flops_per_second": 0,
        "bytes_per_second": 0,
        "of_peak": 0,
    }
