"""Values in another range than the model expects are reported: by its own layers, and by what it was trained on."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest

import prototorch as pt
from prototorch.data import DataWarning
from prototorch.data.value_ranges import ValueRange, find_range_difference, measure_values
from prototorch.engine.storage import container
from prototorch.errors import ModelFileError
from prototorch.model.load import model_from_text

RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (32, 1, 6, 6))
LABELS = np.arange(32) % 2
TEXT = """
name: "ranges"
input {{ name: "image"  shape: [1, 6, 6] }}
{}
Dense {{ units: 2 }}
compile {{ loss: sparse_categorical_crossentropy {{ from_logits: true }} }}
"""
RESCALED = "preprocess { Rescaling { scale: $(1 / 255) } } Flatten { }"
MEANS = "preprocess { Normalization { mean: 120  variance: 4000 } } Flatten { }"


def notes_of(action) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        action()
    assert all(w.category is DataWarning for w in caught)
    return [str(w.message) for w in caught]


@pytest.mark.parametrize(
    ("layers", "x", "message"),
    [
        (RESCALED, PIXELS / 255, r"are 0 to 1 \(float64\); .* Rescaling in preprocess makes them 0 to 0.00392"),
        (
            "Rescaling { scale: $(1 / 127.5)  offset: -1 } Flatten { }",
            PIXELS / 255,
            r"layer 'rescaling_1' \(Rescaling\)",
        ),
        (MEANS, PIXELS / 255, "Normalization in preprocess makes them"),
        ("preprocess { Normalization { mean: [120]  variance: [4000] } } Flatten { }", PIXELS / 127.5 - 1, "scaled"),
        ("Flatten { }", PIXELS.astype("u1"), "lie between 0 and 255, .* Rescaling { scale: \\$\\(1 / 255\\) }"),
        ("preprocess { Normalization { mean: 0.1  variance: 0.09 } } Flatten { }", PIXELS, "after Normalization"),
        (RESCALED, PIXELS, None),
        (RESCALED, PIXELS.astype("u1"), None),
        (MEANS, PIXELS, None),
        ("Flatten { }", PIXELS / 255, None),
        ("BatchNormalization { } Flatten { }", PIXELS, None),
        ("Flatten { } LayerNormalization { }", PIXELS, None),
        (RESCALED, np.full_like(PIXELS, 3), None),
        (RESCALED, PIXELS // 8, None),  # dark images
    ],
)
def test_values_that_do_not_fit_the_models_own_scaling(layers, x, message):
    model = model_from_text(TEXT.format(layers))
    notes = notes_of(lambda: model.fit(x, LABELS, epochs=2, batch_size=8, verbose=0, validation_data=(x, LABELS)))
    notes = [note for note in notes if "validation samples are training samples" not in note]
    assert len(notes) == (message is not None)
    assert message is None or re.search(message, notes[0])


def trained(x) -> pt.Model:
    model = model_from_text(TEXT.format("Flatten { }"))
    assert notes_of(lambda: model.fit(x, LABELS, epochs=1, verbose=0)) == []
    return model


@pytest.mark.parametrize(
    ("x", "other", "message"),
    [
        (PIXELS / 255, PIXELS, r"are 0 to 255 \(int64\), the training data 0 to 1 \(float64\)"),
        (PIXELS / 255, PIXELS.astype("u1")[:1], "the training data 0 to 1"),
        (PIXELS / 4.0, PIXELS / 1020, r"are 0 to 0.25 .*, the training data 0 to 63.75"),
        (PIXELS / 255, PIXELS / 510, None),
        (PIXELS / 255, PIXELS / 127.5 - 1, None),
        (PIXELS / 255, np.zeros((3, 1, 6, 6)), None),
        (PIXELS.astype("u1") // 4, (PIXELS // 200).astype("u1"), None),  # a dark image
    ],
)
def test_values_in_another_range_than_those_of_the_training(tmp_path, x, other, message):
    model = trained(x)
    model.save(tmp_path / "m.h5")
    loaded = pt.load_model(tmp_path / "m.h5")
    labels = LABELS[: len(other)]
    for call in (lambda m: m.predict(other), lambda m: m.evaluate(other, labels), lambda m: m.predict_on_batch(other)):
        for one in (model, loaded):
            one.input_ranges.warned_inputs.clear()
            notes = notes_of(lambda call=call, one=one: call(one))
            assert len(notes) == (message is not None)
            assert message is None or re.search(message, notes[0])
    assert notes_of(lambda: loaded.predict(x)) == []


def test_predictions_in_a_loop_warn_once():
    model = trained(PIXELS / 255)
    notes = notes_of(lambda: [model.predict(PIXELS[i : i + 4]) for i in range(8)])
    assert len(notes) == 1


def test_validation_data_in_another_range():
    model = model_from_text(TEXT.format("Flatten { }"))
    notes = notes_of(lambda: model.fit(PIXELS / 255, LABELS, validation_data=(PIXELS, LABELS), epochs=2, verbose=0))
    assert len(notes) == 1
    assert "the training data 0 to 1" in notes[0]


@pytest.mark.parametrize(
    ("new", "message"),
    [
        ([[1, 0.5, 2, 10000]], "10000 to 10000 in element 3, the training data 0 to 100"),
        ([[1, 0.5, 9000, 10000]], r"element 2, .*\(and 1 more elements\)"),
        ([[1, 0.5, 2, 50]], None),
        ([[0.01, 0.0, 0.0, 0.1]], None),  # one small sample is no other unit
        ([[-1, 0.9, 4, 110]] * 9, None),
    ],
)
def test_features_of_a_table_are_compared_one_by_one(new, message):
    table = measure_values(np.array([[0, 0, 0, 0], [1, 1, 5, 100.0]]))
    assert table == ValueRange("float64", (0.0,) * 4, (1.0, 1.0, 5.0, 100.0))
    difference = find_range_difference(table, measure_values(np.array(new)))
    assert (difference is None) == (message is None)
    assert message is None or re.search(message, difference)


def test_table_indices_and_flags_have_no_range():
    model = model_from_text("""
        input { name: "words"  shape: [5] }
        Embedding { input_dim: 1000  output_dim: 2 }
        Flatten { }
        Dense { units: 2 }
        compile { loss: sparse_categorical_crossentropy { from_logits: true } }""")
    words = RNG.integers(0, 1000, (32, 5))
    assert notes_of(lambda: model.fit(words, LABELS, verbose=0)) == []
    assert notes_of(lambda: model.predict(words // 500)) == []
    flat = pt.Sequential([pt.Input([4]), pt.layers.Dense(1)])
    flat.compile(loss="mse")
    assert notes_of(lambda: flat.fit(RNG.integers(0, 2, (32, 4)) > 0, RNG.random(32), verbose=0)) == []
    assert flat.input_ranges.training_ranges == {}


@pytest.mark.parametrize(
    "ranges",
    ['[]', '{"image": 1}', '{"image": {"dtype": "f", "low": [1], "high": []}}', "{",
     '{"image": {"dtype": "f", "low": [NaN], "high": [1]}}', '{"image": {"dtype": "f", "low": ["a"], "high": [1]}}',
     '{"image": {"dtype": "\\u001b[2J", "low": [1], "high": [1]}}'],
)  # fmt: skip
def test_forged_ranges_of_a_file_are_refused(tmp_path, ranges):
    trained(PIXELS / 255).save(tmp_path / "m.h5")
    contents = container.read(tmp_path / "m.h5")
    container.write(tmp_path / "m.h5", contents.arrays, {**contents.meta, "input_ranges": ranges})
    with pytest.raises(ModelFileError, match="input ranges"):
        pt.load_model(tmp_path / "m.h5")
