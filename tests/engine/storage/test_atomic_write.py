"""Durable writing: every file call fails in turn, the process dies at every call, and the disk is too small."""

import errno
import os
import signal
import subprocess
import sys

import pytest

from prototorch.engine.storage import atomic_write
from prototorch.engine.storage.atomic_write import check_writable, remove_orphans, write_bytes
from prototorch.engine.storage.process_identity import ProcessIdentity
from prototorch.errors import SnapshotError

CALLS = ("open", "posix_fallocate", "write", "fsync", "close", "replace")
OLD, NEW = b"old" * 1000, b"new" * 2000


class Faulty:
    """The module ``os``, with the n-th of the file calls going wrong."""

    def __init__(self, at, fault):
        self.at, self.fault, self.count, self.failed = at, fault, 0, None

    def __getattr__(self, name):
        real = getattr(os, name)
        if name not in CALLS:
            return real

        def call(*args):
            self.count += 1
            if self.count - 1 != self.at:
                return real(*args)
            self.failed = name
            if self.fault == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.fault == "short":
                return real(args[0], args[1][:7]) if name == "write" else real(*args)
            if self.fault == "nothing":
                return 0 if name == "write" else real(*args)
            if name == "close":
                real(*args)  # the descriptor is gone even when close reports an error
            raise OSError(self.fault, os.strerror(self.fault), str(args[0]))

        return call


