"""Class names as labels: never among numbers, and never at a loss that compares values."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from PIL import Image

import prototorch as pt
from prototorch.data.csv_reader import read_csv
from prototorch.data.image_folder import open_image_list
from prototorch.data.image_io import ImageReader
from prototorch.data.sources import open_source
from prototorch.errors import DataError, PrototorchError
from prototorch.model.diagnose import check_model
from prototorch.model.load import load_model

TABLE = "p,q,label\n" + "1,2,{}\n2,3,{}\n3,4,{}\n" * 2
MODEL = """input {{ name: "x"  shape: {shape} }}
{layers}
Dense {{ units: {units}  name: "o" }}
compile {{ loss: {loss} }}
fit {{ data {{ source: "{source}" {options} }}  epochs: 1 }}
"""


@pytest.fixture
def images(tmp_path):
    for number in range(6):
        Image.fromarray(np.full((2, 2), number, np.uint8)).save(tmp_path / f"{number}.png")
    return tmp_path


def write_model(folder, source, loss, units=1, options="", shape="[2]", layers=""):
    path = folder / "m.proto"
    path.write_text(MODEL.format(source=source, loss=loss, units=units, options=options, shape=shape, layers=layers))
    return path


def error_of_check_and_fit(path) -> str:
    """The message of `check`, which is that of the training."""
    with pytest.raises(PrototorchError) as checked:
        check_model(str(path))
    with pytest.raises(PrototorchError) as trained:
        load_model(path).fit(verbose=0)
    assert checked.value.mistakes[0].message in str(trained.value)
    return str(checked.value)


@pytest.mark.parametrize(
    ("labels", "line", "what"),
    [
        (["10.5", "200", "n/a"], 3, "expected a number, got 'n/a'"),
        (["1", "", "3"], 2, "missing"),
        (["1", "2", "3,5"], 3, "expected a number, got a number with a decimal comma"),
        (["10,5", "200,25", "3,5"], 1, "expected a number, got a number with a decimal comma"),
        (["n/a", "n/a", "7"], 1, "expected a number, got 'n/a'"),
        (["1.5", "2", "three"], 3, "expected a number, got text of 5 characters"),
    ],
)
def test_numbers_with_something_else_are_no_classes(images, labels, line, what):
    (images / "t.csv").write_text("a;label\n" + "".join(f"{i};{label}\n" for i, label in enumerate(labels)))
    with pytest.raises(DataError, match=f"t.csv, line {line + 1}, column 'label': .*{what}"):
        read_csv(images / "t.csv")
    if "" in labels:
        return  # in a list a label is a word
    (images / "l.txt").write_text("".join(f"{i}.png {label}\n" for i, label in enumerate(labels)))
    with pytest.raises(DataError, match=f"l.txt, line {line}: {what} .*classes"):
        open_image_list(images / "l.txt", ImageReader())


@pytest.mark.parametrize("word", ["inf", "-Infinity", "nan", "NaN"])
def test_labels_that_are_not_finite(images, word):
    (images / "l.txt").write_text(f"0.png 1.5\n# comment\n1.png {word}\n2.png 2\n")
    with pytest.raises(DataError, match=r"l.txt, line 3: the label is -?(inf|nan); expected finite numbers"):
        open_image_list(images / "l.txt", ImageReader())


@pytest.mark.parametrize(
    ("labels", "classes", "expected", "names"),
    [
        (["cat", "dog", "cat"], [], [0, 1, 0], ("cat", "dog")),
        (["none", "mild", "severe"], [], [1, 0, 2], ("mild", "none", "severe")),
        (["+", "-", "+"], [], [0, 1, 0], ("+", "-")),
        (["0", "1", "other"], ["other", "1", "0"], [2, 1, 0], ("other", "1", "0")),
        (["0", "2", "1"], ["a", "b", "c"], [0, 2, 1], ("a", "b", "c")),
        (["3", "01", "2.0"], [], [3, 1, 2], ()),
        (["0.5", "1", "2e3"], [], [0.5, 1, 2000], ()),
    ],
)
def test_one_rule_for_tables_and_lists(images, labels, classes, expected, names):
    (images / "t.csv").write_text("a,y\n" + "".join(f"{i},{label}\n" for i, label in enumerate(labels)))
    (images / "l.txt").write_text("".join(f"{i}.png {label}\n" for i, label in enumerate(labels)))
    table, listed = (
        read_csv(images / "t.csv", classes=classes),
        open_image_list(images / "l.txt", ImageReader(), classes),
    )
    assert table.column_array("y").tolist() == listed.column_array("label").tolist() == expected
    assert table.classes.get("y", ()) == listed.classes.get("label", ()) == names


@pytest.mark.parametrize("loss", ["mse", "mae", "huber", "log_cosh"])
def test_class_names_are_no_values(tmp_path, loss):
    (tmp_path / "t.csv").write_text(TABLE.format("lo", "hi", "mid", "lo", "hi", "mid"))
    message = error_of_check_and_fit(write_model(tmp_path, "t.csv", loss, options='label: "label"'))
    assert "m.proto:5:" in message
    assert "t.csv: the target 'label' has the 3 classes hi, lo, mid, but " in message
    assert "takes values, not class numbers: write sparse_categorical_crossentropy with units: 3" in message


@pytest.mark.parametrize("loss", ["hinge", "binary_crossentropy { from_logits: true }"])
def test_two_classes_at_a_loss_of_yes_or_no(tmp_path, loss):
    (tmp_path / "t.csv").write_text(TABLE.format("lo", "hi", "mid", "lo", "hi", "mid"))
    message = error_of_check_and_fit(write_model(tmp_path, "t.csv", loss))
    assert "takes at most 2 classes" in message
    (tmp_path / "t.csv").write_text(TABLE.format(*["lo", "hi"] * 3))
    check_model(str(write_model(tmp_path, "t.csv", loss)))
    assert math.isfinite(load_model(tmp_path / "m.proto").fit(verbose=0).history["loss"][0])
    message = error_of_check_and_fit(write_model(tmp_path, "t.csv", "mse"))
    assert "write binary_crossentropy with one unit" in message


def test_class_folders_and_lists_at_a_loss_of_values(images):
    for number, word in enumerate(("ant", "bee", "cat")):
        (images / "photos" / word).mkdir(parents=True)
        (images / f"{number}.png").rename(images / "photos" / word / "0.png")
    of_images = {"shape": "[1, 2, 2]", "layers": "preprocess { Rescaling { scale: 0.1 } } Flatten { }"}
    message = error_of_check_and_fit(write_model(images, "photos", "mse", **of_images))
    assert "photos: the target 'label' has the 3 classes ant, bee, cat" in message
    (images / "l.txt").write_text("3.png ant\n4.png bee\n5.png cat\n")
    message = error_of_check_and_fit(write_model(images, "l.txt", "mse", **of_images))
    assert "l.txt: the target 'label' has the 3 classes ant, bee, cat" in message
    check_model(
        str(write_model(images, "photos", "sparse_categorical_crossentropy { from_logits: true }", 3, **of_images))
    )


def test_functions_and_one_hot_targets_take_classes():
    x, y = np.zeros((6, 2), np.float32), np.arange(6) % 3
    names = {"y": ("a", "b", "c")}
    model = pt.Sequential([pt.Input([2]), pt.layers.Dense(1)])
    model.compile(loss=lambda target, output: (target - output) ** 2)
    model.fit(pt.data.ArrayDataset({"x": x, "y": y}, ["x"], ["y"], classes=names), verbose=0)
    model = pt.Sequential([pt.Input([2]), pt.layers.Dense(3)])
    model.compile(loss="mse")
    one_hot = np.eye(3, dtype=np.float32)[y]
    model.fit(pt.data.ArrayDataset({"x": x, "y": one_hot}, ["x"], ["y"], classes=names), verbose=0)


@pytest.mark.parametrize(("text", "line"), [("0.png 1 2 3\n1.png 1 2 3\n", 1), ("0.png a\n1.png cat dog\n", 2)])
def test_lines_of_several_words(images, text, line):
    (images / "l.txt").write_text(text)
    with pytest.raises(DataError, match=f"l.txt, line {line}: there is no image .*`path label`: the last word"):
        open_source(images / "l.txt")


def test_a_path_of_several_words(images):
    (images / "0.png").rename(images / "old 0.png copy.png")
    (images / "1.png").rename(images / "1.png old")
    (images / "l.txt").write_text("old 0.png copy.png 1\n1.png old 2\n")
    assert open_source(images / "l.txt")["train"].column_array("label").tolist() == [1, 2]


@pytest.mark.parametrize("first", ["7301,2,lo", "n/a,lo,7301", "7301,11,7301"])
def test_cells_are_not_quoted_as_column_names(tmp_path, first):
    (tmp_path / "t.csv").write_text(f"{first}\n2,3,7\n3,4,8\n")
    with pytest.raises(DataError, match=r"has no column 'label'; expected a header .*label: -1 is the last") as error:
        read_csv(tmp_path / "t.csv", label="label")
    assert "7301" not in str(error.value)
    (tmp_path / "t.csv").write_text(",p,q\n0,1,2\n")
    with pytest.raises(DataError, match="it has , p, q"):
        read_csv(tmp_path / "t.csv", label="label")


@pytest.mark.parametrize(("units", "loss"), [(2, "sparse_categorical_crossentropy"), (1, "mse")])
def test_only_fit_says_that_there_is_nothing_to_learn(units, loss):
    x, y = np.random.default_rng(0).standard_normal((40, 2)), np.ones(40, np.int64)
    model = pt.Sequential([pt.Input([2]), pt.layers.Dense(units, activation="softmax" if units > 1 else "linear")])
    model.compile(loss=loss)
    with pytest.warns(pt.data.DataWarning, match="there is nothing to learn"):
        model.fit(x, y, verbose=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.evaluate(x, y, verbose=0)
        model.fit(x, np.arange(40) % 2, validation_data=(x + 1, y), verbose=0)


def test_an_unknown_target_is_found_at_its_name(tmp_path):
    (tmp_path / "t.csv").write_text("p,q,y\n1,2,3\n2,3,4\n")
    message = error_of_check_and_fit(write_model(tmp_path, "t.csv", '{ type: mse  target: "zz" }'))
    assert "m.proto:4:38: " in message
    assert "has no column 'zz'; it has x, y" in message
