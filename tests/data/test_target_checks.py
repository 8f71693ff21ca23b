"""Targets that do not fit the output: classes by name, the layer to change, values that an activation cannot reach."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
from PIL import Image

import prototorch as pt
from prototorch.data import DataWarning
from prototorch.errors import DataError
from prototorch.model.load import load_model, model_from_text

RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 4))
TEXT = """
name: "targets"
input {{ name: "x"  shape: [4] }}
Dense {{ units: 6 }}
{layers}
compile {{ loss: {loss} }}
"""
SPARSE = "sparse_categorical_crossentropy { from_logits: true }"
CLASSES = 'Dense { name: "logits"  units: 3 }'


def notes_of(action) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        action()
    return [str(w.message) for w in caught if issubclass(w.category, DataWarning)]


def model_of(layers: str, loss: str) -> pt.Model:
    return model_from_text(TEXT.format(layers=layers, loss=loss), "m.proto")


@pytest.mark.parametrize(
    ("layers", "loss", "y", "message"),
    [
        ('Dense { name: "y"  units: 1  activation: sigmoid }', "mse", RNG.uniform(0, 255, 40),
         r"targets .* to 25\d.*, but 'y' \(m.proto:5:1\) ends with Sigmoid, whose values lie between 0 and 1"),
        ("Dense { units: 1  activation: tanh }", "mae", RNG.uniform(-5, 5, 40), "Tanh, whose values lie between -1"),
        ("Dense { units: 1  activation: relu }", "huber", X[:, 0], "ReLU, whose values lie between 0 and inf"),
        ("Dense { units: 1 } Sigmoid { }", "mse", X[:, 0] * 9, "'sigmoid_1' .* ends with Sigmoid"),
        ("Dense { units: 4  activation: softmax } Reshape { target_shape: [2, 2] }", "mse",
         RNG.uniform(2, 3, (40, 2, 2)), "Soft"),
        ("Dense { units: 1  activation: softplus }", "poisson", X[:, 0], "Poisson is made for targets of at least 0"),
        ("Dense { units: 1 }", "mean_squared_logarithmic_error", X[:, 0], "MeanSquaredLogarithmicError is made for"),
        ("Dense { units: 1 }", "mse", np.full(40, 3.5), "all targets of .* are 3.5: there is nothing to learn"),
        ("Dense { units: 1  activation: sigmoid }", "mse", RNG.uniform(0, 1, 40), None),
        ("Dense { units: 1  activation: tanh }", "mse", np.sign(X[:, 0]), None),
        ("Dense { units: 1 }", "mse", X[:, 0] * 1000, None),
    ],
)  # fmt: skip
def test_values_that_the_output_cannot_reach(layers, loss, y, message):
    notes = notes_of(lambda: model_of(layers, loss).fit(X, y, epochs=2, verbose=0))
    assert len(notes) == (message is not None)
    assert message is None or re.search(message, notes[0])


@pytest.mark.parametrize(
    ("layers", "labels", "message"),
    [
        (CLASSES, np.arange(40) % 5, r"row 3: logits is 3; 'logits' \(m.proto:5:1\) has 3 classes, .*15 more\); "
         "for the 5 classes of the data give it units: 5"),
        (CLASSES, np.arange(40) % 3 + 1, "the labels seem to count from 1, but must count from 0: give y - 1"),
        (CLASSES, np.where(np.arange(40) % 4, np.arange(40) % 3, -1), "row 0: logits is -1; .*labels count from 0"),
    ],
)  # fmt: skip
def test_labels_beyond_the_classes_of_the_output(layers, labels, message):
    model = model_of(layers, SPARSE)
    with pytest.raises(DataError, match=message):
        model.fit(X, labels, verbose=0)


def test_labels_that_count_from_1_in_a_larger_output():
    notes = notes_of(lambda: model_of(CLASSES, SPARSE).fit(X, np.arange(40) % 2 + 1, epochs=1, verbose=0))
    assert notes == ["data: 1 of the 3 classes have no samples (such as 0): do the labels count from 1?"]


@pytest.fixture
def folders(tmp_path):
    for number, name in enumerate(("ant", "bee", "cat", "dog", "eel")):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for i in range(1 + 24 * (number == 0)):
            Image.fromarray(RNG.integers(0, 255, (2, 2), np.uint8)).save(tmp_path / "photos" / name / f"{i}.png")
    (tmp_path / "m.proto").write_text(f"""
input {{ name: "image"  shape: [1, 2, 2] }}
preprocess {{ Rescaling {{ scale: 0.01 }} }}
Flatten {{ }}
Dense {{ name: "logits"  units: 3 }}
compile {{ loss: {SPARSE} }}
fit {{ data {{ source: "{tmp_path}/photos" }} }}
""")
    return tmp_path


def test_class_folders_for_another_number_of_outputs(folders):
    with pytest.raises(DataError) as error:
        load_model(folders / "m.proto").fit(verbose=0)
    message = str(error.value)
    assert "dog/0.png: label is 3 ('dog'); 'logits' (" in message
    assert "m.proto:5:1) has 3 classes, 0 to 2" in message
    assert "for the 5 classes of the data (ant, bee, cat, dog, eel) give it units: 5" in message


def test_notes_name_classes(folders):
    (folders / "photos/eel/0.png").unlink()
    (folders / "photos/eel").joinpath("readme.txt").write_text("none")
    model = load_model(folders / "m.proto", overrides=[])
    text = model.to_text().replace("units: 3", "units: 5")
    notes = notes_of(lambda: model_from_text(text).fit(verbose=0))
    assert any("1 of the 5 classes have no samples (such as 'eel')" in note for note in notes)


def test_imbalance_names_classes():
    data = pt.data.ArrayDataset(
        {"x": RNG.standard_normal((401, 4)), "y": (np.arange(401) == 7).astype(int)},
        ["x"], ["y"], classes={"y": ("common", "rare\x1b[2J")},
    )  # fmt: skip
    notes = notes_of(lambda: model_of('Dense { name: "y"  units: 2 }', SPARSE).fit(data, verbose=0))
    assert len(notes) == 1
    assert "class 'common' has 400 samples, class 'rare\\x1b[2J' has 1; class_weight" in notes[0]


def test_validation_classes_are_named():
    y = np.repeat([0, 1, 2], [16, 16, 8])
    data = [
        pt.data.ArrayDataset({"x": X[part], "y": y[part]}, ["x"], ["y"], classes={"y": ("ant", "bee", "cat")})
        for part in (slice(0, 30), slice(30, 40))
    ]
    model = model_of('Dense { name: "y"  units: 3 }', SPARSE)
    notes = notes_of(lambda: model.fit(data[0], validation_data=data[1], verbose=0))
    assert any(
        "1 of the classes of 'y' occur in the validation data but not in the training data ('cat')" in n for n in notes
    )


@pytest.mark.parametrize(("repeated", "noted"), [(0, False), (2, False), (12, True)])
def test_rows_of_a_table_that_occur_more_than_once(repeated, noted):
    x = RNG.standard_normal((40, 8)).astype(np.float32)
    x[:repeated] = x[20 : 20 + repeated]
    model = pt.Sequential([pt.Input([8]), pt.layers.Dense(1)])
    model.compile(loss="mse")
    notes = notes_of(lambda: model.fit(x, RNG.random(40), verbose=0))
    assert len(notes) == noted
    assert not noted or "12 of the 40 samples are copies of others (the first: data, row 20)" in notes[0]
