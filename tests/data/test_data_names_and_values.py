"""Labels that are values, and columns that are matched by name: results that were silently wrong."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import warnings

import numpy as np
import pytest
from PIL import Image

import prototorch as pt
from prototorch.cli import main
from prototorch.data import DataWarning, open_source
from prototorch.errors import DataError

RNG = np.random.default_rng(3)
TABLE = RNG.standard_normal((40, 3)).round(3)
TARGET = TABLE @ [2.0, -1.0, 0.5]


def write_table(path, columns, target_name="price", **extra):
    """A CSV file with these columns (a, b, c, the target) in this order."""
    values = {**dict(zip("abc", TABLE.T, strict=True)), target_name: TARGET, **extra}
    rows = zip(*(values[name] for name in columns), strict=True)
    path.write_text("\n".join([",".join(columns), *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


@pytest.mark.parametrize("labels", [["0.25", "0.5", "10", "3"], ["1e-3", "-2", ".5", "4."]])
def test_numeric_labels_of_a_list_file_are_values(tmp_path, labels):
    for i in range(4):
        Image.fromarray(np.full((4, 4), i, np.uint8)).save(tmp_path / f"{i}.png")
    path = tmp_path / "list.txt"
    path.write_text("".join(f"{i}.png {label}\n" for i, label in enumerate(labels)))
    data = open_source(path)["train"]
    assert data.columns["label"].dtype == "float32"
    np.testing.assert_allclose(data.read(np.arange(4))["label"], np.array(labels, float), rtol=1e-6)
    assert not data.classes


@pytest.mark.parametrize("labels", [["nan", "inf", "e5", "1_0"], ["0.25", "cat", "dog", "ant"]])
def test_other_labels_are_class_names(tmp_path, labels):
    for i in range(4):
        Image.fromarray(np.full((4, 4), i, np.uint8)).save(tmp_path / f"{i}.png")
    path = tmp_path / "list.txt"
    path.write_text("".join(f"{i}.png {label}\n" for i, label in enumerate(labels)))
    data = open_source(path)["train"]
    assert data.classes["label"] == tuple(sorted(labels))
    assert data.columns["label"].dtype == "int64"


def trained(path, tmp_path, **options):
    model = pt.Sequential([pt.Input((3,)), pt.layers.Dense(1)])
    model.compile(pt.optimizers.Adam(0.1), "mse")
    model.fit(pt.Data(source=str(path), **options), epochs=3, batch_size=8, verbose=0)
    model.save(tmp_path / "model.h5")
    return pt.load_model(tmp_path / "model.h5")


def evaluate(model, path):
    return model.evaluate(model.fit_block.data.replace(source=str(path)), verbose=0)


@pytest.mark.parametrize("options", [{}, {"label": ["price"]}, {"label": [-1]}])
def test_columns_of_a_table_are_matched_by_name(tmp_path, options):
    first = write_table(tmp_path / "a.csv", ["a", "b", "c", "price"])
    model = trained(first, tmp_path, **options)
    assert list(model.fit_block.data.features) == ["a", "b", "c"]
    assert list(model.fit_block.data.label) == ["price"]
    expected = evaluate(model, first)
    other = write_table(tmp_path / "b.csv", ["price", "c", "extra", "a", "b"], extra=TARGET)
    assert evaluate(model, other) == expected


def test_a_missing_column_is_named(tmp_path):
    model = trained(write_table(tmp_path / "a.csv", ["a", "b", "c", "price"]), tmp_path)
    with pytest.raises(DataError, match=r"b\.csv: has no column 'b'; it has a, c, price"):
        evaluate(model, write_table(tmp_path / "b.csv", ["a", "c", "price"]))


def test_a_table_without_names_goes_by_position(tmp_path):
    path = tmp_path / "plain.csv"
    np.savetxt(path, np.column_stack([TABLE, TARGET]), delimiter=",")
    model = trained(path, tmp_path)
    assert model.fit_block is None
    assert np.isfinite(model.evaluate(pt.Data(source=str(path)), verbose=0)["loss"])


@pytest.mark.parametrize(
    "fit",
    [
        "validation_split: 0.25",
        'data { source: "a.csv"  limit: 5 }',
        'validation { source: "a.csv" }',
    ],
)
def test_a_source_given_by_hand_is_evaluated_whole(tmp_path, monkeypatch, capsys, fit):
    monkeypatch.chdir(tmp_path)
    write_table(tmp_path / "a.csv", ["a", "b", "c", "price"])
    other = write_table(tmp_path / "b.csv", ["c", "b", "a", "price"])
    declared = fit if fit.startswith("data") else f'data {{ source: "a.csv" }}  {fit}'
    text = f"input {{ shape: [3] }}\nDense {{ units: 1 }}\ncompile {{ loss: mse }}\nfit {{ {declared}  epochs: 1 }}\n"
    (tmp_path / "m.proto").write_text(text)
    model = pt.load_model("m.proto")
    model.fit(verbose=0)
    model.save("m.h5")
    expected = pt.load_model("m.h5").evaluate(model.fit_block.data.replace(source=str(other), limit=None))
    with pytest.raises(SystemExit):
        main(["evaluate", "m.h5", "--data", "b.csv", "--json"])
    assert json.loads(capsys.readouterr().out)["loss"] == pytest.approx(expected["loss"])
    if "split" in fit:  # in a process of its own, where nothing has been declared before
        command = [sys.executable, "-m", "prototorch", "evaluate", "m.h5", "--data", "b.csv", "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert json.loads(done.stdout)["loss"] == pytest.approx(expected["loss"])


def classifier(classes=2):
    model = pt.Sequential([pt.Input((3,)), pt.layers.Dense(classes)])
    model.compile("sgd", pt.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def test_declared_data_sorted_by_class_are_split_at_random(tmp_path):
    labels = np.repeat([0, 1], 20)
    path = write_table(tmp_path / "a.csv", ["a", "b", "c", "kind"], kind=labels)
    model = classifier()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(pt.Data(source=str(path)), validation_split=0.25, epochs=1, verbose=0)
    first, second = (open_source(path)["train"].split(0.25, seed) for seed in (1, 1))
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a.column_array("x"), b.column_array("x"))
        assert set(a.column_array("kind")) == {0, 1}


def test_classes_that_only_the_validation_has_are_warned_of():
    x, labels = TABLE.astype(np.float32)[:30], np.repeat([0, 1, 2], [12, 12, 6])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        classifier(3).fit(x, labels, validation_split=0.2, epochs=1, verbose=0)
    messages = [str(w.message) for w in caught if w.category is DataWarning]
    assert any(re.search(r"1 of the classes of .* occur in the validation data but not .*\(2\)", m) for m in messages)


@pytest.mark.parametrize("kind", ["npz", "csv", "list"])
def test_a_limit_draws_samples_by_the_seed_from_every_source(tmp_path, kind):
    """The first 30 of a set sorted by class have one class."""
    labels, x = np.repeat(np.arange(4), 50), np.arange(1600, dtype=np.float32).reshape(200, 8)
    path = tmp_path / f"data.{kind}"
    if kind == "npz":
        np.savez(path, x=x, y=labels)
    elif kind == "csv":
        np.savetxt(path, np.column_stack([x, labels]), fmt="%g", delimiter=",")
    else:
        Image.new("L", (4, 4)).save(tmp_path / "a.png")
        path.write_text("".join(f"a.png {label}\n" for label in labels))
    block = pt.Data(source=str(path), limit=30)

    def drawn(seed: int) -> np.ndarray:
        data = block.open(seed=seed)
        labels = data.column_array(data.targets[0])
        assert (np.diff(labels) >= 0).all()  # in the order of the source
        return labels

    assert len(drawn(0)) == 30
    assert set(drawn(0)) == {0, 1, 2, 3}
    np.testing.assert_array_equal(drawn(5), drawn(5))
    assert (drawn(0) != drawn(5)).any()
