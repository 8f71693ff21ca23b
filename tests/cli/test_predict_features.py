"""`prototorch predict`: outputs of layers as features, files that `fit` reads back, tables."""

import json

import numpy as np
import pytest
from PIL import Image

import prototorch as pt
from prototorch.cli import main
from prototorch.data.table_columns import TableColumns
from prototorch.engine.storage.array_writer import write_arrays
from prototorch.model.load import model_from_text

TEXT = """
name: "net"
input { name: "image"  shape: [3, 8, 8] }
preprocess { Rescaling { scale: 0.01 } }
Conv2D { name: "stem/conv"  filters: 4  kernel_size: 3 }
GlobalAveragePooling2D { name: "pool" }
Dense { name: "logits"  units: 3 }
compile { loss: sparse_categorical_crossentropy { from_logits: true } }
"""


@pytest.fixture
def shell(capfd):
    """Run a command: (exit code, standard output, standard error)."""

    def run(*args):
        with pytest.raises(SystemExit) as done:
            main(list(args))
        out, err = capfd.readouterr()
        return int(done.value.code or 0), out, err

    return run


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """A saved model and a folder of images by class."""
    monkeypatch.chdir(tmp_path)
    model_from_text(TEXT).save("net.h5")
    rng = np.random.default_rng(0)
    for folder in (
        "photos/cats",
        "photos/dogs",
        "parts/train/cats",
        "parts/train/dogs",
        "parts/test/cats",
        "parts/test/dogs",
    ):
        (tmp_path / folder).mkdir(parents=True)
        for i in range(3 + ("dogs" in folder)):
            Image.fromarray(rng.integers(0, 255, (8, 8, 3), np.uint8)).save(tmp_path / folder / f"{i}.png")
    return tmp_path


def images(folder):
    return np.stack([np.asarray(Image.open(p)).transpose(2, 0, 1) for p in sorted(folder.rglob("*.png"))])


@pytest.mark.parametrize("suffix", [".h5", ".hdf5", ".npz", ".npy"])
def test_features_are_written_and_read_back_as_data(shell, photos, suffix):
    code, out, err = shell("predict", "net.h5", "photos", "--output", "pool", "--to", f"features{suffix}")
    assert (code, out) == (0, "")
    assert f"7 predictions in features{suffix}: pool [7, 4]" in err
    part = pt.load_model("net.h5").submodel("pool")
    expected = part.predict(images(photos / "photos"))
    data = pt.Data(source=f"features{suffix}").open()
    made = data.read(np.arange(7))
    np.testing.assert_allclose(made["x" if suffix == ".npy" else "pool"], expected, rtol=1e-5, atol=1e-6)
    if suffix == ".npy":
        return
    assert made["y"].tolist() == [0, 0, 0, 1, 1, 1, 1]
    assert 'the labels are the numbers of these: data { classes: ["cats", "dogs"] }' in err
    head = pt.Sequential([pt.Input((4,)), pt.layers.Dense(2, name="head")])
    head.compile("adam", pt.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    history = head.fit(f"features{suffix}", epochs=2, verbose=0)
    assert len(history.history["accuracy"]) == 2


def test_splits_of_a_folder_become_splits_of_the_file(shell, photos):
    code, _, err = shell("predict", "net.h5", "parts", "--output", "pool", "--output", "stem", "--to", "f.npz")
    assert code == 0, err
    splits = pt.Data(source="f.npz").open_splits()
    assert {name: len(data) for name, data in splits.items()} == {"test": 7, "train": 7}
    expected = pt.load_model("net.h5").submodel("pool").predict(images(photos / "parts/train"))
    made = splits["train"].read(np.arange(7))
    np.testing.assert_allclose(made["pool"], expected, rtol=1e-5, atol=1e-6)
    assert made["y"].tolist() == [0, 0, 0, 1, 1, 1, 1]
    assert made["stem/conv"].shape == (7, 4, 6, 6)


def test_features_are_printed_as_values_not_as_classes(shell, photos):
    code, out, _ = shell("predict", "net.h5", "photos/cats/0.png", "--output", "pool")
    assert code == 0
    assert out.startswith("photos/cats/0.png: [")
    code, out, _ = shell("predict", "net.h5", "photos/cats/0.png", "--output", "logits", "--json")
    assert len(json.loads(out)[0]["classes"]["logits"]) == 3


def test_the_old_form_of_output_still_writes_and_says_the_new_one(shell, photos):
    code, _, err = shell("predict", "net.h5", "photos", "--output", "scores.npy")
    assert code == 0
    assert "note: --output names a layer; a file is written by --to scores.npy" in err
    np.testing.assert_allclose(
        np.load("scores.npy"), pt.load_model("net.h5").predict(images(photos / "photos")), rtol=1e-5, atol=1e-6
    )


def test_labels_of_array_files_are_kept(shell, photos):
    x, y = images(photos / "photos").astype("f"), np.array([1, 2, 0, 1, 2, 0, 1])
    np.savez("set.npz", x=x, y=y)
    for name in ("set.npz", "again.h5"):
        assert shell("predict", "net.h5", name, "--output", "pool", "--to", "out.npz")[0] == 0
        with np.load("out.npz") as made:
            assert made["y"].tolist() == y.tolist()
        write_arrays("again.h5", {"image": x, "label": y, "y": y})


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (("--output", "pol"), 2, "'pol' matches no layer. Did you mean 'pool'?"),
        (("--to", "features.txt"), 2, "must end in .h5, .hdf5, .npz, .npy, .csv or .jsonl"),
        (("--output", "pool", "--output", "stem", "--to", "f.npy"), 2, "several outputs go into a .npz or .h5 file"),
        (("--to", "nowhere/f.h5"), 5, "nowhere"),
    ],
)
def test_mistakes(shell, photos, args, code, message):
    found, _, err = shell("predict", "net.h5", "photos", *args)
    assert found == code
    assert message in err


