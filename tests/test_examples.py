"""Every example runs as its page says, from another folder, without a warning."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"


@pytest.fixture
def run(tmp_path):
    """Runs an example in an empty folder; gives what it prints."""

    def call(name, *args):
        paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-W", "error", str(EXAMPLES / name), *map(str, args)]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return call


def test_arrays_are_trained_on_and_the_saved_model_predicts(run):
    text = run("train_on_arrays.py", "--epochs", 8, "--save", "spirals.h5")
    assert float(re.search(r"accuracy on new points: (\S+)", text)[1]) > 0.9
    assert 'name: "spirals"' in text
    text = run("predict_with_saved.py", "spirals.h5", "0.5,0.1", "0.7,-0.2")
    assert "4,547 parameters" in text
    assert len(re.findall(r"^\[.*\]: class [012] \(\d+%\)$", text, re.MULTILINE)) == 2


def test_a_custom_layer(run):
    text = run("custom_layer.py", "--epochs", 10)
    first, last = map(float, re.search(r"loss (\S+) -> (\S+)", text).groups())
    assert last < first / 3
    assert "the same predictions: True" in text


def test_a_small_set_is_made(run, tmp_path):
    source, target = tmp_path / "whole", tmp_path / "small"
    source.mkdir()
    target.mkdir()
    for path in (ROOT / "prototorch/data/files").glob("fashion-mnist-mini-*.gz"):
        shutil.copy(path, source / path.name.removeprefix("fashion-mnist-mini-"))
    text = run("make_small_set.py", source, target, "--name", "tiny", "--train", 3, "--test", 2)
    assert "uint8(30, 28, 28)" in text
    assert len(list(target.iterdir())) == 4


def test_every_example_is_on_the_page_and_run_here():
    page, here = (EXAMPLES / "README.md").read_text("utf-8"), Path(__file__).read_text("utf-8")
    for path in EXAMPLES.glob("*.py"):
        assert f"`{path.name}`" in page
        assert f'"{path.name}"' in here
