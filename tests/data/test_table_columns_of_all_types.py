"""Columns of texts, lists and images, weights, groups of columns, several targets, and scaled targets."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

import prototorch as pt
from prototorch.errors import DataError, DataWarning
from prototorch.model.load import model_from_text
from tests.data.typed_tables import column, encoded, fit, flat_model, write

# ---------------------------------------------------------------- lists


LISTS = [("tags", "y"), ("red|blue", 0), ("blue", 1), ("", 1), ("green|red|blue", 0)]


def test_a_list_of_categories_is_multi_hot(tmp_path):
    path = write(tmp_path / "t.csv", LISTS)
    model = fit(flat_model(), path, label="y", column=[column("tags", type="list", missing="indicator")])
    names = model.table_columns.encoding.columns[0].element_names()
    assert names == ["tags=blue", "tags=green", "tags=red", "tags missing"] or names[-1] == "tags=missing"
    assert encoded(model, path).tolist() == [[1, 0, 1, 0], [1, 0, 0, 0], [0, 0, 0, 1], [1, 1, 1, 0]]
    new = write(tmp_path / "new.csv", [("tags",), ("red|pink",), ("pink",)])
    assert encoded(model, new).tolist() == [[0, 0, 1, 0], [0, 0, 0, 0]]
    with pytest.warns(DataWarning, match=r"2 in 'tags' \(the first: line 2\)"):
        model.predict(new)


def test_rare_elements_of_lists_share_an_element(tmp_path):
    path = write(tmp_path / "t.csv", [*LISTS[:3], *LISTS[4:]])
    model = fit(flat_model(), path, label="y", column=[column("tags", type="list", min_count=2)])
    assert encoded(model, path).tolist() == [[1, 1, 0], [1, 0, 0], [1, 1, 1]]


@pytest.mark.parametrize("cells", [["1 2.5", "3 4", "5 -6"], ["[1, 2.5]", "[3, 4]", "[5,-6]"]])
def test_lists_of_numbers_have_one_length(tmp_path, cells):
    path = write(tmp_path / "t.csv", [("v", "y"), *((cell, i) for i, cell in enumerate(cells))])
    model = fit(flat_model(), path, label="y", column=[column("v", type="list")])
    values = np.array([[1, 2.5], [3, 4], [5, -6]])
    np.testing.assert_allclose(encoded(model, path), (values - values.mean(0)) / values.std(0), rtol=1e-6)
    new = write(tmp_path / "new.csv", [("v", "y"), ("[1, 2, 3]" if "," in cells[0] else "1 2 3", 0)])
    with pytest.raises(DataError, match=r"line 2, column 'v': has a list of 3 numbers, expected 2 as in the training"):
        model.predict(new)


def test_lists_of_numbers_of_several_lengths_are_refused_or_categories(tmp_path):
    path = write(tmp_path / "t.csv", [("v", "y"), ("1 2", 0), ("3", 1)])
    message = "line 3, column 'v': has a list of 1 numbers, expected 2 .* elements: category"
    with pytest.raises(DataError, match=message):
        fit(flat_model(), path, label="y", column=[column("v", type="list", elements="number")])
    model = fit(flat_model(), path, label="y", column=[column("v", type="list")])
    assert encoded(model, path).tolist() == [[1, 1, 0], [0, 0, 1]]


def test_lists_of_json_lines_and_parquet_are_lists_without_a_statement(tmp_path):
    rows = [{"v": [1.5, 2], "tags": ["a", "b"], "y": 0}, {"v": [3, 4], "tags": [], "y": 1}]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pa = pytest.importorskip("pyarrow")
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    pytest.importorskip("pyarrow.parquet").write_table(pa.table(columns), tmp_path / "t.parquet")
    models = [fit(flat_model(), tmp_path / name, label="y", scale="none") for name in ("t.jsonl", "t.parquet")]
    frame = pt.data.TypedTable(columns, "y", scale="none")
    models.append(flat_model())
    models[-1].fit(frame, verbose=0)
    for model, source in zip(models, ("t.jsonl", "t.parquet", "t.jsonl"), strict=True):
        assert encoded(model, tmp_path / source).tolist() == [[1.5, 2, 1, 1], [3, 4, 0, 0]]


@pytest.mark.parametrize(
    ("cell", "message"),
    [("[1, 2", "no JSON"), ("[[1]]", "got list in it"), ("[1, null]", "got NoneType in it")],
)
def test_cells_that_are_no_lists(tmp_path, cell, message):
    path = write(tmp_path / "t.csv", [("v", "y"), ("[1, 2]", 0), (cell, 1)])
    with pytest.raises(DataError, match=rf"line 3, column 'v': .*{message}"):
        fit(flat_model(), path, label="y", column=[column("v", type="list")])


# ---------------------------------------------------------------- texts


TEXTS = [("review", "n", "y"), ("A good, GOOD film", 1, 1), ("a bad film.", 2, 0), ("good cast", 3, 1), ("bad", 4, 0)]
MIXED = """
name: "mixed"
input { name: "review"  shape: [5]  dtype: int32 }
input { name: "row"  shape: [none] }
TextVectorization { name: "words"  bottom: "review" }
Embedding { input_dim: 20  output_dim: 4  mask_zero: true }
GlobalAveragePooling1D { name: "vector" }
Concatenate { bottom: ["vector", "row"] }
Dense { name: "out"  units: 2 }
compile { loss: sparse_categorical_crossentropy { from_logits: true }  optimizer: sgd }
"""


def test_a_text_for_an_input_of_numbers_has_an_element_for_each_word(tmp_path):
    path = write(tmp_path / "t.csv", TEXTS)
    statement = column("review", type="text", min_count=2)
    model = fit(flat_model(), path, label="y", features=["review"], column=[statement])
    assert model.table_columns.encoding.columns[0].categories == ("a", "bad", "film", "good")
    assert encoded(model, path).tolist() == [[1, 0, 1, 1], [1, 1, 1, 0], [0, 0, 0, 1], [0, 1, 0, 0]]


def test_a_text_for_an_input_with_a_tokenizer_becomes_its_ids(tmp_path):
    path = write(tmp_path / "t.csv", TEXTS)
    model = model_from_text(MIXED)
    fit(model, path, label="y", column=[column("review", type="text")], validation_split=0.5)
    training_rows = [r for r in TEXTS[1:] if r[0] in {"A good, GOOD film", "a bad film.", "good cast", "bad"}]
    vocabulary = model.get_layer("words").get_vocabulary()
    words = {word for row in training_rows for word in row[0].lower().replace(",", "").replace(".", "").split()}
    assert set(vocabulary) - {"", "[UNK]"} < words  # of the rows that train, not of all
    ids = encoded(model, path, "review")
    expected = model.get_layer("words").encode_batch([row[0] for row in TEXTS[1:]], 5)
    np.testing.assert_array_equal(ids, expected)
    model.save(tmp_path / "m.h5")
    predictions = model.predict(path)
    np.testing.assert_array_equal(pt.load_model(tmp_path / "m.h5").predict(path), predictions)
    frame = {name: [row[at] for row in TEXTS[1:]] for at, name in enumerate(TEXTS[0])}
    np.testing.assert_allclose(model.predict(pt.data.TypedTable(frame)), predictions, rtol=1e-6)


def test_a_text_needs_a_tokenizer_for_an_input_of_integers(tmp_path):
    text = MIXED.replace('TextVectorization { name: "words"  bottom: "review" }', "").replace(
        "Embedding {", 'Embedding { bottom: "review" '
    )
    path = write(tmp_path / "t.csv", TEXTS)
    statement = column("review", type="text", input="review")
    with pytest.raises(DataError, match=r"'review': the input 'review' of integers reads texts through a tokenizer"):
        fit(model_from_text(text), path, label="y", column=[statement])


# ---------------------------------------------------------------- images


PHOTOS = """
name: "photos"
input { name: "image"  shape: [3, 4, 6] }
input { name: "row"  shape: [none] }
Flatten { name: "pixels"  bottom: "image" }
Concatenate { bottom: ["pixels", "row"] }
Dense { name: "out"  units: 1 }
compile { loss: mse  optimizer: sgd { learning_rate: 1e-7 } }
"""


def photo_table(folder, paths=("photos/0.png", "photos/1.png", "photos/2.png")):
    (folder / "photos").mkdir(exist_ok=True)
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (3, 4, 6, 3), np.uint8)
    for number, image in enumerate(pixels):
        Image.fromarray(image).save(folder / "photos" / f"{number}.png")
    rows = [("photo", "n", "y"), *((path, i, i) for i, path in enumerate(paths))]
    return write(folder / "t.csv", rows), pixels.transpose(0, 3, 1, 2)


def test_a_column_of_images_is_read_from_files_beside_the_table(tmp_path):
    path, pixels = photo_table(tmp_path)
    model = model_from_text(PHOTOS)
    fit(model, path, label="y", column=[column("photo", type="image")])
    np.testing.assert_array_equal(encoded(model, path, "image"), pixels)
    predictions = model.predict(path)
    kernel, bias = (np.asarray(model.weights[f"out/{n}"]) for n in ("kernel", "bias"))
    x = np.concatenate([pixels.reshape(3, -1), encoded(model, path)], 1)
    np.testing.assert_allclose(predictions, x @ kernel + bias, rtol=1e-4, atol=1e-4)
    model.save(tmp_path / "m.h5")
    np.testing.assert_allclose(pt.load_model(tmp_path / "m.h5").predict(path), predictions, rtol=1e-6)


@pytest.mark.parametrize("escape", ["../secret.png", "/etc/passwd", "photos/link.png"])
def test_paths_of_images_stay_in_the_folder_of_the_table(tmp_path, escape):
    folder = tmp_path / "table"
    folder.mkdir()
    (tmp_path / "secret.png").write_bytes(b"")
    path, _ = photo_table(folder, ("photos/0.png", escape, "photos/2.png"))
    (folder / "photos" / "link.png").symlink_to(tmp_path / "secret.png")
    with pytest.raises(DataError, match=r"line 3, column 'photo': the path of an image leads out of"):
        fit(model_from_text(PHOTOS), path, label="y", column=[column("photo", type="image")])


def test_an_image_that_is_missing_is_named_by_its_row(tmp_path):
    path, _ = photo_table(tmp_path, ("photos/0.png", "photos/1.png", "photos/9.png"))
    with pytest.raises(DataError, match=r"line 4: .*9.png: cannot be opened"):
        fit(model_from_text(PHOTOS), path, label="y", column=[column("photo", type="image")])


def test_images_and_inputs_of_another_kind_do_not_go_together(tmp_path):
    path, _ = photo_table(tmp_path)
    with pytest.raises(DataError, match="column 'photo': its type is image, and the input 'row' is no image"):
        fit(model_from_text(PHOTOS), path, label="y", column=[column("photo", type="image", input="row")])