def calls_of_one_save(tmp_path):
    counter = Faulty(-1, None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(atomic_write, "os", counter)
        write_bytes(tmp_path / "count", [NEW[:100], NEW[100:]])
    return counter.count


def test_the_calls_are_counted(tmp_path):
    # open, fallocate, two writes, fsync, close, replace, then open, fsync, close of the folder
    assert calls_of_one_save(tmp_path) == 10


@pytest.mark.parametrize("fault", [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EINTR, "short", "nothing"])
@pytest.mark.parametrize("at", range(10))
def test_each_call_fails_in_turn(tmp_path, monkeypatch, at, fault):
    path = tmp_path / "weights.h5"
    write_bytes(path, OLD)
    faulty = Faulty(at, fault)
    with monkeypatch.context() as patch:
        patch.setattr(atomic_write, "os", faulty)
        try:
            write_bytes(path, [NEW[:100], NEW[100:]])
            failed = None
        except SnapshotError as error:
            failed = str(error)
    name = faulty.failed
    if fault in (errno.EINTR, "short", "nothing") or (name == "close" and at == 9):
        assert failed is None
        assert path.read_bytes() == NEW
        assert os.listdir(tmp_path) == ["weights.h5"]
        return
    assert failed is not None
    assert str(path) in failed
    assert "6,000 bytes needed" in failed
    assert errno.errorcode[fault] in failed
    assert path.read_bytes() == (NEW if at > 6 else OLD)  # call 6 is the rename
    assert ("the old content is intact" in failed) == (at <= 6)
    assert os.listdir(tmp_path) == ["weights.h5"]


@pytest.mark.parametrize("code", [errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS])
@pytest.mark.parametrize("at", [1, 8])
def test_a_file_system_that_cannot_reserve_or_sync_folders(tmp_path, monkeypatch, at, code):
    monkeypatch.setattr(atomic_write, "os", Faulty(at, code))
    write_bytes(tmp_path / "f", [NEW[:100], NEW[100:]])
    assert (tmp_path / "f").read_bytes() == NEW


@pytest.mark.parametrize("at", range(10))
def test_the_process_is_killed_at_each_call(tmp_path, at):
    path = tmp_path / "weights.h5"
    write_bytes(path, OLD)
    child = os.fork()
    if child == 0:
        atomic_write.os = Faulty(at, "die")
        try:
            write_bytes(path, [NEW[:100], NEW[100:]])
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    assert path.read_bytes() == (NEW if at > 6 else OLD)
    orphans = remove_orphans(tmp_path)
    assert len(orphans) == (1 if 1 <= at <= 6 else 0)
    assert os.listdir(tmp_path) == ["weights.h5"]


def test_what_is_read_back_is_compared(tmp_path, monkeypatch):
    path = tmp_path / "f"
    write_bytes(path, OLD)
    real = atomic_write._write_all
    for damage, words in ((b"", "read back"), (NEW + b"x", "longer"), (b"nEw" + NEW[3:], "read back")):
        monkeypatch.setattr(atomic_write, "_write_all", lambda fd, view, damage=damage: real(fd, memoryview(damage)))
        with pytest.raises(SnapshotError, match=words):
            write_bytes(path, NEW)
        assert path.read_bytes() == OLD
    assert os.listdir(tmp_path) == ["f"]


def test_an_interrupt_leaves_nothing_behind(tmp_path, monkeypatch):
    def interrupted(path):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_bytes(tmp_path / "f", NEW, verify=interrupted)
    assert os.listdir(tmp_path) == []


def test_only_regular_files_are_replaced(tmp_path):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    for name in ("folder", "fifo"):
        with pytest.raises(SnapshotError, match=name):
            write_bytes(tmp_path / name, NEW)
    with pytest.raises(SnapshotError, match="No such file"):
        write_bytes(tmp_path / "missing" / "f", NEW)
    assert sorted(os.listdir(tmp_path)) == ["fifo", "folder"]


def test_empty_and_many_pieces(tmp_path):
    write_bytes(tmp_path / "empty", b"")
    assert (tmp_path / "empty").read_bytes() == b""
    write_bytes(tmp_path / "many", [b"", b"a", bytearray(b"bc"), memoryview(b"def")])
    assert (tmp_path / "many").read_bytes() == b"abcdef"


def test_large_writes_go_in_steps(tmp_path, monkeypatch):
    monkeypatch.setattr(atomic_write, "_MAX_WRITE_BYTES", 1000)
    write_bytes(tmp_path / "f", NEW)
    assert (tmp_path / "f").read_bytes() == NEW


@pytest.mark.slow
def test_more_than_two_gigabytes(tmp_path):
    block = bytes(range(256)) * 4096
    write_bytes(tmp_path / "big", [memoryview(bytearray((1 << 31) + 4097)), block])
    assert (tmp_path / "big").stat().st_size == (1 << 31) + 4097 + len(block)
    with open(tmp_path / "big", "rb") as file:
        file.seek((1 << 31) + 4097)
        assert file.read() == block


def test_a_limit_on_file_size_is_an_error_not_a_signal(tmp_path):
    """In a child with RLIMIT_FSIZE: the probe refuses, and a write fails with the old file intact."""
    code = f"""
import resource
from prototorch.errors import SnapshotError
from prototorch.engine.storage.atomic_write import check_writable, write_bytes
path = {str(tmp_path / "f")!r}
write_bytes(path, b"old")
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
for attempt in (lambda: check_writable({str(tmp_path)!r}, 200_000), lambda: write_bytes(path, bytes(200_000))):
    try:
        attempt()
    except SnapshotError as error:
        print(error)
assert open(path, "rb").read() == b"old"
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert "a checkpoint needs 200,000 bytes, but the limit on a file's size is 100,000" in first
    assert "200,000 bytes needed" in second
    assert "File too large" in second
    assert os.listdir(tmp_path) == ["f"]


def test_probe(tmp_path, monkeypatch):
    check_writable(tmp_path / "new" / "run", 1000, 4)
    assert os.listdir(tmp_path / "new" / "run") == []
    with pytest.raises(SnapshotError, match="not enough space for 4 checkpoints of 1,000,000,000,000,000,000 bytes"):
        check_writable(tmp_path, 10**18, 4)
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(SnapshotError, match="cannot be written here"):
        check_writable(tmp_path / "file", 10)


def test_sweep_leaves_the_living_alone(tmp_path):
    me = ProcessIdentity.current()
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    names = {
        f".a.tmp-{me.pid}-{me.namespace}{me.start}00000000": "stays",  # mine
        f".a.tmp-{me.pid}-{me.namespace}1234567800000000": "goes",  # an earlier life of my number
        f".a.tmp-{child}-{me.namespace}{me.start}00000000": "goes",  # dead
        f".a.tmp-{child}-00000000{me.start}00000000": "stays",  # another host
        f".b.tmp-{child}-00000000{me.start}00000000": "goes",  # another host, long ago
        f".a.tmp-{child}": "stays",  # not ours
        f"a.tmp-{child}-{me.namespace}{me.start}00000000": "stays",
        ".a.tmp-0-" + me.namespace + "0" * 16: "goes",
    }
    for name in names:
        (tmp_path / name).write_bytes(b"")
    os.utime(tmp_path / f".b.tmp-{child}-00000000{me.start}00000000", (0, 0))
    gone = {path.name for path in remove_orphans(tmp_path)}
    assert gone == {name for name, fate in names.items() if fate == "goes"}
    assert set(os.listdir(tmp_path)) == set(names) - gone
    assert remove_orphans(tmp_path / "missing") == []
