"""Files that are no models, outputs that cannot be written: a message and an exit code, never a traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

from prototorch.cli import main
from prototorch.cli.json_output import print_json

TEXT = 'name: "t"\ninput { name: "a"  shape: [4] }\nDense { units: 3 }\n'


@pytest.fixture
def shell(tmp_path, monkeypatch, capfd):
    """Run a command in an empty folder: (exit code, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)

    def run(*args: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as done:
            main(list(args))
        out, err = capfd.readouterr()
        return int(done.value.code or 0), out, err

    return run


def _foreign(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["x"] = np.zeros(3)


KINDS = {
    "other.h5": (_foreign, "is an HDF5 file of another program"),
    "wide.proto": (lambda path: path.write_bytes(TEXT.encode("utf-16")), "UTF-16 text: save it as UTF-8"),
    "nul": (lambda path: path.write_bytes(b"\0" * 100), "holds NUL bytes"),
    "x.npy": (lambda path: np.save(path, np.zeros(3)), "a NumPy array"),
    "folder": (lambda path: path.mkdir(), ""),
    "net.keras": (lambda path: path.write_bytes(b"PK\x03\x04" + b"\0" * 30), "is a Keras model, which is not read yet"),
}


@pytest.mark.parametrize("command", [("check",), ("show",), ("summary",), ("fmt",), ("run",), ("evaluate",)])
@pytest.mark.parametrize("name", KINDS)
def test_a_file_of_another_kind_is_named(shell, command, name):
    make, said = KINDS[name]
    make(Path(name))
    code, out, err = shell(*command, name)
    assert code == 5
    assert f"{name}: " in err
    assert said in err
    assert "Traceback" not in out + err


TEXTS = {
    "net.py": ("import keras\nmodel = keras.Sequential()\n", "net.py:1:1: This is Python, not a model text"),
    "net.json": ('{"class_name": "Sequential"}\n', "net.json:1:1: This is JSON, not a model text"),
    "net.yaml": ("layers:\n  - Dense: 3\n", "net.yaml:2:3: This is YAML, not a model text"),
}
NO_NETS = {
    "empty.proto": ("", "empty.proto:1:1: The text is empty. A model has an input and layers"),
    "blank.proto": ("  \n# nothing\n", "blank.proto:1:1: The text is empty."),
}
NO_MODEL_NET = "net.prototxt:1:1: The net has no layers that predict anything in the phase TEST."
NO_POLICY = "solver.prototxt:1:1: the solver has no lr_policy; there are fixed, step,"
#: text, and by command the exit code and what is said
CAFFE_TEXTS = {
    "net.prototxt": ('layer { name: "a"  type: "Data" }\n', {
        "check": (3, NO_MODEL_NET), "summary": (3, NO_MODEL_NET),
        "run": (2, "net.prototxt is a net of Caffe, without a solver: write one"),
        "evaluate": (2, "net.prototxt: a net of Caffe is tested with weights: give --weights FILE.caffemodel"),
    }),
    "solver.prototxt": ('net: "train.prototxt"\n', {
        "check": (3, NO_POLICY), "summary": (3, NO_POLICY), "run": (3, NO_POLICY),
        "evaluate": (2, "solver.prototxt is a solver of Caffe: evaluate the net that it names, with --weights"),
    }),
}  # fmt: skip


@pytest.mark.parametrize("command", ["check", "summary", "run", "evaluate"])
@pytest.mark.parametrize("name", CAFFE_TEXTS)
def test_a_text_of_caffe_that_a_command_cannot_use_is_named(shell, command, name):
    text, answers = CAFFE_TEXTS[name]
    Path(name).write_text(text)
    code, out, err = shell(command, name)
    assert (code, out) == (answers[command][0], "")
    assert answers[command][1] in err
    assert "Traceback" not in err


@pytest.mark.parametrize("command", ["check", "show", "summary", "fmt", "run", "evaluate"])
@pytest.mark.parametrize("name", [*TEXTS, *NO_NETS])
def test_a_text_in_another_language_is_named(shell, command, name):
    text, said = {**TEXTS, **NO_NETS}[name]
    Path(name).write_text(text)
    code, out, err = shell(command, name)
    if name in NO_NETS and command in ("show", "fmt"):  # a text of our syntax is shown and formatted
        assert code == 0
        return
    assert code == 3
    assert said in err
    assert "Sequential" not in out


@pytest.mark.parametrize("command", ["check", "run", "fmt"])
def test_a_command_without_a_file_shows_its_usage(shell, command):
    code, _, err = shell(command)
    assert code == 2
    assert "Missing argument 'FILE" in err


def test_a_file_that_is_nearly_there_is_suggested(shell):
    Path("my_net.proto").write_text(TEXT)
    assert "Did you mean 'my_net.proto'?" in shell("check", "my_nt.proto")[2]


def test_fmt_leaves_a_saved_model_alone(shell):
    assert shell("run", "mlp", "--epochs", "1", "--set", "fit.data.limit=64", "-q")[0] == 0
    before = Path("runs/mlp/model.h5").read_bytes()
    code, _, err = shell("fmt", "runs/mlp/model.h5")
    assert code == 5
    assert "prototorch show" in err
    assert Path("runs/mlp/model.h5").read_bytes() == before


def test_fmt_goes_on_after_a_file_with_mistakes_and_keeps_links_and_permissions(shell):
    Path("wrong.proto").write_text('name: "x" ]')
    Path("t.proto").write_text('name:"t"')
    Path("t.proto").chmod(0o600)
    Path("link.proto").symlink_to("t.proto")
    code, _, err = shell("fmt", "wrong.proto", "missing.proto", "link.proto")
    assert code == 5
    assert "wrong.proto:1:11: This ']' closes nothing." in err
    assert "missing.proto: cannot be read" in err
    assert Path("wrong.proto").read_text() == 'name: "x" ]'
    assert Path("t.proto").read_text() == 'name: "t"\n'
    assert Path("link.proto").is_symlink()
    assert Path("t.proto").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("given", "code", "out", "said"),
    [(b'name:"t"', 1, "", "-: not in the canonical"), (b'name: "t"\n', 0, "", ""), (b"\xff", 3, "", "<stdin>:1:1: ")],
)
def test_fmt_checks_standard_input(given, code, out, said):
    done = subprocess.run([sys.executable, "-m", "prototorch", "fmt", "--check", "-"], input=given, capture_output=True)
    assert (done.returncode, done.stdout.decode()) == (code, out)
    assert said in done.stderr.decode()


def test_show_knows_a_saved_model_by_its_content(shell):
    assert shell("run", "mlp", "--epochs", "1", "--set", "fit.data.limit=64", "-q")[0] == 0
    Path("runs/mlp/model.h5").rename("renamed.bin")
    code, out, _ = shell("show", "renamed.bin")
    assert code == 0
    assert out.startswith('name: "mlp"')


def test_a_folder_does_not_hide_a_shipped_model(shell):
    Path("lenet").mkdir()
    assert shell("check", "lenet")[0] == 0


def test_dos_line_ends_and_a_byte_order_mark(shell):
    Path("dos.proto").write_bytes(b"\xef\xbb\xbf" + TEXT.replace("\n", "\r\n").encode())
    assert shell("check", "dos.proto")[0] == 0


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("args", [("summary", "lenet"), ("layers", "--json"), ("devices",)])
def test_output_that_cannot_be_written_is_a_message(args):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", "from prototorch.cli import main; main()", *args],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 5
    assert done.stderr == "prototorch: No space left on device\n"


def test_json_has_no_numbers_that_json_does_not_know(capfd):
    print_json({"loss": float("nan"), "more": [1.0, float("inf")], "n": np.float32("nan")})
    assert json.loads(capfd.readouterr().out) == {"loss": None, "more": [1.0, None], "n": None}


def test_ctrl_c_before_training_says_so(shell, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("prototorch.cli.actions.summary.run", interrupted)
    code, out, err = shell("summary", "mlp")
    assert code == 130
    assert out == ""
    assert err.strip() == "prototorch: stopped"
