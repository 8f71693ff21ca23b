"""Sources: told apart by content; the embedded set; named sets; arrays in memory; the data block."""

import gzip
import hashlib
import re
from pathlib import Path

import numpy as np
import pytest

import prototorch.data.builtin_datasets as named
from prototorch.data import (
    DATASET_NAMES,
    Data,
    SiamesePairs,
    SourceOptions,
    as_dataset,
    open_source,
    register_array_format,
)
from prototorch.data import sources as sources_module
from prototorch.data.array_conversion import datasets_from_arrays
from prototorch.data.idx import encode_idx
from prototorch.errors import DataError, UsageError

FILES = Path(named.__file__).parent / "files"


# ---------------------------------------------------------------- the embedded set


def test_the_embedded_set_is_what_its_page_says():
    parts = open_source("fashion-mnist-mini")
    for part, count in (("train", 6000), ("test", 1000)):
        data = parts[part]
        assert len(data) == count
        assert str(data.columns["image"]) == "uint8[1, 28, 28]"
        assert np.bincount(data.column_array("label")).tolist() == [count // 10] * 10
        assert data.classes["label"][9] == "Ankle boot"
    assert parts["train"].column_array("label")[:10].tolist() == [
        9,
        0,
        0,
        3,
        0,
        2,
        7,
        2,
        5,
        5,
    ]  # as the original begins
    size = sum(path.stat().st_size for path in FILES.iterdir())
    assert size < 4_000_000


def test_the_page_beside_the_embedded_set_gives_its_checksums_and_licence():
    page = (FILES / "README.md").read_text()
    for path in FILES.glob("*.gz"):
        assert f"| {path.name} | `{hashlib.sha256(path.read_bytes()).hexdigest()}`" in page
    assert "MIT License" in page
    assert "Zalando" in page


def test_a_damaged_embedded_file_is_refused(tmp_path, monkeypatch):
    for path in FILES.glob("*.gz"):
        data = bytearray(path.read_bytes())
        if "t10k-labels" in path.name:
            data[4] ^= 1
        (tmp_path / path.name).write_bytes(data)
    monkeypatch.setattr(named, "FILES", tmp_path)
    with pytest.raises(DataError, match=r"t10k-labels.*checksum is wrong"):
        open_source("fashion-mnist-mini")


# ---------------------------------------------------------------- named sets and IDX folders


def idx_set(folder, train=6, test=3, suffix="", size=28, prefix="", labels=None):
    folder.mkdir(parents=True, exist_ok=True)
    for word, count in (("train", train), ("t10k", test)):
        images = np.arange(count * size * size).reshape(count, size, size).astype(np.uint8)
        marks = np.arange(count if labels is None else labels).astype(np.uint8)
        for kind, array in (("images-idx3", images), ("labels-idx1", marks)):
            data = encode_idx(array)
            path = folder / f"{prefix}{word}-{kind}-ubyte{suffix}"
            path.write_bytes(gzip.compress(data, mtime=0) if suffix == ".gz" else data)
    return folder


@pytest.fixture
def nowhere(monkeypatch, tmp_path):
    monkeypatch.delenv("PROTOTORCH_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "no-cache"))
    true = named.search_folders
    monkeypatch.setattr(named, "search_folders", lambda *a: [p for p in true(*a) if "/usr/share" not in str(p)])


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
def test_a_named_set_that_is_not_there_says_what_and_where(name, nowhere, tmp_path):
    with pytest.raises(DataError) as caught:
        open_source(name, SourceOptions(folder=str(tmp_path / "mine")))
    text = str(caught.value)
    assert "train-images-idx3-ubyte[.gz], train-labels-idx1-ubyte[.gz], t10k-images-idx3-ubyte[.gz]" in text
    assert str(tmp_path / "mine" / name) in text
    assert str(tmp_path / "no-cache" / "prototorch" / name) in text
    assert "PROTOTORCH_DATA" in text
    assert ("dataset-fashion-mnist" in text) == (name == "fashion-mnist")


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("how", ["folder", "above", "environment", "cache"])
def test_a_named_set_is_found(nowhere, tmp_path, monkeypatch, how, suffix):
    options = SourceOptions()
    if how == "folder":
        options = SourceOptions(folder=str(idx_set(tmp_path / "x", suffix=suffix)))
    elif how == "above":
        idx_set(tmp_path / "y" / "mnist", suffix=suffix)
        options = SourceOptions(folder=str(tmp_path / "y"))
    elif how == "environment":
        idx_set(tmp_path / "y" / "mnist", suffix=suffix)
        monkeypatch.setenv("PROTOTORCH_DATA", f"{tmp_path}/none:{tmp_path}/y")
    else:
        idx_set(tmp_path / "no-cache" / "prototorch" / "mnist", suffix=suffix)
    parts = open_source("mnist", options)
    assert (len(parts["train"]), len(parts["test"])) == (6, 3)
    assert parts["train"].classes["label"] == tuple("0123456789")
    assert parts["train"].columns["image"].shape == (1, 28, 28)


def test_debians_place_is_searched():
    assert Path("/usr/share/datasets/fashion-mnist") in named.search_folders("fashion-mnist")


def test_a_named_set_of_another_size_is_refused(nowhere, tmp_path):
    with pytest.raises(DataError, match="expected 28 x 28 images"):
        open_source("mnist", SourceOptions(folder=str(idx_set(tmp_path / "x", size=8))))


def test_a_folder_of_idx_files_and_one_file_of_them(tmp_path):
    folder = idx_set(tmp_path / "x", size=5, prefix="emnist-letters-")
    parts = open_source(folder)
    assert parts["test"].columns["image"].shape == (1, 5, 5)
    assert parts["test"].origin(2).endswith("t10k-images-idx3-ubyte, row 2")
    one = open_source(folder / "emnist-letters-t10k-images-idx3-ubyte")
    assert one["train"].column_array("label").tolist() == [0, 1, 2]
    alone = open_source(folder / "emnist-letters-train-labels-idx1-ubyte")["train"]
    assert alone.inputs == ("x",)


def test_idx_folders_that_do_not_fit_together(tmp_path):
    with pytest.raises(DataError, match="image has 3, label has 4"):
        open_source(idx_set(tmp_path / "x", labels=4))
    idx_set(tmp_path / "y", prefix="a-")
    with pytest.raises(DataError, match="contains several sets"):
        open_source(idx_set(tmp_path / "y", prefix="b-"))
    folder = idx_set(tmp_path / "z")
    (folder / "train-labels-idx1-ubyte").unlink()
    with pytest.raises(DataError, match=r"its label file train-labels-idx1-ubyte\[.gz\] is not in the same folder"):
        open_source(folder)
    (folder / "train-labels-idx1-ubyte").write_bytes(encode_idx(np.zeros((6, 2), np.uint8)))
    with pytest.raises(DataError, match="expected one integer per image"):
        open_source(folder)


# ---------------------------------------------------------------- told apart by content


def test_content_decides_not_the_ending(tmp_path):
    path = tmp_path / "wrong.jpg"
    (tmp_path / "x.npz").symlink_to(path)
    np.savez(tmp_path / "x.npz", x=np.zeros((4, 2)), y=np.arange(4))
    assert open_source(path)["train"].targets == ("y",)
    (tmp_path / "x.npy").symlink_to(path)
    np.save(tmp_path / "x.npy", np.zeros((4, 2)))
    assert open_source(path)["train"].inputs == ("x",)
    path.write_text("1,2,0\n3,4,1\n")
    assert open_source(path)["train"].columns["x"].shape == (2,)
    path.write_bytes(gzip.compress(encode_idx(np.zeros((4, 2), np.float32)), mtime=0))
    assert len(open_source(path)["train"]) == 4


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is an empty file"),
        (b"\x7fELF\0\0\0\0", "unknown format; supported are IDX, npz, npy"),
        (gzip.compress(b"\0hello", mtime=0), "unknown format"),
        (b"\x1f\x8b????????", "damaged gzip"),
    ],
)
def test_files_of_no_known_kind(tmp_path, data, words):
    (tmp_path / "f").write_bytes(data)
    with pytest.raises(DataError, match=words):
        open_source(tmp_path / "f")


