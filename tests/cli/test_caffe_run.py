"""`prototorch run` and `evaluate` with files of Caffe: LeNet from end to end, options, signals, exit codes."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from prototorch.caffe.interop.solver_state import read_solver_state
from tests.cli.test_commands import here, shell  # noqa: F401

ROOT = Path(__file__).resolve().parents[2]
LENET = ROOT / "examples" / "caffe_lenet"
SOLVERS = ROOT / "tests" / "caffe" / "golden" / "solvers"
SMALL = 'net: "mlp.prototxt" base_lr: 0.1 momentum: 0.9 lr_policy: "fixed" snapshot_prefix: "snap/m" random_seed: 1 '


@pytest.fixture
def small(here):  # noqa: F811
    """A small net with its data in the working directory; gives a function that writes its solver."""
    for name in ("solver_data.h5", "solver_data_list.txt", "mlp.prototxt"):
        shutil.copy(SOLVERS / name, here / name)

    def write(text: str = "max_iter: 4", name: str = "solver.prototxt") -> None:
        (here / name).write_text(SMALL + text)

    write()
    return write


def test_lenet_learns_and_goes_on(here, shell, monkeypatch):  # noqa: F811
    for path in LENET.glob("*.prototxt"):
        shutil.copy(path, here / path.name)
    monkeypatch.setattr(sys, "argv", ["make_data.py", str(here)])
    runpy.run_path(str(LENET / "make_data.py"), run_name="__main__")
    text = Path("solver.prototxt").read_text().replace("max_iter: 300", "max_iter: 60").replace("200", "40")
    Path("solver.prototxt").write_text(text.replace("test_interval: 100", "test_interval: 60"))
    code, out, err = shell("run", "solver.prototxt")
    assert code == 0, err
    accuracies = [float(line.split(" = ")[1]) for line in out.splitlines() if "accuracy = " in line]
    assert accuracies[0] < 0.3 < 0.6 < accuracies[-1]
    folder = Path("runs/solver")
    assert sorted(path.name for path in folder.iterdir() if "lenet" in path.name) == [
        f"lenet_iter_{n}.{kind}" for n in (40, 60) for kind in ("caffemodel", "resume", "solverstate")
    ]
    weights = str(folder / "lenet_iter_60.caffemodel")
    code, out, err = shell("evaluate", "train_test.prototxt", "--weights", weights, "--iterations", "10")
    assert code == 0, err
    assert out.splitlines()[0].startswith("Batch 0, accuracy = ")
    assert out.splitlines()[-2] == f"accuracy = {accuracies[-1]:.6g}"
    code, out, err = shell("evaluate", "train_test.prototxt", "--weights", weights, "--iterations", "10", "--json")
    assert json.loads(out)["accuracy"] == pytest.approx(accuracies[-1])


def test_runs_resume_and_keep_what_is_there(small, shell):  # noqa: F811
    small("max_iter: 4 snapshot: 2")
    assert shell("run", "solver.prototxt")[0] == 0
    state = "runs/solver/snap/m_iter_2.solverstate"
    assert read_solver_state(state).learned_net == "runs/solver/snap/m_iter_2.caffemodel"
    whole = Path("runs/solver/snap/m_iter_4.caffemodel").read_bytes()
    code, out, err = shell("run", "solver.prototxt", "--snapshot", state, "--json")
    assert code == 0, err
    result = json.loads(out)
    assert result["iteration"] == 4
    assert result["snapshots"] == ["runs/solver/snap/m_iter_4.caffemodel", "runs/solver/snap/m_iter_4.solverstate"]
    assert Path("runs/solver/snap/m_iter_4.caffemodel").read_bytes() == whole  # its data went on
    code, out, err = shell("run", "solver.prototxt", "--snapshot", state, "--caffe-resume")
    assert code == 0, err
    assert f"Restored {state}: iteration 2; the data begin at their first row, as in Caffe" in out + err
    assert Path("runs/solver/snap/m_iter_4.caffemodel").read_bytes() != whole
    assert shell("run", "solver.prototxt", "--quiet")[0] == 0
    assert Path("runs/solver-2/snap/m_iter_4.caffemodel").read_bytes() == whole
    assert (
        shell(
            "run",
            "solver.prototxt",
            "--snapshot-prefix",
            "elsewhere/x",
            "--weights",
            "runs/solver/snap/m_iter_4.caffemodel,runs/solver/snap/m_iter_2.caffemodel",
        )[0]
        == 0
    )
    assert Path("elsewhere/x_iter_4.solverstate").exists()


WRONG = [
    (("run", "mlp.prototxt"), 2, "is a net of Caffe, without a solver"),
    (("run", "solver.prototxt", "--epochs", "2"), 2, "--epochs does not go with"),
    (("run", "solver.prototxt", "--data", "x"), 2, "--data does not go with"),
    (("run", "solver.prototxt", "--snapshot", "a", "--weights", "b"), 2, "leave out --weights"),
    (("run", "solver.prototxt", "--caffe-resume"), 2, "--caffe-resume goes with --snapshot STATE"),
    (("run", "solver.prototxt", "--snapshot", "a.solverstate"), 5, "a.solverstate"),
    (("run", "solver.prototxt", "--weights", "b.caffemodel"), 5, "b.caffemodel"),
    (("run", "lenet", "--level", "2"), 2, "--level is for files of Caffe"),
    (("evaluate", "solver.prototxt"), 2, "evaluate the net that it names"),
    (("evaluate", "mlp.prototxt"), 2, "--weights FILE.caffemodel"),
    (("evaluate", "lenet", "--iterations", "3"), 2, "--iterations is for files of Caffe"),
]


@pytest.mark.parametrize(("arguments", "code", "message"), WRONG, ids=[" ".join(a) for a, _, _ in WRONG])
def test_wrong_use_is_said(small, shell, arguments, code, message):  # noqa: F811
    got, _, err = shell(*arguments)
    assert message in err
    assert got == code
    assert "Traceback" not in err


def test_a_mistake_has_its_place_and_code(small, shell):  # noqa: F811
    small('max_iter: 4 type: "Adma"')
    code, _, err = shell("run", "solver.prototxt")
    assert code == 3
    assert "solver.prototxt:1:" in err
    assert "Did you mean 'Adam'" in err


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="this system has no SIGHUP")
@pytest.mark.parametrize("options", [(), ("--sigint-effect", "snapshot", "--sighup-effect", "stop")])
def test_signals(small, here, options):  # noqa: F811
    """SIGHUP writes a snapshot and SIGINT stops with one; the other way round with the options."""
    small("max_iter: 100000000 display: 100")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "prototorch", "run", "solver.prototxt", *options]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert "Iteration 0" in child.stdout.readline()
        first, second = (signal.SIGINT, signal.SIGHUP) if options else (signal.SIGHUP, signal.SIGINT)
        child.send_signal(first)
        deadline = time.monotonic() + 60
        while not list(here.glob("runs/solver/snap/*.solverstate")):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        child.send_signal(second)
        _, err = child.communicate(timeout=120)
    assert child.returncode == 128 + second, err
    assert "Traceback" not in err
    states = sorted(here.glob("runs/solver/snap/*.solverstate"), key=lambda path: path.stat().st_mtime_ns)
    last = read_solver_state(states[-1])
    assert f"after iteration {last.iteration}; --snapshot {states[-1].relative_to(here)} continues" in err
    assert len(states) == 2
    assert all(np.isfinite(array).all() for array in last.history)
