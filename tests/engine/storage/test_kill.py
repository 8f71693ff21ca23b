"""kill -9 at a random moment inside a save: the old content or the new one loads, nothing else is ever there."""

import os
import random
import signal
import time

import numpy as np
import pytest

from prototorch.engine.storage import atomic_write, container
from prototorch.engine.storage.snapshot_folder import SnapshotFolder

SIZE = 1 << 20  # numbers: 8 MB


def endless_saves(path):
    """In a child: save version 1, 2, 3, ... over one another, for ever."""
    arrays = {"w": np.empty(SIZE), "b": np.empty(7)}
    version = container.read(path).meta["version"]
    while True:
        version += 1
        for array in arrays.values():
            array[:] = version
        container.write(path, arrays, {"version": version})


def killed_in(job, *args, delay):
    pid = os.fork()
    if pid == 0:
        try:
            job(*args)
        finally:
            os._exit(1)
    time.sleep(delay)
    os.kill(pid, signal.SIGKILL)
    assert os.waitpid(pid, 0)[1] == signal.SIGKILL


@pytest.mark.parametrize("count", [40, pytest.param(1000, marks=pytest.mark.slow)])
def test_saving_over_one_file(tmp_path, count):
    path = tmp_path / "w.h5"
    container.write(path, {"w": np.zeros(SIZE), "b": np.zeros(7)}, {"version": 0})
    dice = random.Random(count)
    orphans = moved = 0
    before = 0
    for _ in range(count):
        killed_in(endless_saves, path, delay=dice.uniform(0.005, 0.15))
        orphans += len(atomic_write.remove_orphans(tmp_path))
        found = container.read(path)
        version = found.meta["version"]
        assert version >= before
        assert (found.arrays["w"] == version).all()
        assert (found.arrays["b"] == version).all()
        moved += version > before
        before = version
        assert os.listdir(tmp_path) == ["w.h5"]
    # The kills did fall inside saves: with nothing but the outcome looked at, this holds on any machine.
    assert orphans + moved > 0


def endless_snapshots(directory, keep):
    folder = SnapshotFolder(directory, keep)
    arrays = {"w": np.empty(1000)}
    found = folder.load(container.read)
    step = 0 if found is None else found.contents.meta["step"]
    while True:
        step += 1
        arrays["w"][:] = step
        folder.save(step, arrays, {"step": step}, best=step % 50 == 0)


@pytest.mark.parametrize("count", [40, pytest.param(400, marks=pytest.mark.slow)])
def test_snapshots_and_pruning(tmp_path, count):
    """Never fewer than keep - 1 good ones once there were as many, never more than keep + 1, besides the best."""
    keep, before = 3, 0
    dice = random.Random(count)
    for _ in range(count):
        killed_in(endless_snapshots, tmp_path, keep, delay=dice.uniform(0.005, 0.08))
        atomic_write.remove_orphans(tmp_path)
        folder = SnapshotFolder(tmp_path, keep)
        paths = folder.paths()
        for path in paths:
            container.verify(path)
        ordinary = [path for path in paths if path != folder.best_snapshot()]
        assert len(ordinary) <= keep + 1
        if not paths:
            continue
        found = folder.load(container.read)
        step = found.contents.meta["step"]
        assert found.errors == ()
        assert found.path == folder.path_of(step) == paths[-1]
        assert step >= before
        assert len(paths) >= min(step, keep - 1)
        before = step
        known = {path.name for path in paths} | {"latest.json"}
        assert set(os.listdir(tmp_path)) <= known
    assert before > 0
