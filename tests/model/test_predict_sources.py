"""`Model.predict` of files, folders, images of Pillow and tables: the same as `prototorch predict` in the shell."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import prototorch as pt
from prototorch.errors import DataError, UsageError
from prototorch.model.load import model_from_text
from prototorch.model.prediction import predict_files

IMAGES = """
name: "net"
input { name: "image"  shape: [3, 8, 8] }
preprocess { Rescaling { scale: 0.01 } }
Flatten { }
Dense { name: "logits"  units: 3 }
"""
OPEN_SIZES = """
name: "open"
input { name: "image"  shape: [3, none, none] }
Conv2D { filters: 4  kernel_size: 3 }
GlobalAveragePooling2D { }
Dense { name: "logits"  units: 3 }
"""
TABLE = """
name: "table"
input { name: "row"  shape: [3] }
Dense { name: "price"  units: 1 }
compile { loss: mse }
fit { data { source: "houses.csv"  label: "price" } }
"""


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def make_image(path, size=(8, 8), seed=0):
    pixels = np.random.default_rng(seed).integers(0, 256, (*size, 3)).astype(np.uint8)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)
    return pixels.transpose(2, 0, 1)


@pytest.fixture
def model():
    return model_from_text(IMAGES)


def test_images_by_path_and_of_pillow(model):
    arrays = np.stack([make_image("cat.png", seed=1), make_image("dog.png", seed=2)])
    expected = model.predict(arrays)
    np.testing.assert_array_equal(model.predict("cat.png"), expected[:1])
    np.testing.assert_array_equal(model.predict(Path("cat.png")), expected[:1])
    np.testing.assert_array_equal(model.predict(["cat.png", Path("dog.png")]), expected)
    np.testing.assert_array_equal(model.predict(("dog.png", "cat.png")), expected[::-1])
    with Image.open("cat.png") as cat, Image.open("dog.png") as dog:
        np.testing.assert_array_equal(model.predict(cat), expected[:1])
        np.testing.assert_array_equal(model.predict([cat, dog]), expected)
    np.testing.assert_array_equal(predict_files(model, ["cat.png", "dog.png"]).outputs["logits"], expected)


def test_folders_of_images_flat_or_with_subfolders_in_the_order_of_their_paths(model):
    names = ("flat/b.png", "flat/a.png", "classes/x/1.png", "classes/y/0.png")
    images = {name: make_image(name, seed=i) for i, name in enumerate(names)}
    for folder in ("flat", "classes"):
        arrays = np.stack([images[name] for name in sorted(images) if name.startswith(folder)])
        found = predict_files(model, [folder])
        np.testing.assert_array_equal(model.predict(folder), model.predict(arrays))
        np.testing.assert_array_equal(found.outputs["logits"], model.predict(arrays))
        assert found.names == [name for name in sorted(images) if name.startswith(folder)]


def test_images_are_resized_to_the_input_and_keep_their_sizes_where_it_has_none(model):
    for i, size in enumerate([(8, 8), (12, 9), (12, 9), (8, 8)]):
        make_image(f"all/{i}.png", size, i)
    assert model.predict("all").shape == (4, 3)
    with Image.open("all/1.png") as image:
        resized = np.asarray(image.resize((8, 8), Image.Resampling.BILINEAR)).transpose(2, 0, 1)
    np.testing.assert_array_equal(model.predict("all")[1:2], model.predict(resized[None]))
    any_size = model_from_text(OPEN_SIZES)
    outputs = any_size.predict("all", batch_size=3)
    each = [any_size.predict(f"all/{i}.png") for i in range(4)]
    np.testing.assert_allclose(outputs, np.concatenate(each), rtol=1e-5, atol=1e-6)


def test_many_images_are_several_batches(model):
    arrays = np.stack([make_image(f"many/{i:03}.png", seed=i) for i in range(37)])
    np.testing.assert_array_equal(model.predict("many", batch_size=2), model.predict(arrays, batch_size=2))


def test_an_image_that_cannot_be_read_is_an_error_in_python_and_reported_in_the_shell(model):
    make_image("all/a.png")
    Path("all/b.png").write_bytes(b"\x89PNG\r\n\x1a\nno")
    make_image("all/c.png", seed=2)
    for what in ("all", ["all/a.png", "all/b.png"]):
        with pytest.raises(DataError, match=r"all/b\.png: "):
            model.predict(what)
    found = predict_files(model, ["all"])
    assert found.names == ["all/a.png", "all/c.png"]
    assert len(found.read_errors) == 1
    assert found.outputs["logits"].shape == (2, 3)


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".h5"])
def test_files_of_arrays(model, suffix):
    from prototorch.engine.storage.array_writer import write_arrays

    x = np.random.default_rng(0).integers(0, 256, (5, 3, 8, 8)).astype(np.uint8)
    arrays = {"image": x} if suffix == ".npy" else {"image": x, "y": np.arange(5), "label": np.arange(5)}
    write_arrays(f"set{suffix}", arrays)
    expected = model.predict(x)
    np.testing.assert_array_equal(model.predict(f"set{suffix}"), expected)
    found = predict_files(model, [f"set{suffix}"])
    np.testing.assert_array_equal(found.outputs["logits"], expected)
    assert sorted(found.targets) == ([] if suffix == ".npy" else ["label", "y"])


ROWS = np.array([[1, 2, 3], [4, 5, 6]], np.float32)


@pytest.fixture
def houses(here):
    (here / "houses.csv").write_text("area,price,rooms,age\n1,10,2,3\n4,20,5,6\n7,30,8,9.5\n")
    model = model_from_text(TABLE)
    model.fit(verbose=0)
    model.save("table.h5")
    return pt.load_model("table.h5")


@pytest.mark.parametrize(
    "text",
    [
        "area,price,rooms,age\n1,10,2,3\n4,20,5,6\n",
        "age;rooms;area\n3;2;1\n6;5;4\n",
        "name,age,rooms,area\n77,3,2,1\n78,6,5,4\n",
    ],
)
def test_a_table_is_read_by_the_names_of_its_columns(houses, text):
    Path("new.csv").write_text(text)
    np.testing.assert_array_equal(houses.predict("new.csv"), houses.predict(ROWS))
    np.testing.assert_array_equal(predict_files(houses, ["new.csv"]).outputs["price"], houses.predict(ROWS))
    np.testing.assert_array_equal(houses.submodel("price").predict("new.csv"), houses.predict(ROWS))


def test_a_table_without_a_column_of_the_model_is_refused(houses):
    Path("new.csv").write_text("area,rooms\n1,2\n")
    with pytest.raises(DataError, match="has no column 'age'"):
        houses.predict("new.csv")


def test_named_sets_and_lists_of_images_are_predicted_as_they_are():
    mini = model_from_text('name: "n" input { name: "image" shape: [1, 28, 28] } Flatten { } Dense { units: 2 }')
    assert mini.predict("fashion-mnist-mini").shape == (6000, 2)
    assert predict_files(mini, ["fashion-mnist-mini"]).targets["label"].shape == (6000,)
    arrays = np.stack([make_image("a.png", seed=1), make_image("b.png", seed=2)])
    Path("list.txt").write_text("b.png 1\na.png 0\n")
    model = model_from_text(IMAGES)
    np.testing.assert_array_equal(model.predict("list.txt"), model.predict(arrays[::-1]))
    np.testing.assert_array_equal(predict_files(model, ["list.txt"]).outputs["logits"], model.predict(arrays[::-1]))


MISTAKES = [
    (["a.png", "x.npy"], UsageError, "predict takes images and folders of images, or one array file or table"),
    (["x.npy", "x.npy"], UsageError, "one array file or table, not both"),
    (["a.png", "fashion-mnist-mini"], UsageError, "fashion-mnist-mini: a data set is predicted alone"),
    ("a.pgn", DataError, r"a\.pgn: there is no such file or folder.*Did you mean 'a\.png'"),
    ("empty", DataError, "empty: holds no images"),
    ("note.md", DataError, "note.md"),
]


@pytest.mark.parametrize(("what", "error", "words"), MISTAKES, ids=str)
def test_mistakes(model, what, error, words):
    make_image("a.png")
    np.save("x.npy", np.zeros((1, 3, 8, 8), np.uint8))
    Path("empty").mkdir()
    Path("note.md").write_text("no table\n")
    with pytest.raises(error, match=words):
        model.predict(what)
    with pytest.raises(error, match=words):
        predict_files(model, [what] if isinstance(what, str) else what)


def test_an_image_for_a_model_that_reads_none(houses):
    make_image("a.png")
    with pytest.raises(DataError, match=r"a\.png: the model's input is not an image but row \[3\]; give a \.npy"):
        houses.predict("a.png")
    with Image.open("a.png") as image, pytest.raises(DataError, match="an image: the model's input is not an image"):
        houses.predict(image)


def test_texts_by_file_and_as_they_are():
    model = model_from_text("""
        name: "texts"
        input { name: "review"  shape: [4]  dtype: int32 }
        preprocess { TextVectorization { vocabulary: ["good", "bad", "film"] } }
        Embedding { input_dim: 8  output_dim: 4 }
        Flatten { }
        Dense { name: "score"  units: 1 }
    """)
    texts = ["a good film", "a bad film"]
    expected = model.predict(texts)
    Path("reviews.txt").write_text("\n".join(texts) + "\n")
    np.testing.assert_array_equal(model.predict("reviews.txt"), expected)
    np.testing.assert_array_equal(model.predict([Path("reviews.txt")]), expected)
    np.testing.assert_array_equal(model.predict("a good film"), expected[:1])
    np.testing.assert_array_equal(predict_files(model, texts).outputs["score"], expected)
