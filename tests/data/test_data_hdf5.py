"""HDF5 files as sources: the reader that storage puts into the data room's table."""

import h5py
import numpy as np
import pytest

import prototorch.engine.storage.hdf5_source as datafiles
from prototorch.data import open_source
from prototorch.errors import DataError


def written(path, arrays, **kwargs):
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file.create_dataset(name, data=array, **kwargs)
    return path


def test_parts_and_targets_of_an_hdf5_file(tmp_path):
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    path = written(tmp_path / "d", {"train/x": x, "train/y": np.arange(4), "test/x": x[:2], "test/y": np.arange(2)})
    parts = open_source(path)
    assert set(parts) == {"train", "test"}
    np.testing.assert_array_equal(parts["train"].read(np.array([3, 0]))["x"], x[[3, 0]])
    assert parts["train"].targets == ("y",)


def test_compressed_and_empty(tmp_path):
    x = np.zeros((50, 3), np.uint8)
    assert len(open_source(written(tmp_path / "d", {"x": x}, compression="gzip"))["train"]) == 50
    with pytest.raises(DataError, match="has no arrays"):
        open_source(written(tmp_path / "e", {}))


def test_a_large_file_is_mapped(tmp_path, monkeypatch):
    x = np.arange(12.0).reshape(4, 3)
    monkeypatch.setattr(datafiles, "physical_memory", lambda: 4)
    data = open_source(written(tmp_path / "d", {"x": x}))["train"]
    np.testing.assert_array_equal(data.read(np.array([2, 1]))["x"], x[[2, 1]])
    data = open_source(written(tmp_path / "c", {"x": x}, compression="gzip"))["train"]
    np.testing.assert_array_equal(data.column_array("x"), x)


def test_a_link_to_another_file_and_a_truncated_file_are_refused(tmp_path):
    path = written(tmp_path / "d", {"y": np.zeros(3)})
    with h5py.File(path, "a") as file:
        file["x"] = h5py.ExternalLink("other.h5", "/x")
    with pytest.raises(DataError, match=r"/d: .*x"):
        open_source(path)
    path = written(tmp_path / "t", {"x": np.zeros(3000)})
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(DataError, match="/t: "):
        open_source(path)


def test_unequal_rows_and_text(tmp_path):
    with pytest.raises(DataError, match="x has 3, y has 2"):
        open_source(written(tmp_path / "d", {"x": np.zeros((3, 2)), "y": np.zeros(2)}))
    with pytest.raises(DataError, match="/s: "):
        open_source(written(tmp_path / "s", {"x": np.array([b"a", b"b"])}))
