"""The command line as a person uses it: each command, its output, its exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from prototorch.cli import main
from prototorch.layers import Layer

MODELS = Path(__file__).resolve().parents[2] / "models"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def shell(capfd):
    """Run a command: (exit code, standard output, standard error)."""

    def run(*args: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as done:
            main(list(args))
        out, err = capfd.readouterr()
        return int(done.value.code or 0), out, err

    return run


SMALL = ("--set", "fit.data.limit=300", "--epochs", "1")


def test_run_keeps_a_model_that_works_alone(here, shell):
    code, out, err = shell("run", "mlp", *SMALL)
    assert code == 0
    assert "evaluated model.h5 on 300 validation samples: loss " in out
    assert "epoch 1/1" in err
    assert {p.name for p in (here / "runs/mlp").iterdir()} >= {"model.h5", "history.json", "log.jsonl", "latest.json"}

    code, out, _ = shell("evaluate", "runs/mlp/model.h5", "--json")
    assert code == 0
    assert set(json.loads(out)) == {"loss", "accuracy"}

    Image.fromarray(np.full((28, 28), 200, np.uint8)).save("shoe.png")
    code, out, _ = shell("predict", "runs/mlp/model.h5", "shoe.png", "--top", "2")
    assert code == 0
    assert out.startswith("shoe.png: ")

    (here / "shoes/more").mkdir(parents=True)
    code, _, err = shell("predict", "runs/mlp/model.h5", "shoes")
    assert code == 4
    assert "shoes: holds no images" in err
    Image.fromarray(np.full((28, 28), 200, np.uint8)).save("shoes/more/one.png")
    code, out, _ = shell("predict", "runs/mlp/model.h5", "shoes")
    assert code == 0
    assert "one.png: " in out

    np.save("many.npy", np.zeros((3, 1, 28, 28), np.uint8))
    code, _, _ = shell("predict", "runs/mlp/model.h5", "many.npy", "--output", "scores.npy")
    assert code == 0
    assert np.load("scores.npy").shape == (3, 10)


def test_run_resumes_to_the_same_end(here, shell):
    """Two epochs, then one more with --resume: the same file as three epochs at once."""
    args = ("run", "mlp", "--set", "fit.data.limit=300", "--quiet")
    assert shell(*args, "--epochs", "3", "--run-dir", "whole")[0] == 0
    assert shell(*args, "--epochs", "2", "--run-dir", "parts")[0] == 0
    assert shell(*args, "--epochs", "3", "--run-dir", "parts", "--resume")[0] == 0
    import prototorch as pt

    whole, parts = pt.load_model("whole/model.h5"), pt.load_model("parts/model.h5")
    for name, array in whole.variables.items():
        assert np.array_equal(array, parts.variables[name]), name
    assert json.loads(Path("whole/history.json").read_text()) == json.loads(Path("parts/history.json").read_text())


def test_resume_refuses_what_would_not_be_the_same_training(here, shell):
    args = ("run", "mlp", "--set", "fit.data.limit=300", "--quiet")
    assert shell(*args, "--epochs", "1")[0] == 0
    for change, part in (
        ("fit.batch_size=16", "fit block (batch_size)"),
        ("hidden=[8]", "net"),
        ("compile.seed=7", "compile block (seed)"),
    ):
        code, _, err = shell(*args, "--epochs", "2", "--resume", "--set", change)
        assert code == 2
        assert f"another {part} than it was trained with" in err
    assert shell(*args, "--epochs", "2", "--resume")[0] == 0


@pytest.mark.skipif(os.name == "nt", reason="sends POSIX signals")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_keeps_a_snapshot_and_resume_goes_on(here, number, code):
    command = [sys.executable, "-c", "from prototorch.cli import main; main()", "run", "mlp", "--epochs", "200",
               "--set", "fit.data.limit=600"]  # fmt: skip
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    log = here / "runs/mlp/log.jsonl"
    for _ in range(600):
        if log.exists() and log.read_text().count("\n") >= 2:
            break
        time.sleep(0.05)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert "--resume" in err
    stopped = log.read_text().count("\n")
    again = [*command[:5], "--epochs", str(stopped + 2), *command[7:], "--resume", "--quiet"]
    done = subprocess.run(again, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert log.read_text().count("\n") == stopped + 2


def test_check_shows_every_mistake_and_leaves_with_3(here, shell):
    Path("bad.proto").write_text('name: "x"\ninput { name: "a"  shape: [3] }\nDense { unitz: 3 }\nFoo { }\n')
    code, _, err = shell("check", "bad.proto")
    assert code == 3
    assert "bad.proto:3:9: Dense has no field 'unitz'. Did you mean 'units'?" in err
    assert "bad.proto:4:1" in err
    assert "^^^^^" in err
    code, out, _ = shell("check", "bad.proto", "--json")
    assert code == 3
    assert [m["place"] for m in json.loads(out)["mistakes"]] == ["bad.proto:3:9", "bad.proto:4:1"]


@pytest.mark.parametrize("path", sorted(MODELS.glob("*.proto")), ids=lambda p: p.stem)
def test_every_shipped_model_checks(path, shell):
    assert shell("check", str(path))[0] == 0


def test_fmt_is_idempotent_and_keeps_comments(here, shell):
    Path("m.proto").write_text('# mine\nname:"x"\ninput{name:"a" shape:[3]}  # an input\nDense{units:2}\n')
    assert shell("fmt", "--check", "m.proto")[0] == 1
    assert shell("fmt", "m.proto")[0] == 0
    text = Path("m.proto").read_text()
    assert "# mine" in text
    assert "# an input" in text
    assert shell("fmt", "--check", "m.proto")[0] == 0


def test_show_expanded_is_again_a_valid_file(here, shell):
    code, out, _ = shell("show", "resnet18", "--expanded", "--set", "classes=7")
    assert code == 0
    assert "repeat" not in out
    Path("flat.proto").write_text(out)
    code, again, _ = shell("show", "flat.proto", "--expanded")
    assert (code, again) == (0, out)


def test_summary_counts_parameters_and_memory(shell):
    code, out, _ = shell("summary", "alexnet", "--batch", "2", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["trainable"] == 60_965_224
    assert found["memory"]["weights"] == 4 * 60_965_224
    assert found["memory"]["total"] > found["memory"]["weights"] + found["memory"]["optimizer"]
    assert shell("summary", "resnet50")[1].rstrip().endswith("25,557,032 of them trained")


def test_layers_lists_and_explains(shell):
    code, out, _ = shell("layers", "conv2d")
    assert code == 0
    assert "filters" in out
    assert "Dense" in shell("layers")[1]
    code, _, err = shell("layers", "Conv2E")
    assert code == 2
    assert "Conv2D" in err


def test_layers_lists_a_class_without_a_docstring(shell):
    class Undocumented(Layer):
        def call(self, ctx, x):
            return x

    code, out, _ = shell("layers")
    assert code == 0
    assert "  Undocumented " in out
    assert shell("layers", Undocumented.__name__)[0] == 0


def test_devices_says_why_not(shell):
    code, out, _ = shell("devices", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["cpu"]["in use"] == "yes"
    assert found["cuda"]["why"]


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (("rum", "lenet"), 2, "Did you mean 'run'?"),
        (("check", "lenett"), 5, "lenet"),
        (("run", "resnet50"), 2, "names no data"),
        (("run", "lenet", "--set", "fit.epochs=many"), 3, "epochs"),
        (("run", "lenet", "--set", "fit.epoks=3"), 3, "Did you mean 'epochs'?"),
        (("run", "lenet", "--data", "fashion-mnist-mimi"), 4, "fashion-mnist-mini"),
        (("run", "lenet", "--device", "cuda"), 8, "cuda"),
        (("run", "lenet", "--device", "tpu"), 2, "no device 'tpu', expected 'auto', 'cpu', 'cuda' or 'cuda:N'"),
        (("evaluate", "lenet", "--device", "cuda"), 8, "cuda"),
        (("predict", "lenet", "nothing.png", "--threads", "0"), 2, "--threads"),
        (("run", "lenet", "--resume"), 2, "no snapshot"),
        (("predict", "lenet", "nothing.png"), 4, "nothing.png"),
    ],
)
def test_wrong_usage_has_a_clear_message(here, shell, args, code, said):
    got, out, err = shell(*args)
    assert got == code, err
    assert said in err
    assert "Traceback" not in out + err
    assert not list(here.glob("runs/*/model.h5"))


def test_an_odd_number_of_threads_in_the_environment_is_told(shell, monkeypatch):
    monkeypatch.setenv("PROTOTORCH_THREADS", "two")
    code, _, err = shell("devices")
    assert code == 2
    assert "PROTOTORCH_THREADS is 'two'; it must be an integer of at least 1" in err


def test_weights_that_nobody_trained_are_told(here, shell):
    Image.fromarray(np.full((28, 28), 200, np.uint8)).save("shoe.png")
    code, out, err = shell("predict", "mlp", "shoe.png")
    assert code == 0
    assert "note: mlp is a text, which holds no weights: it predicts as it begins, untrained" in err
    assert "note" not in out
    code, _, err = shell("evaluate", "mlp", "--set", "fit.data.limit=300")
    assert code == 0
    assert "untrained" in err


def test_what_is_wrong_with_a_run_costs_nothing_of_the_one_before(here, shell):
    args = ("run", "mlp", "--set", "fit.data.limit=300", "--quiet")
    assert shell(*args, "--epochs", "1")[0] == 0
    before = {path: path.read_bytes() for path in (here / "runs/mlp").iterdir()}
    for wrong, code in ((("--data", "nowhere"), 4), (("--set", "fit.data.part=tset"), 3)):
        assert shell(*args, *wrong)[0] == code
    assert {path: path.read_bytes() for path in (here / "runs/mlp").iterdir()} == before


def test_several_files_are_checked_at_once(here, shell):
    (here / "bad.proto").write_text("input { shape: [4] }\nDense { unit: 3 }\n")
    good, bad = str(MODELS / "lenet.proto"), "bad.proto"
    code, out, err = shell("check", bad, good)
    assert code == 3
    assert "lenet.proto: lenet, 7 layers, no mistakes" in out
    assert "bad.proto:2:9" in err
    code, out, _ = shell("check", bad, good, "--json")
    assert code == 3
    assert [one["ok"] for one in json.loads(out)] == [False, True]


def test_help_has_examples(shell):
    for name in ("run", "check", "fmt", "show", "summary", "predict", "evaluate", "layers", "devices"):
        code, out, _ = shell(name, "--help")
        assert code == 0
        assert name == "devices" or "Examples:" in out