def test_a_name_that_is_nearly_right(tmp_path, monkeypatch):
    with pytest.raises(DataError, match="Did you mean 'fashion-mnist-mini'"):
        open_source("fashion-mnist-mni")
    monkeypatch.chdir(tmp_path)
    Path("photos").mkdir()
    with pytest.raises(DataError, match="Did you mean 'photos'"):
        open_source("photo")
    with pytest.raises(DataError, match="no such file or folder"):
        open_source("/nowhere/at/all")


def test_other_rooms_add_kinds_of_array_files(tmp_path, monkeypatch):
    monkeypatch.setattr(sources_module, "_ARRAY_FORMATS", list(sources_module._ARRAY_FORMATS))
    register_array_format(
        "boxes", lambda head: head.startswith(b"BOX\0"), lambda path: {"x": np.ones((3, 1)), "y": np.ones(3)}
    )
    (tmp_path / "f").write_bytes(b"BOX\0")
    assert len(open_source(tmp_path / "f")["train"]) == 3


# ---------------------------------------------------------------- named arrays


def test_named_arrays_and_their_parts(tmp_path):
    path = tmp_path / "x.npz"
    np.savez(
        path,
        x_train=np.zeros((5, 2)),
        y_train=np.arange(5),
        x_test=np.zeros((2, 2)),
        y_test=np.arange(2),
        sample_weight_train=np.ones(5),
    )
    parts = open_source(path, SourceOptions(classes=list("abcde")))
    assert set(parts) == {"train", "test"}
    assert parts["train"].weight == "sample_weight"
    assert parts["train"].inputs == ("x",)
    assert parts["test"].classes == {"y": tuple("abcde")}
    grouped = datasets_from_arrays(
        {"train/a": np.zeros((3, 2)), "train/b": np.zeros(3), "val/a": np.ones((1, 2))}, "f", ["b"][:0]
    )
    assert set(grouped) == {"train", "validation"}
    assert grouped["train"].inputs == ("a", "b")


