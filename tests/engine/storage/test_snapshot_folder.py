"""Snapshot folders: names, order, marks, pruning, fall-back, and each file call failing."""

import errno
import json
import os

import numpy as np
import pytest

from prototorch.engine.storage import atomic_write, container, snapshot_folder
from prototorch.engine.storage.snapshot_folder import SnapshotFolder
from prototorch.errors import ModelFileError, SnapshotError, UsageError


def arrays(step):
    return {"w": np.full(50, step, "float32")}


def steps(folder):
    return [int(path.stem.rpartition("_step")[2]) for path in folder.paths()]


def saved(directory, upto, keep=3, **options):
    folder = SnapshotFolder(directory, keep, **options)
    for step in range(1, upto + 1):
        folder.save(step, arrays(step), {"step": step})
    return folder


def flip(path, place=-3):
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def test_the_newest_three_stay(tmp_path):
    (tmp_path / "run").mkdir()
    folder = saved(tmp_path / "run", 5)
    assert sorted(os.listdir(tmp_path / "run")) == [
        "latest.json",
        "snapshot_step000003.h5",
        "snapshot_step000004.h5",
        "snapshot_step000005.h5",
    ]
    listed = json.loads((tmp_path / "run" / "latest.json").read_text())
    assert listed["latest"] == "snapshot_step000005.h5"
    assert folder.newest_snapshot() == folder.path_of(5)
    found = folder.load(container.read)
    assert (found.path, found.contents.meta, found.errors) == (folder.path_of(5), {"step": 5}, ())


def test_an_empty_or_missing_folder(tmp_path):
    for folder in (SnapshotFolder(tmp_path), SnapshotFolder(tmp_path / "none")):
        assert folder.paths() == []
        assert folder.newest_snapshot() is None
        assert folder.best_snapshot() is None
        assert folder.load(container.read) is None
        folder.clear()


def test_best_and_pinned_are_never_pruned(tmp_path):
    folder = SnapshotFolder(tmp_path, keep=2)
    for step in range(1, 10):
        folder.save(step, arrays(step), best=step in (2, 5), pin=step == 3)
    assert steps(folder) == [3, 5, 8, 9]
    assert folder.best_snapshot() == folder.path_of(5)
    folder.pin(8)
    folder.pin(3, pin=False)
    folder.save(10, arrays(10))
    folder.save(11, arrays(11))
    assert steps(folder) == [5, 8, 10, 11]
    with pytest.raises(UsageError, match="no snapshot of step 3"):
        folder.pin(3)
    folder.clear()
    assert os.listdir(tmp_path) == []


def test_a_broken_one_is_passed_over(tmp_path):
    folder = saved(tmp_path, 4)
    flip(folder.path_of(4))
    folder.path_of(3).write_bytes(folder.path_of(3).read_bytes()[:-100])
    found = folder.load(container.read)
    assert found.path == folder.path_of(2) == folder.newest_snapshot()
    assert found.contents.meta == {"step": 2}
    assert "step000004" in str(found.errors[0])
    assert "sha256" in str(found.errors[0])
    assert "truncated" in str(found.errors[1])
    flip(folder.path_of(2))
    with pytest.raises(ModelFileError, match="none of 3 snapshots can be read"):
        folder.load(container.read)


def test_order_is_that_of_writing(tmp_path):
    """After going back to an earlier step, what is written then is the newest."""
    folder = saved(tmp_path, 5)
    folder.save(2, arrays(2))
    assert steps(folder) == [4, 5, 2]
    assert folder.newest_snapshot() == folder.path_of(2)
    folder.save(5, arrays(5))
    assert steps(folder) == [4, 2, 5]


@pytest.mark.parametrize(
    "content", [None, b"", b"[]", b"{", b"\xff", b"[" * 100_000, b'{"snapshots": 3, "best": 1, "pinned": 2}']
)
def test_a_lost_or_damaged_list(tmp_path, content):
    folder = saved(tmp_path, 4)
    (tmp_path / "latest.json").unlink()
    if content is not None:
        (tmp_path / "latest.json").write_bytes(content)
    assert steps(folder) == [2, 3, 4]
    assert folder.newest_snapshot() == folder.path_of(4)
    folder.save(5, arrays(5))
    assert steps(folder) == [3, 4, 5]


