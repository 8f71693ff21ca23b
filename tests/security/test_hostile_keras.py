"""Hostile and broken files of Keras and NNabla: each is refused with one sentence, quickly, and nothing is run."""

import json
import sys
import time
import tracemalloc

import h5py
import numpy as np
import pytest

from prototorch.engine.storage import foreign_hdf5
from prototorch.errors import ModelFileError
from prototorch.model.loading.read.read_file import read_weights
from tests.engine.storage.forked_reader import ForkedReader
from tests.security import hostile_keras

SECONDS, PEAK = 10, 500 << 20
FORBIDDEN = ("exec", "compile", "subprocess.", "socket.", "ctypes.", "pickle.", "marshal.", "os.system", "os.exec",
             "os.spawn", "urllib.", "shutil.", "webbrowser.")  # fmt: skip
WATCH = {"folder": None, "events": []}


def watch(event, arguments):
    """Note what no file may cause; a hook cannot be removed, so it is there once and mostly off."""
    folder = WATCH["folder"]
    if folder is None:
        return
    if (
        event == "open"
        and isinstance(arguments[0], str)
        and not arguments[0].startswith((folder, "/proc/self", "/dev/null"))
    ):
        WATCH["events"].append(f"open {arguments[0]}")
    elif event.startswith(FORBIDDEN):
        WATCH["events"].append(event)


sys.addaudithook(watch)


def _good(folder):
    (folder / "good.keras").write_bytes(hostile_keras.good_archive())
    return folder / "good.keras"


@pytest.fixture
def watched(tmp_path, monkeypatch):
    """Everything outside the folder is forbidden while a file is read; temporary files lie in it, too."""
    monkeypatch.setattr(foreign_hdf5, "_start_process", ForkedReader)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    read_weights(_good(tmp_path)).values()  # everything that is needed is imported now
    (tmp_path / "good.keras").unlink()
    with h5py.File(tmp_path / "empty.h5", "w"):
        pass
    with pytest.raises(ModelFileError):
        read_weights(tmp_path / "empty.h5")  # all that may read such a file is asked
    (tmp_path / "empty.h5").unlink()

    def read(path):
        for array in read_weights(path).values():
            array.sum()

    def run(path):
        WATCH.update(folder=str(tmp_path), events=[])
        tracemalloc.start()
        start = time.process_time()
        try:
            return read(path)
        finally:
            WATCH["folder"] = None
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert WATCH["events"] == []
            assert time.process_time() - start < SECONDS
            assert peak < PEAK

    return run


@pytest.mark.parametrize("ending", hostile_keras.FORMATS)
def test_hostile_files_are_refused(tmp_path, watched, ending):
    path = tmp_path / f"file{ending}"
    accepted = []
    makers = hostile_keras.makers(ending)
    assert len(makers) >= 30
    for name, make in makers.items():
        path.unlink(missing_ok=True)
        make(path)
        try:
            watched(path)
        except ModelFileError as error:
            message = str(error)
            assert str(path) in message, name
            assert len(message) < 700 + len(str(path)), name
            assert "\n" not in message, name
        except Exception as error:
            raise AssertionError(f"{name}: {error!r}") from error
        else:
            accepted.append(name)
        assert [child.name for child in tmp_path.iterdir()] == [path.name], name
    assert accepted == []


@pytest.mark.parametrize("name", hostile_keras.CODE_CONFIGS)
def test_configs_that_name_code_are_data(tmp_path, watched, name):
    """Arrays are read, and nothing that a config names is imported, run, opened or written."""
    layer = hostile_keras.CODE_CONFIGS[name]
    dense = hostile_keras.CONFIG["config"]["layers"][0]
    layer = {
        **layer,
        "config": layer["config"] if isinstance(layer["config"], str) else {"name": "evil", **layer["config"]},
    }
    config = {"class_name": "Sequential", "config": {"name": "s", "layers": [dense, layer]}, "compile_config": layer}
    archive = tmp_path / "net.keras"
    archive.write_bytes(hostile_keras.good_archive(config))
    watched(archive)
    with h5py.File(tmp_path / "net.h5", "w") as file:
        hostile_keras.good_model(file, json.dumps(config))
        file.attrs["training_config"] = json.dumps(layer)
    watched(tmp_path / "net.h5")
    assert sorted(child.name for child in tmp_path.iterdir()) == ["net.h5", "net.keras"]


def test_good_files_are_read(tmp_path, watched):
    for ending, base in ((".h5", hostile_keras.good_model), (".weights.h5", hostile_keras.good_weights)):
        with h5py.File(tmp_path / f"net{ending}", "w") as file:
            base(file)
        assert sorted(read_weights(tmp_path / f"net{ending}")) == ["dense/bias", "dense/kernel"]
    for compression in (0, 8):
        (tmp_path / "net.keras").write_bytes(hostile_keras.good_archive(compression=compression))
        np.testing.assert_array_equal(read_weights(tmp_path / "net.keras")["dense/kernel"], np.ones((3, 2), "f4"))
    (tmp_path / "net.nnp").write_bytes(hostile_keras.nnp(hostile_keras.parameter(b"conv/W")))
    np.testing.assert_array_equal(read_weights(tmp_path / "net.nnp")["conv/W"], np.arange(6.0).reshape(2, 3))
