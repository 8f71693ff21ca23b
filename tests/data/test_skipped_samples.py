"""Samples that cannot be read are reported by every way of going through data: fit, validation, evaluate, predict."""

from __future__ import annotations

import json
import re
import warnings

import numpy as np
import pytest
from PIL import Image

import prototorch as pt
from prototorch.cli.main import main
from prototorch.data import DataWarning

TEXT = """
name: "small"
input { name: "image"  shape: [1, 4, 4] }
preprocess { Rescaling { scale: 0.01 } }
Flatten { }
Dense { units: 2  name: "kind" }
compile { loss: sparse_categorical_crossentropy { from_logits: true } }
fit { data { source: "SOURCE"  on_error: skip  skip_limit: 0.5 }  epochs: 2  batch_size: 4 }
"""


@pytest.fixture
def photos(tmp_path):
    """12 training images, one of them damaged, and 6 test images, two of them damaged."""
    rng = np.random.default_rng(0)
    for split, count in (("train", 6), ("test", 3)):
        for name in ("cat", "dog"):
            folder = tmp_path / "photos" / split / name
            folder.mkdir(parents=True)
            for i in range(count):
                Image.fromarray(rng.integers(0, 255, (4, 4), np.uint8)).save(folder / f"{i}.png")
    for path in ("train/cat/3.png", "test/cat/1.png", "test/dog/2.png"):
        (tmp_path / "photos" / path).write_bytes(b"no image")
    model = tmp_path / "small.proto"
    model.write_text(TEXT.replace("SOURCE", str(tmp_path / "photos")))
    return tmp_path


def warnings_of(action) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        action()
    return [str(w.message) for w in caught if w.category is DataWarning]


def test_fit_reports_training_and_validation_samples_once(photos):
    model = pt.load_model(photos / "small.proto")
    notes = warnings_of(lambda: model.fit(verbose=0))
    assert len(notes) == 2
    assert re.search(
        r"1 of the 12 training samples could not be read and was skipped: .*cat/3.png: is not an", notes[0]
    )
    assert re.search(r"2 of the 6 validation samples could not .* were skipped: .*cat/1.png.*, .*dog/2.png", notes[1])


@pytest.mark.parametrize("call", [lambda m: m.evaluate(), lambda m: m.predict(m.fit_block.data.replace(part="test"))])
def test_evaluate_and_predict_report_theirs(photos, call):
    model = pt.load_model(photos / "small.proto")
    (note,) = warnings_of(lambda: call(model))
    assert "2 of the 6 samples could not be read and were skipped" in note


@pytest.mark.parametrize("damaged", [("cat/0.png",), ("cat/0.png", "cat/1.png", "cat/2.png", "dog/0.png")])
def test_prediction_of_a_first_batch_that_cannot_be_read(photos, damaged):
    for name in damaged:
        (photos / "photos/test" / name).write_bytes(b"")
    model = pt.load_model(photos / "small.proto")
    data = model.fit_block.data.replace(part="test", skip_limit=1)
    with pytest.warns(DataWarning, match="samples could not be read"):
        outputs = model.predict(data)
    assert outputs.shape == (6 - len({*damaged, "cat/1.png", "dog/2.png"}), 2)


def test_commands_report_them_in_single_lines(photos, capsys, monkeypatch):
    monkeypatch.chdir(photos)
    with pytest.raises(SystemExit) as done:
        main(["run", "small.proto", "--json"])

    assert done.value.code == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["skipped"] == {"training": 1, "validation": 2}
    lines = [line for line in err.splitlines() if line.startswith("warning: ") and "could not be read" in line]
    counts = [next(words for words in ("12 training", "6 validation", "6 samples") if words in line) for line in lines]
    assert counts == ["12 training", "6 validation", "6 samples"]  # the last of the evaluation of the saved model
    assert "warn_user" not in err
    assert ".py:" not in err
    with pytest.raises(SystemExit):
        main(["evaluate", "runs/small/model.h5"])
    err = capsys.readouterr().err
    assert len(re.findall(r"^warning: .* 2 of the 6 samples could not be read", err, re.MULTILINE)) == 1