def test_named_arrays_choose_what_is_learned():
    arrays = {"left": np.zeros((3, 2)), "right": np.zeros((3, 2)), "score": np.zeros(3)}
    data = datasets_from_arrays(arrays, "f", ["score"])["train"]
    assert (data.inputs, data.targets) == (("left", "right"), ("score",))
    with pytest.raises(DataError, match="has no array 'scores' to use as a target; it has left, right, score"):
        datasets_from_arrays(arrays, "f", ["scores"])
    with pytest.raises(DataError, match="left has 3, right has 2"):
        datasets_from_arrays({"left": np.zeros(3), "right": np.zeros(2)}, "f")
    with pytest.raises(DataError, match="has no arrays"):
        datasets_from_arrays({}, "f")
    same = datasets_from_arrays({"y": np.zeros((3, 2))}, "f")["train"]
    assert (same.inputs, same.targets) == (("y",), ("y",))


# ---------------------------------------------------------------- arrays in memory


def test_arrays_as_fit_takes_them():
    x, y, w = np.zeros((4, 3), np.float32), np.arange(4), np.ones(4)
    data = as_dataset(x, y, w, inputs=["image"], outputs=["logits"])
    assert list(data.columns) == ["image", "logits", "sample_weight"]
    assert data.column_array("image") is x
    assert as_dataset([x], y).inputs == ("x",)
    assert as_dataset([[1.0, 2], [3, 4]]).columns["x"].shape == (2,)
    two = as_dataset([x, x], {"b": y, "a": y}, inputs=["l", "r"], outputs=["a", "b"])
    assert (two.inputs, two.targets) == (("l", "r"), ("a", "b"))
    assert as_dataset({"l": x, "r": x}, inputs=["l", "r"]).targets == ()
    assert as_dataset(x, x, inputs=["a"], outputs=["a"]).targets == ("a_target",)
    assert as_dataset(np.asarray(x, order="F"), y).read(np.array([1]))["x"].flags.c_contiguous


