"""Every example runs as its page says, from another folder, without a warning."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from prototorch.model.load import load_model

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


def test_the_weights_that_come_along_are_made_anew(run, tmp_path, monkeypatch):
    """On sixty images in place of Fashion-MNIST: an interrupted training goes on, a complete one is taken."""
    shutil.copytree(ROOT / "models" / "weights", tmp_path / "weights")
    (tmp_path / "whole" / "fashion-mnist").mkdir(parents=True)
    for path in (ROOT / "prototorch/data/files").glob("fashion-mnist-mini-*.gz"):
        shutil.copy(path, tmp_path / "whole" / path.name.removeprefix("fashion-mnist-mini-"))
    run("make_small_set.py", "whole", "whole/fashion-mnist", "--name", "tiny", "--train", 6, "--test", 2)
    monkeypatch.setenv("PROTOTORCH_DATA", str(tmp_path / "whole"))
    folder, declaration = tmp_path / "weights" / "fashion_mnist", tmp_path / "weights" / "mlp.proto"
    (folder / "mlp.h5").unlink()
    text = run("make_pretrained.py", "mlp", "--weights", "weights")
    accuracy, digest = re.search(r"(\S+)% of the test images, sha256 ([0-9a-f]{64})", text).groups()
    assert hashlib.sha256((folder / "mlp.h5").read_bytes()).hexdigest() == digest
    assert f'digest: "sha256:{digest}"' in declaration.read_text("utf-8")
    assert f"top1: {float(accuracy):g}" in declaration.read_text("utf-8")
    model = load_model(folder / "mlp.h5")
    assert 100 * model.history.history["val_accuracy"][-1] == pytest.approx(float(accuracy))
    assert load_model(folder / "mlp.proto").fit_block.epochs == len(model.history.epoch)
    assert digest in run("make_pretrained.py", "mlp", "--weights", "weights")


SMALL_NET = """
param classes: 7
input { name: "image"  shape: [3, 16, 16] }
preprocess { Resizing { height: 16  width: 16 }  Rescaling { scale: $(1 / 255) } }
Conv2D { name: "stem/conv"  filters: 8  kernel_size: 3  strides: 2 }
BatchNormalization { name: "stem/norm" }
ReLU { }
GlobalAveragePooling2D { }
Dense { name: "body"  units: 8  activation: relu }
Dense { name: "logits"  units: $classes }
"""


def test_letters_are_told_apart_by_weights_that_come_along(run, tmp_path):
    text = run("fine_tune_letters.py", "--test", 10, "--save", "letters.h5")
    tuned = float(re.search(r"accuracy with the weights of clothes: (\S+)", text)[1])
    assert tuned > 0.5
    assert tuned > float(re.search(r"accuracy from scratch: (\S+)", text)[1])
    assert load_model(tmp_path / "letters.h5").fit_block.data.classes[:2] == ("A", "B")


def test_photos_are_fine_tuned(run, tmp_path):
    """On a small net of its own; the real one takes minutes and its weights."""
    (tmp_path / "small.proto").write_text(SMALL_NET)
    load_model(tmp_path / "small.proto").save(tmp_path / "base.h5")
    for i, name in enumerate(("animals/birds", "plants/flowers", "food/fruit", "town/houses")):
        (tmp_path / "stamps" / name).mkdir(parents=True)
        for number in range(6):
            Image.new("RGBA", (30, 20 + number), (60 * i, 255 - 60 * i, 0, 255)).save(
                tmp_path / "stamps" / name / f"{number}.png"
            )
    text = run(
        "fine_tune_photos.py",
        "--stamps",
        "stamps",
        "--model",
        "small.proto",
        "--weights",
        "base.h5",
        "--stages",
        "body",
        "--epochs",
        6,
        "--compare",
        "--save",
        "tuned.h5",
    )
    assert 0 <= float(re.search(r"accuracy with pretrained weights: (\S+)", text)[1]) <= 1
    assert 0 <= float(re.search(r"accuracy from scratch: (\S+)", text)[1]) <= 1
    tuned, base = load_model(tmp_path / "tuned.h5"), load_model(tmp_path / "base.h5")
    assert tuned.weights["logits/kernel"].shape == (8, 4)
    assert np.array_equal(tuned.weights["stem/conv/kernel"], base.weights["stem/conv/kernel"])
    assert not np.array_equal(tuned.weights["body/kernel"], base.weights["body/kernel"])


def test_every_example_is_on_the_page_and_run_here():
    page, here = (EXAMPLES / "README.md").read_text("utf-8"), Path(__file__).read_text("utf-8")
    for path in EXAMPLES.glob("*.py"):
        assert f"`{path.name}`" in page
        assert f'"{path.name}"' in here


def test_the_data_of_the_text_models_are_made_and_learned_from(run, tmp_path):
    run("text_models/make_data.py", "texts")
    lines = {p.name: p.read_text(encoding="utf-8").splitlines() for p in (tmp_path / "texts").iterdir()}
    assert len(lines["dates.tsv"]) == 6000
    assert all(re.fullmatch(r"[^\t]+\t\d{4}-\d\d-\d\d", line) for line in lines["dates.tsv"])
    assert {line.split("\t")[1] for line in lines["topics_test.tsv"][1:]} == {"asyncio", "email", "tkinter", "unittest"}
    assert not set(lines["topics.tsv"][1:]) & set(lines["topics_test.tsv"][1:])
    assert sum(map(len, lines["docstrings.txt"])) > 400_000
    overrides = ["fit.data.label=topic", "fit.data.limit=200", "fit.validation_split=0"]
    model = load_model(
        "lstm_classifier",
        classes=4,
        dim=8,
        units=8,
        length=12,
        overrides=[f'fit.data.source="{tmp_path}/texts/topics.tsv"', *overrides],
    )
    losses = model.fit(epochs=4, batch_size=32, verbose=0).history["loss"]
    assert losses[-1] < losses[0]


def test_points_are_made_and_a_generator_of_them_is_trained(run, tmp_path):
    run("generative/make_points.py", "points.npz")
    points = np.load(tmp_path / "points.npz")["point"]
    assert points.shape == (6000, 2)
    np.testing.assert_allclose(np.hypot(*points.T), 2, atol=0.3)
    model = load_model(EXAMPLES / "generative" / "wgan.proto", overrides=["fit.epochs=20"])
    before = np.hypot(*model.predict(points[:500]).T)
    history = model.fit(points, batch_size=64, epochs=20, verbose=0).history
    after = np.hypot(*model.predict(points[:500]).T)
    assert abs(after.mean() - 2) < abs(before.mean() - 2) / 2
    assert {"loss", "critic_loss", "fake", "real", "generator_loss"} < set(history)
