"""Loading a large file takes the memory of the model's weights once: in anonymous memory, of a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="RssAnon is Linux' figure"),
]
FILES = ("zip.pt", "legacy.pt", "w.safetensors", "ours.h5")


def run(*arguments):
    command = [sys.executable, "-m", "benchmarks.weight_loading", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """VGG16 with random weights, 528 MB in each format."""
    path = tmp_path_factory.mktemp("weights")
    run("--write", "vgg16", str(path))
    return path


@pytest.mark.parametrize("file", FILES)
def test_load_weights_takes_the_weights_size_once(folder, file):
    figures = json.loads(run("--side", "prototorch", "vgg16", str(folder / file)).splitlines()[-1])
    assert figures["bytes"] > 500e6
    assert figures["memory"] < 1.15 * figures["bytes"]


def test_opening_a_saved_model_takes_the_weights_size_once(folder):
    code = "import json; from benchmarks.weight_loading import AnonymousMemory as M\nimport prototorch as pt\n"
    code += f"with M() as m:\n model = pt.load_model({str(folder / 'ours.h5')!r}); n = len(model.weights)\n"
    code += "size = sum(a.nbytes for a in model.weights.values()); print(json.dumps([m.peak, size]))"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    peak, size = json.loads(run.stdout)
    assert peak < 1.15 * size
