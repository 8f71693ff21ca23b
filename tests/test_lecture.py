"""The programs of the lecture run, each finds its own numbers to be those by hand, and finds out where they are not."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import prototorch.compat.tf1 as tf

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "examples" / "lecture"
SLOW = {"pretrained", "dynamic_stop", "dynamic_tree", "cifar_lenet"}  # tens of seconds, or much memory
PROGRAMS = sorted(p.stem for p in FOLDER.glob("*.py") if p.stem != "by_hand")
#: programs that say that there is no version by hand
WITHOUT_TWIN = {"cifar_lenet", "dynamic_modules", "dynamic_stop", "dynamic_tree", "pretrained"}

_LOOP = "for t in range(500):\n"
_STOP = "    learning_rate = learning_rate if t < 100 else 0.0\n"
_STOP_AT_100 = (_LOOP, _LOOP + _STOP)
_RATE_1E_6 = ("learning_rate = 1e-6", "learning_rate = 1.001e-6")
_STEP_TO_100 = ("    optimizer.step()", "    t < 100 and optimizer.step()")
_RUNS = "for t in range(50)]"
_STOP_AT_20 = (_RUNS, "for t in range(20)]\nlosses += losses[-1:] * 30")
_RUN_TO_20 = ("sess.run([loss, updates]", "sess.run([loss, updates if t < 20 else loss]")
#: for each program, changes of its text that make it another computation: a training that stops or that has a rate
#: 0.1% too large, a wrong derivative
BREAKS = {
    "cifar_lenet": [("lr=0.001, momentum", "lr=0.00101, momentum")],
    "dynamic_depth": [("middle_linear(h_relu).clamp(min=0)", "middle_linear(h_relu).clamp(min=-0.01)")],
    "dynamic_modules": [("lr=5e-3", "lr=0.0")],
    "dynamic_stop": [("lr=1e-2", "lr=0.0")],
    "dynamic_tree": [("lr=3e-3", "lr=0.0")],
    "graph_eager": [("c.backward()", "(c * 1.0001).backward()"), ("b = a + z", "b = a + z + 1e-4")],
    "graph_numpy": [
        ("grad_x = grad_a * y", "grad_x = grad_a * x"),
        ("grad_z = grad_b.copy()", "grad_z = grad_b * 1.0001"),
    ],
    "graph_static": [("b = a + z", "b = a + z * 1.0001")],
    "net_autograd": [_STOP_AT_100, _RATE_1E_6, ("        w2.grad.zero_()\n", "")],
    "net_dataloader": [
        ("        optimizer.step()", "        epoch < 5 and optimizer.step()"),
        ("batch_size=8)\n\n", "batch_size=8, shuffle=True)\n\n"),
        ("lr=1e-4", "lr=1.001e-4"),
    ],
    "net_function": [
        (_LOOP, _LOOP + "        learning_rate = learning_rate if t < 100 else 0.0\n"),
        ("grad_input[x < 0] = 0", "grad_input[x < -1] = 0"),
    ],
    "net_keras": [
        ("SGD(learning_rate=1e0)", "SGD(learning_rate=1.001)"),
        ("history = model.fit(", "model.fit(x, y, batch_size=N, verbose=0)\nhistory = model.fit("),
    ],
    "net_module": [_STEP_TO_100, ("lr=1e-4", "lr=1.001e-4"), ("    optimizer.zero_grad()\n", "")],
    "net_numpy": [_STOP_AT_100, _RATE_1E_6, ("grad_h[h < 0] = 0", "grad_h[h < -1] = 0")],
    "net_optim": [_STEP_TO_100, ("learning_rate = 1e-4", "learning_rate = 1.01e-4"), ("optim.Adam(", "optim.AdamW(")],
    "net_sequential": [
        (_LOOP, _LOOP + _STOP),
        ("learning_rate = 1e-4", "learning_rate = 1.001e-4"),
        ("learning_rate = 1e-2", "learning_rate = 1.001e-2"),
    ],
    "net_static_fed": [
        ("for t in range(50):\n", "for t in range(50):\n    learning_rate = learning_rate if t < 20 else 0.0\n"),
        ("learning_rate = 1e-5", "learning_rate = 1.001e-5"),
    ],
    "net_static_layers": [_STOP_AT_20, ("SGD(1e0)", "SGD(1.001)"), ('activation="relu", ', "")],
    "net_static_minimize": [_STOP_AT_20, ("SGD(1e-5)", "SGD(1.001e-5)")],
    "net_static_variables": [_STOP_AT_20, ("learning_rate = 1e-5", "learning_rate = 1.001e-5"),
                             ("group(new_w1, new_w2)", "group(new_w1)")],
    "net_tensors": [_STOP_AT_100, _RATE_1E_6, ("grad_h[h < 0] = 0", "grad_h[h < -1] = 0")],
    "net_variables": [_STOP_AT_100, _RATE_1E_6, ("        w2.grad.data.zero_()", "        pass")],
    "pretrained": [("pt.models.vgg16(", "pt.models.vgg16(classes=10, ")],
    "tf1_device": [("b = a + z", "b = a + z * 1.0001")],
    "tf1_graph": [("b = a + z", "b = a + z * 1.0001"), ("[x, y, z])\n", "[y, x, z])\n")],
    "tf1_net_assign": [("(loss_val,) = sess.run([loss]", "loss_val, _ = sess.run([loss, new_w1]")],
    "tf1_net_fed": [
        ("for t in range(50):\n", "for t in range(50):\n        learning_rate = learning_rate if t < 20 else 0.0\n"),
        ("learning_rate = 1e-5", "learning_rate = 1.001e-5"),
    ],
    "tf1_net_group": [_RUN_TO_20, ("tf.group(new_w1, new_w2)", "tf.group(new_w1)")],
    "tf1_net_layers": [_RUN_TO_20, ("Optimizer(1e0)", "Optimizer(1.001)"), ("activation=tf.nn.relu, ", "")],
    "tf1_net_losses": [_RUN_TO_20, ("Optimizer(1e-3)", "Optimizer(1.001e-3)")],
    "tf1_net_optimizer": [_RUN_TO_20, ("Optimizer(1e-5)", "Optimizer(1.001e-5)")],
}  # fmt: skip


def _marked(names):
    return [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in names]


@pytest.mark.parametrize("name", _marked(PROGRAMS))
def test_a_program_of_the_lecture(name, tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "error", str(FOLDER / f"{name}.py")],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert ("as by hand" in done.stdout) == (name not in WITHOUT_TWIN)


@pytest.mark.parametrize("name", _marked(PROGRAMS))
def test_a_broken_program_finds_that_out(name, tmp_path, monkeypatch, capsys):
    text = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    monkeypatch.syspath_prepend(str(FOLDER))
    for old, new in BREAKS[name]:
        assert old in text, old
        path = tmp_path / f"{name}.py"
        path.write_text(text.replace(old, new), encoding="utf-8")
        monkeypatch.setattr(sys, "argv", [str(path)])
        tf.reset_default_graph()
        with pytest.raises(AssertionError) as failure:
            runpy.run_path(str(path), run_name="__main__")
        assert name in WITHOUT_TWIN or "as by hand; the first at" in str(failure.value), (old, str(failure.value))
    sys.modules.pop("by_hand", None)


def test_a_program_says_where_it_has_no_version_by_hand():
    for name in PROGRAMS:
        says = "no version by hand" in re.sub(r"\s+", " ", (FOLDER / f"{name}.py").read_text(encoding="utf-8"))
        assert says == (name in WITHOUT_TWIN), name


def test_the_check_looks_at_each_number(monkeypatch):
    """A loss of 1e-4 counts as much as the first one of 3e7; up to what float32 rounds."""
    monkeypatch.syspath_prepend(str(FOLDER))
    import by_hand

    exact = np.geomspace(3e7, 1e-4, 500)
    series = by_hand.ByHand(exact, exact * (1 + 1e-7), is_series=True)
    by_hand.check("losses", exact * (1 + 1e-6), series)
    for k in (0, 250, 499):
        other = exact.copy()
        other[k] *= 1.001
        with pytest.raises(
            AssertionError, match=rf"losses: 1 of 500 numbers are not as by hand; the first at \({k},\)"
        ):
            by_hand.check("losses", other, series)
    stopped = np.concatenate([exact[:100], np.full(400, exact[100])])
    with pytest.raises(AssertionError, match="399 of 500 numbers"):
        by_hand.check("losses", stopped, series)
    with pytest.raises(AssertionError, match="1 of 500"):
        by_hand.check("losses", [*exact[:-1], float("nan")], series)
    with pytest.raises(AssertionError, match="shape"):
        by_hand.check("losses", exact[:-1], series)
    sys.modules.pop("by_hand", None)


def _cells():
    """The sources of the notebook's code cells."""
    notebook = json.loads((FOLDER / "lecture.ipynb").read_text(encoding="utf-8"))
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]


