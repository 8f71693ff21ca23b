"""HDF5Data layers: the order of rows and files, shuffling, and files that do not fit."""

import h5py
import numpy as np
import pytest

from prototorch.caffe.data import hdf5_data, open_blob_source
from prototorch.caffe.text.message import Message
from prototorch.data.read_limits import ReadLimits
from prototorch.errors import DataError, ResourceError, UsageError


@pytest.fixture
def folder(tmp_path):
    """Files of 3 and 4 rows; the values of row i are 10 * i + column."""
    for name, rows in (("a.h5", range(3)), ("b.h5", range(3, 7))):
        write(tmp_path / name, rows)
    (tmp_path / "list.txt").write_text("a.h5\nb.h5\n")
    return tmp_path


def write(path, rows, **changes):
    rows = np.array(list(rows))
    arrays = {"data": 10.0 * rows[:, None] + np.arange(2), "label": rows.astype(np.int32)} | changes
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file[name] = array


def layer(**fields):
    param = Message("HDF5DataParameter", **({"source": "list.txt", "batch_size": 5} | fields))
    return Message("LayerParameter", name="in", type="HDF5Data", top=["data", "label"], hdf5_data_param=param)


def test_rows_go_on_over_files_and_wrap(folder):
    with open_blob_source(layer(), "TRAIN", folders=[folder]) as source:
        assert source.shapes == {"data": (5, 2), "label": (5,)}
        batches = [source.next_batch() for _ in range(4)]
    rows = np.concatenate([batch["label"] for batch in batches])
    np.testing.assert_array_equal(rows, np.arange(20) % 7)
    np.testing.assert_array_equal(batches[1]["data"], 10 * rows[5:10, None] + np.arange(2))
    assert {batch[top].dtype.name for batch in batches for top in batch} == {"float32"}


def test_a_batch_may_exceed_all_files(folder):
    with open_blob_source(layer(batch_size=17), "TEST", folders=[folder], dtype="float64") as source:
        batch = source.next_batch()
    np.testing.assert_array_equal(batch["label"], np.arange(17) % 7)
    assert batch["data"].dtype == np.float64


def test_shuffling_takes_every_row_once_a_pass_and_differs_between_passes(folder):
    labels = [np.concatenate([b["label"] for b in batches(folder, seed, 21)]) for seed in (1, 1, 2)]
    passes = labels[0].reshape(-1, 7)
    assert all(sorted(part) == list(range(7)) for part in passes)
    assert len({tuple(part) for part in passes}) > 10
    files = {tuple(np.sort(part[:3])) == (0, 1, 2) for part in passes}
    assert files == {True, False}  # the order of the files is drawn, too
    np.testing.assert_array_equal(labels[0], labels[1])
    assert (labels[0] != labels[2]).any()


def batches(folder, seed, count):
    with open_blob_source(layer(shuffle=True, batch_size=7), "TRAIN", folders=[folder], seed=seed) as source:
        return [source.next_batch() for _ in range(count)]


@pytest.mark.parametrize("shuffle", [False, True])
def test_seek_gives_the_batch_of_a_number(folder, shuffle):
    with open_blob_source(layer(shuffle=shuffle), "TRAIN", folders=[folder], seed=3) as source:
        expected = [source.next_batch()["label"] for _ in range(6)]
        for number in (4, 1, 5, 0):
            source.seek(number)
            assert source.position == number
            np.testing.assert_array_equal(source.next_batch()["label"], expected[number])


def test_the_working_directory_is_searched_first(folder, tmp_path_factory, monkeypatch):
    here = tmp_path_factory.mktemp("here")
    write(here / "a.h5", [9])
    monkeypatch.chdir(here)
    with open_blob_source(layer(batch_size=2), "TRAIN", folders=[folder]) as source:
        np.testing.assert_array_equal(source.next_batch()["label"], [9, 3])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label": None}, "b.h5: has no dataset 'label'.*it has data"),
        ({"label": np.arange(3)}, "same number of rows, but data has 4, label has 3"),
        ({"data": np.zeros((4, 3))}, r"a row of 'data' has the shape \[3\], but \[2\] in the file"),
        ({"data": np.zeros((4, 2), bool)}, "of type bool, expected numbers"),
        ({"data": np.zeros(())}, r"of shape \[\] has no rows"),
    ],
)
def test_a_file_that_does_not_fit(folder, change, message):
    write(folder / "b.h5", range(4), **{name: array for name, array in change.items() if array is not None})
    if any(array is None for array in change.values()):
        with h5py.File(folder / "b.h5", "a") as file:
            del file["label"]
    source = open_blob_source(layer(batch_size=4), "TRAIN", folders=[folder])
    with source, pytest.raises(DataError, match=message):
        source.next_batch()


def test_mistakes_when_it_is_opened(folder):
    with pytest.raises(DataError, match=r"layer 'in' \(HDF5Data\).*'lost.txt'.*list.txt"):
        open_blob_source(layer(source="lost.txt"), "TRAIN", folders=[folder])
    with pytest.raises(DataError, match="batch_size must be 1 or more"):
        open_blob_source(layer(batch_size=0), "TRAIN", folders=[folder])
    with pytest.raises(ResourceError, match="a batch"):
        open_blob_source(layer(batch_size=2**32 - 1), "TRAIN", folders=[folder])
    transformed = layer()
    transformed.mutable("transform_param")["scale"] = 0.5
    with pytest.raises(DataError, match="HDF5Data does not transform"):
        open_blob_source(transformed, "TRAIN", folders=[folder])
    (folder / "list.txt").write_text("a.h5 c.h5")
    with pytest.raises(DataError, match=r"list.txt, line 1: there is no such HDF5 file"):
        open_blob_source(layer(), "TRAIN", folders=[folder])
    (folder / "list.txt").write_text(" \n")
    with pytest.raises(DataError, match="names no file"):
        open_blob_source(layer(), "TRAIN", folders=[folder])


def test_limits_hold_for_the_files_of_a_list(folder, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    (folder / "a.h5").rename(other / "a.h5")
    (folder / "list.txt").write_text(f"b.h5 {other}/a.h5")
    limits = ReadLimits("net.prototxt", frozenset(), (str(folder),))
    with pytest.raises(UsageError, match="outside of"):
        open_blob_source(layer(), "TRAIN", folders=[folder], limits=limits)


def test_files_beyond_the_memory_for_them_are_read_again(folder, monkeypatch):
    reads = []
    original = hdf5_data.read_hdf5
    monkeypatch.setattr(hdf5_data, "read_hdf5", lambda path: reads.append(path.name) or original(path))
    with open_blob_source(layer(batch_size=7), "TRAIN", folders=[folder]) as source:
        source.prefetch = 0
        expected = [source.next_batch()["label"] for _ in range(2)]
    assert reads == ["a.h5", "b.h5"]
    monkeypatch.setattr(hdf5_data, "MAX_CACHED_BYTES", 1)
    with open_blob_source(layer(batch_size=7), "TRAIN", folders=[folder]) as source:
        source.prefetch = 0
        np.testing.assert_array_equal([source.next_batch()["label"] for _ in range(2)], expected)
    assert len(reads) > 5