@pytest.mark.parametrize(
    ("x", "y", "weight", "words"),
    [
        (np.zeros((4, 3)), np.zeros(5), None, "x has 4, y has 5"),
        (np.array(["a", "b"]), None, None, "x holds text, not numbers; its first value .row 0. is .*'a'"),
        (np.array([{}, 2], object), None, None, "x holds Python objects, not numbers"),
        (np.zeros(3, complex), None, None, "complex numbers"),
        (np.array(["2020-01-01"], "M8[D]"), None, None, "dates"),
        (3.0, None, None, "got the scalar 3.0"),
        ([[1, 2], [3]], None, None, "x cannot be converted to an array"),
        ([np.zeros(3), np.zeros(3)], None, None, "2 arrays are given for the one input 'x'"),
        ({"z": np.zeros(3)}, None, None, "given for 'z'; the model's inputs are 'x'"),
        (np.zeros(3), {"q": np.zeros(3)}, None, "given for 'q'; the model's outputs are 'y'"),
        (np.zeros(3), np.zeros(3), np.zeros((3, 2)), "one number per sample"),
        (np.zeros(3), np.zeros(3), np.zeros(2), "sample_weight has 2"),
        (np.zeros(3, np.longdouble), None, None, "convert it to float64"),
    ],
)
def test_arrays_that_do_not_fit(x, y, weight, words):
    with pytest.raises(DataError, match=words):
        as_dataset(x, y, weight)


def test_the_wrong_number_of_arrays():
    with pytest.raises(DataError, match=r"3 arrays for 2 inputs \('a', 'b'\)"):
        as_dataset([np.zeros(2)] * 3, inputs=["a", "b"])
    with pytest.raises(DataError, match="1 array for 2 inputs"):
        as_dataset(np.zeros(2), inputs=["a", "b"])
    with pytest.raises(DataError, match="the model's inputs are 'a', 'b'"):
        as_dataset({"a": np.zeros(2)}, inputs=["a", "b"])


# ---------------------------------------------------------------- pairs


def test_pairs():
    whole = open_source("fashion-mnist-mini")["test"]
    pairs = SiamesePairs(whole)
    assert len(pairs) == 1000
    got = pairs.read(np.arange(1000))
    labels = whole.column_array("label")
    assert 0.4 < got["same"].mean() < 0.6
    np.testing.assert_array_equal(labels == labels[pairs._partner], got["same"] == 1)
    np.testing.assert_array_equal(got["left"], whole.read(np.arange(1000))["image"])
    np.testing.assert_array_equal(SiamesePairs(whole)._partner, pairs._partner)
    assert "row 3 with " in pairs.origin(3)
    with pytest.raises(DataError, match="pairs need one input and one label"):
        SiamesePairs(as_dataset(np.zeros((3, 2))))
    with pytest.raises(DataError, match="pairs of different classes"):
        SiamesePairs(as_dataset(np.zeros((3, 2)), np.zeros(3, int)))


# ---------------------------------------------------------------- the block


def test_the_data_block():
    data = Data("fashion-mnist-mini", limit=100)
    train, test = data.open_train_and_validation((1, 28, 28))
    assert (len(train), len(test)) == (100, 100)
    assert data.replace(part="test").open_train_and_validation()[1] is None
    assert len(data.replace(part="test", limit=None).open()) == 1000
    with pytest.raises(DataError, match="has no part 'validation'; it has train, test"):
        data.replace(part="validation").open()
    assert data.replace(pairs=True).open().inputs == ("left", "right")
    own = data.replace(label="image").open()
    assert own.targets == ("image",)
    with pytest.raises(DataError, match=r"has no column 'imgae'.*Did you mean 'image'"):
        data.replace(label="imgae").open()
    assert data.loader_options() == {
        "shuffle": True, "drop_last": False, "on_error": "fail", "skip_limit": 0.05, "threads": None, "prefetch": 2,
        "timeout": 120.0, "buckets": (),
    }  # fmt: skip


@pytest.mark.parametrize(
    "kwargs",
    [
        {"limit": 0},
        {"on_error": "ignore"},
        {"skip_limit": 1.5},
        {"threads": -1},
        {"size": 0},
        {"sauce": "x"},
        {"part": "all"},
    ],
)
def test_the_data_block_refuses(kwargs):
    with pytest.raises(UsageError, match=re.escape(next(iter(kwargs)))):
        Data("fashion-mnist-mini", **kwargs)


def test_all_names_are_told():
    assert DATASET_NAMES == ("fashion-mnist-mini", "fashion-mnist", "mnist")
