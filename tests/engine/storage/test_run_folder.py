"""Run folders: one trainer at a time, with a name for the first; the log and the result."""

import errno
import fcntl
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from prototorch.engine.storage import container, run_lock
from prototorch.engine.storage.process_identity import ProcessIdentity
from prototorch.engine.storage.run_folder import RunFolder
from prototorch.engine.storage.run_lock import RunLock
from prototorch.errors import FileError

REFUSALS = [errno.EAGAIN, errno.ENOLCK, 524, errno.ENOSYS]


def holder(folder):
    return json.loads((folder / ".lock.json").read_text())


def no_locks(monkeypatch, code):
    def refuse(fd, how):
        raise OSError(code, "no locks here")

    monkeypatch.setattr(fcntl, "flock", refuse)


def ready_child(folder):
    """A process that holds the folder and waits."""
    code = f"""
import sys
from prototorch.engine.storage.run_lock import RunLock
RunLock({str(folder)!r}).acquire()
print("ready", flush=True)
sys.stdin.read()
"""
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "ready\n"
    return child


def end(child, how=signal.SIGKILL):
    child.send_signal(how)
    child.wait()
    child.stdin.close()
    child.stdout.close()


def test_the_second_is_refused_and_told_who_is_first(tmp_path):
    child = ready_child(tmp_path)
    try:
        with pytest.raises(FileError, match=rf"in use by process {child.pid} on \S+, since 20\d\d-.* UTC"):
            RunLock(tmp_path).acquire()
        with pytest.raises(FileError, match=f"process {child.pid}"):
            RunLock(tmp_path).acquire()
        assert holder(tmp_path)["pid"] == child.pid  # unharmed
    finally:
        end(child)
    with RunLock(tmp_path):  # stale after kill -9: taken over
        assert holder(tmp_path)["pid"] == os.getpid()
    assert os.listdir(tmp_path) == [".lock"]


def test_the_same_process_is_refused_too(tmp_path):
    with RunLock(tmp_path / "run") as first:
        assert first.acquire() is first
        with pytest.raises(FileError, match=f"process {os.getpid()}"):
            RunLock(tmp_path / "run").acquire()
    with RunLock(tmp_path / "run"), RunLock(tmp_path / "other"):
        pass


@pytest.mark.parametrize("code", REFUSALS)
def test_without_working_locks(tmp_path, monkeypatch, code):
    no_locks(monkeypatch, code)
    if code == errno.EAGAIN:  # indistinguishable from a lock that is held, unless a dead holder is named
        monkeypatch.setattr(run_lock, "_MAX_ATTEMPTS", 1)
        with pytest.raises(FileError, match="another process is using this run folder"):
            RunLock(tmp_path).acquire()
    else:
        with RunLock(tmp_path):
            with pytest.raises(FileError, match=f"in use by process {os.getpid()}"):
                RunLock(tmp_path).acquire()
            assert holder(tmp_path)["pid"] == os.getpid()
        assert os.listdir(tmp_path) == [".lock"]


@pytest.mark.parametrize("code", REFUSALS)
@pytest.mark.parametrize("content", ["dead", "reused"])
def test_a_stale_holder_without_working_locks(tmp_path, monkeypatch, code, content):
    me = ProcessIdentity.current()
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    stale = {"dead": (pid, me.start), "reused": (me.pid, "12345678")}[content]
    tell = {
        "pid": stale[0],
        "host": "h",
        "started": "s",
        "place": me.namespace,
        "start": stale[1],
        "locked": False,
        "mark": "m",
    }
    (tmp_path / ".lock.json").write_text(json.dumps(tell))
    no_locks(monkeypatch, code)
    with RunLock(tmp_path):
        assert holder(tmp_path)["pid"] == me.pid
    assert os.listdir(tmp_path) == [".lock"]


@pytest.mark.parametrize("locked", [False, True])
def test_a_holder_on_another_host(tmp_path, monkeypatch, locked):
    """With a lock in hand it is known to be gone if it held one; otherwise only a person can know."""
    tell = {
        "pid": 1,
        "host": "far",
        "started": "long ago",
        "place": "00000000",
        "start": "1",
        "locked": locked,
        "mark": "m",
    }
    (tmp_path / ".lock.json").write_text(json.dumps(tell))
    if not locked:
        with pytest.raises(
            FileError, match=r"process 1 on far, since long ago; if that process has ended, remove .*\.lock\.json"
        ):
            RunLock(tmp_path).acquire()
        assert holder(tmp_path) == tell
    else:
        with monkeypatch.context() as patch:
            no_locks(patch, errno.ENOLCK)
            with pytest.raises(FileError, match="process 1 on far"):
                RunLock(tmp_path).acquire()
        with RunLock(tmp_path):
            assert holder(tmp_path)["pid"] == os.getpid()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"pid": "x"}', "[" * 5000])