def test_the_list_names_no_file_elsewhere(tmp_path):
    (tmp_path / "a").mkdir()
    folder = saved(tmp_path / "a", 2)
    container.write(tmp_path / "outside_step000009.h5", arrays(9))
    names = ["../outside_step000009.h5", "snapshot_step000001.h5", 7, None]
    (tmp_path / "a" / "latest.json").write_text(json.dumps({"snapshots": names, "best": names[0], "pinned": names}))
    assert steps(folder) == [1, 2]
    assert folder.best_snapshot() is None
    folder.clear()
    assert (tmp_path / "outside_step000009.h5").exists()


def test_two_names_in_one_folder(tmp_path):
    one, other = saved(tmp_path, 3, keep=1), saved(tmp_path, 2, keep=2, name="other.net")
    assert steps(one) == [3]
    assert steps(other) == [1, 2]


def test_wrong_arguments(tmp_path):
    for options, words in (
        ({"keep": 0}, "keep must be at least 1, got 0"),
        ({"name": "../x"}, "name must consist of"),
        ({"name": ".x"}, "name must consist of"),
        ({"name": ""}, "name must consist of"),
    ):
        with pytest.raises(UsageError, match=words):
            SnapshotFolder(tmp_path, **options)


def test_prepare(tmp_path):
    folder = SnapshotFolder(tmp_path / "new", keep=2)
    folder.prepare(1000)
    assert os.path.isdir(tmp_path / "new")
    with pytest.raises(SnapshotError, match=r"not enough space for 3 checkpoints of 1,000,000,000,000,000 bytes"):
        folder.prepare(10**15)


def test_a_folder_that_is_a_file(tmp_path):
    (tmp_path / "f").write_bytes(b"")
    folder = SnapshotFolder(tmp_path / "f")
    with pytest.raises(SnapshotError, match="Not a directory"):
        folder.save(1, arrays(1))
    with pytest.raises(SnapshotError, match="cannot list its snapshots"):
        folder.paths()


def test_a_writer_that_writes_something_else(tmp_path):
    folder = saved(tmp_path, 3, keep=1)
    with pytest.raises(ModelFileError, match="expected a file of prototorch"):
        folder.add(4, lambda path: path.write_text("nothing"))
    assert folder.path_of(3).exists()


CALLS = ("open", "posix_fallocate", "write", "fsync", "close", "replace", "unlink")


class Faulty:
    """The module ``os``, with the call number ``at`` of the file calls failing."""

    def __init__(self, at, code):
        self.at, self.code, self.count = at, code, -1

    def __getattr__(self, name):
        real = getattr(os, name)
        if name not in CALLS:
            return real

        def call(*args):
            self.count += 1
            if self.count != self.at:
                return real(*args)
            if name == "close":
                real(*args)  # the descriptor is gone even when close reports an error
            raise OSError(self.code, os.strerror(self.code))

        return call


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS])
def test_every_call_of_a_snapshot_fails_in_turn(tmp_path, monkeypatch, code):
    """Whichever call fails: one SnapshotError, and the newest whole snapshot is the old one or the new one."""
    step, failures = 3, 0
    saved(tmp_path, step, keep=2)
    for at in range(100):
        folder, faulty = SnapshotFolder(tmp_path, keep=2), Faulty(at, code)
        with monkeypatch.context() as patch:
            patch.setattr(atomic_write, "os", faulty)
            try:
                folder.save(step + 1, arrays(step + 1), {"step": step + 1})
                error = None
            except SnapshotError as caught:
                error = str(caught)
        now = folder.load(container.read).contents.meta["step"]
        assert now in (step, step + 1)
        if error is None:
            assert now == step + 1
        else:
            assert str(tmp_path) in error
            assert "bytes needed" in error
            failures += 1
        assert 2 <= len(folder.paths()) <= 3
        step = now
        if faulty.count < at:
            break
    assert failures > 15


def test_a_snapshot_that_cannot_be_removed(tmp_path, monkeypatch):
    folder = saved(tmp_path, 3)

    def refuse(path, missing_ok=False):
        raise PermissionError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(snapshot_folder.Path, "unlink", refuse)
        with pytest.raises(SnapshotError, match=r"step000001.h5: cannot remove it: Permission denied"):
            folder.save(4, arrays(4))
    assert steps(folder) == [1, 2, 3, 4]
    folder.save(5, arrays(5))
    assert steps(folder) == [3, 4, 5]