TABLE = """
name: "table"
input { name: "row"  shape: [3] }
Dense { name: "hidden"  units: 4 }
Dense { name: "price"  units: 1 }
compile { loss: mse }
fit { data { source: "houses.csv"  label: "price" } }
"""


@pytest.fixture
def houses(tmp_path, monkeypatch):
    """A model that was trained on a table."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "houses.csv").write_text("area,price,rooms,age\n1,10,2,3\n4,20,5,6\n7,30,8,9.5\n")
    model = model_from_text(TABLE)
    model.fit(verbose=0)
    model.save("table.h5")
    return pt.load_model("table.h5")


ROWS = np.array([[1, 2, 3], [4, 5, 6]], np.float32)


@pytest.mark.parametrize(
    "text",
    [
        "area,price,rooms,age\n1,10,2,3\n4,20,5,6\n",
        "age;rooms;area\n3;2;1\n6;5;4\n",
        "name,age,rooms,area\n77,3,2,1\n78,6,5,4\n",
    ],
)
def test_a_table_is_predicted_by_the_names_of_its_columns(shell, houses, tmp_path, text):
    (tmp_path / "new.csv").write_text(text)
    code, _, err = shell("predict", "table.h5", "new.csv", "--to", "out.npz")
    assert code == 0, err
    with np.load("out.npz") as made:
        np.testing.assert_allclose(made["price"], houses.predict(ROWS), rtol=1e-5)


@pytest.mark.parametrize("text", ["1,2,3\n4,5,6\n", "1,2,3,99\n4,5,6,98\n"])
def test_a_table_without_known_names_is_predicted_by_the_number_of_its_columns(shell, houses, tmp_path, text):
    houses.fit_block, houses.table_columns = None, TableColumns()
    houses.save("plain.h5")
    (tmp_path / "new.csv").write_text(text)
    code, out, err = shell("predict", "plain.h5", "new.csv", "--output", "hidden", "--json")
    assert code == 0, err
    made = np.array([row["outputs"]["hidden"] for row in json.loads(out)])
    np.testing.assert_allclose(made, houses.submodel("hidden").predict(ROWS), rtol=1e-5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("area,rooms\n1,2\n", "has no column 'age'"),
        ("area,rooms,age\n1,2,old\n", "line 2, column 'age': expected a number"),
        ("area,rooms,age\n", "has no rows"),
    ],
)
def test_a_table_that_does_not_fit_is_an_error(shell, houses, tmp_path, text, message):
    (tmp_path / "new.csv").write_text(text)
    code, _, err = shell("predict", "table.h5", "new.csv")
    assert code == 4
    assert message in err


def test_a_table_of_another_width_is_an_error(shell, houses, tmp_path):
    houses.fit_block, houses.table_columns = None, TableColumns()
    houses.save("plain.h5")
    (tmp_path / "new.csv").write_text("1,2\n3,4\n")
    code, _, err = shell("predict", "plain.h5", "new.csv")
    assert code == 4
    assert "[2]" in err
    assert "[3]" in err