@pytest.mark.parametrize("code", [None, errno.ENOLCK])
def test_a_damaged_holder_file(tmp_path, monkeypatch, content, code):
    (tmp_path / ".lock.json").write_text(content)
    if code:
        no_locks(monkeypatch, code)
    with RunLock(tmp_path):
        assert holder(tmp_path)["pid"] == os.getpid()


def test_a_forked_process_does_not_release(tmp_path):
    held = RunLock(tmp_path).acquire()
    pid = os.fork()
    if pid == 0:
        held.release()
        os._exit(0)
    os.waitpid(pid, 0)
    assert holder(tmp_path)["pid"] == os.getpid()
    with pytest.raises(FileError):
        RunLock(tmp_path).acquire()
    held.release()
    held.release()


def test_a_folder_that_cannot_be_one(tmp_path):
    (tmp_path / "f").write_bytes(b"")
    with pytest.raises(FileError, match="cannot be used as a run folder"):
        RunLock(tmp_path / "f").acquire()


def test_many_at_once(tmp_path):
    """Of twenty processes that want the folder at the same moment, exactly one gets it."""
    start, done = os.pipe(), os.pipe()
    children = []
    for _ in range(20):
        pid = os.fork()
        if pid == 0:
            status = 2
            try:
                os.close(start[1])
                os.read(start[0], 1)
                try:
                    RunLock(tmp_path).acquire()
                    status = 0
                except FileError:
                    status = 1
                os.write(done[1], bytes([status]))
                os.close(done[1])
                while status == 0 and os.getppid() and os.read(start[0], 1):
                    pass
                signal.pause()
            finally:
                os._exit(status)
        children.append(pid)
    os.close(start[0])
    os.close(start[1])
    try:
        results = b""
        while len(results) < 20:
            results += os.read(done[0], 20)
        assert sorted(results) == [0] + [1] * 19
    finally:
        for pid in children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        os.close(done[0])
        os.close(done[1])


class Model:
    def __init__(self, number):
        self.number = number

    def save(self, path):
        container.write(path, {"w": np.full(3, self.number)})


def test_a_run(tmp_path):
    path = tmp_path / "runs" / "net"
    with RunFolder(path, keep=2) as folder:
        folder.prepare(10_000)
        assert folder.newest_snapshot() is None
        for step in range(1, 5):
            folder.append_log({"epoch": step, "loss": 0.5})
            folder.save_snapshot(Model(step), step)
        with pytest.raises(FileError, match="in use by process"), RunFolder(path):
            pass
        newest = folder.newest_snapshot()
        assert container.read(newest).arrays["w"][0] == 4
        assert folder.save_result(Model(9), {"loss": [1.5, 0.5]}) == path / "model.h5"
    lines = [json.loads(line) for line in (path / "log.jsonl").read_text().splitlines()]
    assert lines[0] == {"epoch": 1, "loss": 0.5}
    assert len(lines) == 4
    assert json.loads((path / "history.json").read_text()) == {"loss": [1.5, 0.5]}
    me = ProcessIdentity.current()
    orphan = path / f".snapshot_step000009.h5.tmp-{me.pid}-{me.namespace}1234567800000000"
    orphan.write_bytes(b"")
    with RunFolder(path) as folder:
        assert not orphan.exists()
        assert folder.newest_snapshot() == newest
        assert folder.start_run() is None  # that training had ended
        assert folder.newest_snapshot() is None
        assert not folder.log_path.exists()


def test_a_training_that_had_not_ended_is_put_aside_when_another_one_begins(tmp_path):
    path = tmp_path / "net"
    for number in (1, 2):
        with RunFolder(path) as folder:
            assert folder.start_run() == (None if number == 1 else path / "before")
            assert folder.newest_snapshot() is None
            folder.append_log({"epoch": number})
            folder.save_snapshot(Model(number), 7)
    with RunFolder(path) as folder, RunFolder(path / "before") as before:
        assert container.read(before.newest_snapshot()).arrays["w"][0] == 1
        assert json.loads(before.log_path.read_text()) == {"epoch": 1}
        with pytest.raises(FileError, match="before: this run folder is in use"):
            folder.start_run()
        assert container.read(folder.newest_snapshot()).arrays["w"][0] == 2
    with RunFolder(path) as folder:
        folder.start_run()
        with RunFolder(path / "before") as before:
            assert container.read(before.newest_snapshot()).arrays["w"][0] == 2
            assert len(before.snapshots.paths()) == 1


def test_a_training_whose_snapshots_are_all_damaged_does_not_stop_another_one(tmp_path):
    with RunFolder(tmp_path) as folder:
        folder.save_snapshot(Model(1), 1).write_bytes(b"nothing")
        assert folder.start_run() == tmp_path / "before"
        assert folder.newest_snapshot() is None
