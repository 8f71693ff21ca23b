"""The names of saved files, what killed processes leave beside them, and the list of snapshots."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import prototorch as pt
from prototorch.engine.storage import container, snapshot_folder
from prototorch.engine.storage.atomic_write import remove_orphans
from prototorch.engine.storage.process_identity import ProcessIdentity
from prototorch.engine.storage.snapshot_folder import SnapshotFolder
from prototorch.errors import SnapshotError, TextError, UsageError
from prototorch.model.load import model_from_text

TEXT = 'input { name: "x"  shape: [2] }\nDense { units: 1 }\ncompile { loss: mse }\n'
ENDINGS = [
    ".keras", ".pt", ".pth", ".onnx", ".safetensors", ".caffemodel", ".prototxt", ".npz", ".tflite", ".ckpt", ".pkl",
    ".proto", ".KERAS",
]  # fmt: skip


@pytest.fixture
def model():
    one = model_from_text(TEXT)
    one.build()
    return one


@pytest.mark.parametrize("ending", ENDINGS)
def test_endings_of_other_formats_are_refused(tmp_path, monkeypatch, model, ending):
    monkeypatch.chdir(tmp_path)
    for save in (model.save, model.save_weights):
        with pytest.raises(UsageError, match=rf"'model{ending}': a model is saved as HDF5, .* take 'model\.h5'"):
            save(f"model{ending}")
        with pytest.raises(UsageError, match="HDF5"):
            save(tmp_path / f"model{ending}")
    with pytest.raises(UsageError, match="a model is saved as HDF5"):
        pt.callbacks.ModelCheckpoint(f"best-{{epoch}}{ending}")
    with pytest.raises(TextError, match=r"<text>:4:.*a model is saved as HDF5"):
        model_from_text(f'{TEXT}fit {{ callbacks: ModelCheckpoint {{ filepath: "best{ending}" }} }}')
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["model.h5", "model.hdf5", "model", "model.weights.h5", "v1.2", "a.caffemodel.h5"])
def test_other_names_are_fine(tmp_path, model, name):
    model.save(tmp_path / name)
    assert pt.load_model(tmp_path / name).weights.keys() == model.weights.keys()
    assert os.listdir(tmp_path) == [name]


def dead_process() -> ProcessIdentity:
    done = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    return ProcessIdentity(int(done.stdout), ProcessIdentity.current().namespace, "00000000")


def temporary(name: str, writer: ProcessIdentity) -> str:
    return f".{name}.tmp-{writer.pid}-{writer.namespace}{writer.start}0123abcd"


def test_the_next_save_removes_what_a_killed_one_left(tmp_path, monkeypatch, model):
    dead, living = dead_process(), ProcessIdentity.current()
    kept = [".model.h5.tmp", "model.h5.tmp-1-2", temporary("a.h5", living), "data.csv"]
    for name in [*kept, temporary("model.h5", dead), temporary("other.h5", dead)]:
        (tmp_path / name).write_bytes(b"half")
    (tmp_path / temporary("link.h5", dead)).symlink_to(tmp_path / "data.csv")
    (tmp_path / temporary("folder.h5", dead)).mkdir()
    model.save(tmp_path / "model.h5")
    left = {*kept, "model.h5", temporary("link.h5", dead), temporary("folder.h5", dead)}
    assert set(os.listdir(tmp_path)) == left
    monkeypatch.chdir(tmp_path)
    Path(temporary("model.h5", dead)).write_bytes(b"half")
    model.save("model.h5")
    assert set(os.listdir()) == left


def test_files_of_other_users_and_young_ones_of_other_hosts_stay(tmp_path, monkeypatch):
    elsewhere = ProcessIdentity(1, "ffffffff", "00000000")
    young, old = tmp_path / temporary("a", elsewhere), tmp_path / temporary("b", elsewhere)
    for path in (young, old):
        path.write_bytes(b"")
    os.utime(old, (time.time() - 30 * 86400,) * 2)
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert remove_orphans(tmp_path) == []
    monkeypatch.undo()
    assert remove_orphans(tmp_path) == [old]


def arrays(step: int) -> dict[str, np.ndarray]:
    return {"a": np.full(3, step, np.float32)}


def listed(folder: Path) -> list[str]:
    return json.loads((folder / "latest.json").read_text())["snapshots"]


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.h5"))


def test_the_list_names_what_is_there(tmp_path):
    snapshots = SnapshotFolder(tmp_path, keep=2)
    for step in range(1, 7):
        snapshots.save(step, arrays(step), best=step == 2, pin=step == 3)
        assert sorted(listed(tmp_path)) == files(tmp_path)
    assert len(files(tmp_path)) == 4


def test_after_a_crash_while_old_ones_are_removed_they_are_the_oldest(tmp_path, monkeypatch):
    snapshots = SnapshotFolder(tmp_path, keep=2)
    for step in (7, 8):
        snapshots.save(step, arrays(step))

    def crash(path):
        raise SnapshotError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(snapshot_folder, "_remove_file", crash)
        with pytest.raises(SnapshotError, match="killed"):
            snapshots.save(3, arrays(3))  # a new training began at a lower step
    assert listed(tmp_path) == ["snapshot_step000008.h5", "snapshot_step000003.h5"]
    assert len(files(tmp_path)) == 3
    again = SnapshotFolder(tmp_path, keep=2)
    assert [path.name for path in again.paths()] == [f"snapshot_step00000{step}.h5" for step in (7, 8, 3)]
    assert again.newest_snapshot() == again.path_of(3)
    again.save(4, arrays(4))
    assert listed(tmp_path) == ["snapshot_step000003.h5", "snapshot_step000004.h5"]
    assert files(tmp_path) == sorted(listed(tmp_path))


def test_a_step_that_was_removed_may_come_again(tmp_path):
    snapshots = SnapshotFolder(tmp_path, keep=1)
    for step in (1, 2):
        snapshots.save(step, arrays(step))

    def write(path):
        container.write(path, arrays(1))
        raise SnapshotError("killed")  # before the list is written

    with pytest.raises(SnapshotError, match="killed"):
        snapshots.add(1, write)
    assert snapshots.newest_snapshot() == snapshots.path_of(1)