def test_the_notebook_is_a_notebook_without_outputs():
    """By the schema of nbformat 4.5, as far as this notebook uses it; and it runs every program."""
    notebook = json.loads((FOLDER / "lecture.ipynb").read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert set(notebook) == {"cells", "metadata", "nbformat", "nbformat_minor"}
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[a-zA-Z0-9-_]{1,64}", one) for one in ids)
    for cell in notebook["cells"]:
        assert all(isinstance(line, str) for line in cell["source"])
        if cell["cell_type"] == "code":
            assert set(cell) == {"cell_type", "execution_count", "id", "metadata", "outputs", "source"}
            assert (cell["outputs"], cell["execution_count"]) == ([], None)
        else:
            assert set(cell) == {"cell_type", "id", "metadata", "source"}
    assert set(re.findall(r'^run\("(\w+)"\)', "\n".join(_cells()), re.MULTILINE)) == set(PROGRAMS)


@pytest.mark.parametrize("which", ["quick", pytest.param("slow", marks=pytest.mark.slow)])
def test_the_notebook_runs_cell_by_cell(which, tmp_path):
    """In one fresh interpreter, in the notebook's folder, as a kernel would; programs that take minutes are slow."""
    cells = _cells()
    chosen = [c for k, c in enumerate(cells) if k == 0 or any(f'run("{n}")' in c for n in SLOW) == (which == "slow")]
    assert len(chosen) > len(SLOW)
    script = tmp_path / "cells.py"
    script.write_text(
        f"space = {{'__name__': '__main__'}}\nfor cell in {chosen!r}:\n    exec(cell, space)\n",
        encoding="utf-8",
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, str(script)], cwd=FOLDER, env=environment, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr
    if which == "quick":
        assert done.stdout.count("as by hand (") > 60
        assert "a choice by elements is pt.where" in done.stdout
        assert "for TensorFlow's 'placeholder', write pt.Input" in done.stdout


def test_the_page_names_every_program():
    page = (ROOT / "docs" / "lecture.md").read_text(encoding="utf-8")
    assert set(re.findall(r"`(\w+)\.py`", page)) == {*PROGRAMS, "by_hand"}


def test_the_python_of_the_page_prints_what_it_says(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "lecture.md").read_text(encoding="utf-8")
    blocks, space = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL), {}
    assert len(blocks) == 2
    for block in blocks:
        exec(block, space)
        assert capsys.readouterr().out.strip() == re.search(r"# (\[\[.*\]\])$", block, re.MULTILINE)[1]


def test_every_program_is_broken_on_purpose():
    assert set(BREAKS) == set(PROGRAMS)
