"""A writer that is killed while it writes: what it leaves behind is removed by the next write into the folder, by
whichever writer; what it was to replace is there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import prototorch as pt
from prototorch import caffe
from prototorch.caffe.data.database_writer import write_database
from prototorch.caffe.data.databases import open_database
from prototorch.engine.storage import atomic_write
from prototorch.engine.storage.atomic_write import remove_orphans, replace_folder, staging_folder, write_bytes
from prototorch.errors import ModelWarning, SnapshotError
from prototorch.interop.conversion.convert import convert

NET = """
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "fc" type: "InnerProduct" bottom: "x" top: "fc" inner_product_param { num_output: 4 } }
"""
# A writer of its own process stops where a file is about to be renamed into its place, until it is killed.
WAITING = """
import os, sys, time
def wait(*args):
    print("now", flush=True)
    time.sleep(600)
import prototorch as pt
from prototorch import caffe
from prototorch.caffe.data.database_writer import write_database
from prototorch.engine.storage import atomic_write
from prototorch.errors import ModelWarning, SnapshotError
from prototorch.interop.conversion.convert import convert
from pathlib import Path
real = os.rename
"""
BEFORE = {
    "save": ("model.h5", "pt.load_model('two_layer').save('model.h5')"),
    "caffe": ("net.caffemodel", "caffe.Net('net.prototxt', caffe.TEST).save('net.caffemodel')"),
    "caffe_hdf5": ("net.caffemodel.h5", "caffe.Net('net.prototxt', caffe.TEST).save('net.caffemodel.h5')"),
    "convert": ("two_layer.onnx", "convert('two_layer', 'two_layer.onnx', force=True)"),
    "database": ("base", "write_database(Path('base'), [(b'k', b'new')], force=True)"),
}


def leave_orphan(job: str, patches: str = "os.replace = os.rename = wait\n") -> None:
    """Kill a process inside a write."""
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", WAITING + patches + job], stdout=subprocess.PIPE
    ) as child:
        assert child.stdout.readline() == b"now\n"
        child.send_signal(signal.SIGKILL)
    assert child.returncode == -signal.SIGKILL


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("net.prototxt").write_text(NET)
    return tmp_path


@pytest.mark.parametrize("writer", BEFORE)
def test_the_next_write_removes_what_a_killed_one_left(folder, writer):
    name, job = BEFORE[writer]
    leave_orphan(job)
    left = set(os.listdir()) - {"net.prototxt"}
    assert len(left) == 1
    (orphan,) = left
    assert orphan.startswith(f".{name}.")
    exec(job, {"pt": pt, "caffe": caffe, "convert": convert, "write_database": write_database, "Path": Path})
    assert set(os.listdir()) == {"net.prototxt", name}
    leave_orphan(job)
    write_bytes("another", b"content")  # of whatever writer
    assert set(os.listdir()) == {"net.prototxt", name, "another"}


def test_a_database_that_a_killed_process_was_replacing_is_taken_back(folder):
    write_database(Path("base"), [(b"k", b"old")])
    patches = "os.rename = lambda a, b: real(a, b) if str(b).endswith('replaced') else wait()\n"
    leave_orphan("write_database(Path('base'), [(b'k', b'new')], force=True)", patches)
    assert not Path("base").exists()
    write_bytes("another", b"content")
    assert set(os.listdir()) == {"net.prototxt", "another", "base"}
    assert [value for _, value in open_database(Path("base")).records()] == [b"old"]


def test_a_folder_that_cannot_be_put_in_place_is_left_as_it_was(tmp_path, monkeypatch):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "old").write_bytes(b"")
    real = os.rename

    def refuse(source, target):
        if os.path.basename(source) == "content":
            raise OSError(5, "no")
        real(source, target)

    with staging_folder(tmp_path / "kept") as content, monkeypatch.context() as patch:
        patch.setattr(os, "rename", refuse)
        with pytest.raises(OSError, match="no"):
            replace_folder(content, tmp_path / "kept")
    assert os.listdir(tmp_path) == ["kept"]
    assert os.listdir(tmp_path / "kept") == ["old"]


def test_the_staging_folder_of_a_running_process_stays(tmp_path):
    with staging_folder(tmp_path / "a") as content:
        Path(content, "x").write_bytes(b"1")
        write_bytes(tmp_path / "b", b"2")
        assert remove_orphans(tmp_path) == []
        assert Path(content, "x").exists()
    assert os.listdir(tmp_path) == ["b"]


EARLY = """
import sys, time
import prototorch.cli.actions.run as run
name = sys.argv.pop(1)
real = getattr(run, name)
def slow(*args, **options):
    print("now", flush=True)
    time.sleep(1.5)
    return real(*args, **options)
setattr(run, name, slow)
from prototorch.cli import main
main(sys.argv[1:])
"""


def started(command):
    """A child with the signals' own handlers, also where the tests run under ``nohup`` or in the background."""

    def restore():
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, preexec_fn=restore)


@pytest.mark.parametrize("where", ["open_model", "open_run_folder", "print_data_paths"])
@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_in_the_seconds_before_training(folder, where, sent):
    """SIGTERM and Ctrl-C end it at once, SIGHUP is kept: the snapshot is saved after the first step."""
    np.savez("data.npz", x=np.ones((8, 3), np.float32), y=np.ones((8, 2), np.float32))
    Path("net.proto").write_text(
        'name: "net"\ninput { name: "x"  shape: [3] }\nDense { units: 2 }\n'
        'compile { loss: mse }\nfit { epochs: 3  batch_size: 4  data { source: "data.npz" } }\n'
    )
    command = [sys.executable, "-W", "ignore", "-c", EARLY, where, "run", "net.proto"]
    with started(command) as child:
        while child.stdout.readline() != "now\n":
            assert child.poll() is None
        start = time.monotonic()
        child.send_signal(sent)
        _, err = child.communicate(timeout=60)
    assert "Traceback" not in err
    if sent == signal.SIGHUP:
        assert child.returncode == 0, err
        assert "SIGHUP: saved snapshot_step000001.h5, the training goes on" in err
        return
    assert child.returncode == 128 + sent, err
    assert time.monotonic() - start < 10
    assert ("stopped by SIGTERM" if sent == signal.SIGTERM else "stopped") in err
    assert not list(folder.rglob("*.h5"))
    assert not list(folder.rglob(".lock.json"))


def test_a_solver_of_caffe_keeps_early_signals_too(folder):
    Path("solver.prototxt").write_text('net: "net.prototxt" base_lr: 0.1 lr_policy: "fixed" max_iter: 100000000\n')
    Path("net.prototxt").write_text(
        'layer { name: "x" type: "DummyData" top: "x" top: "y" dummy_data_param { shape { dim: 2 dim: 3 } } }\n'
        'layer { name: "fc" type: "InnerProduct" bottom: "x" top: "fc" inner_product_param { num_output: 3 } }\n'
        'layer { name: "l" type: "EuclideanLoss" bottom: "fc" bottom: "y" top: "l" }\n'
    )
    command = [sys.executable, "-W", "ignore", "-c", EARLY, "is_caffe_solver", "run", "solver.prototxt"]
    with started(command) as child:
        while child.stdout.readline() != "now\n":
            assert child.poll() is None
        child.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 60
        while not list(folder.rglob("*.solverstate")):
            assert time.monotonic() < deadline
            assert child.poll() is None
            time.sleep(0.05)
        child.send_signal(signal.SIGTERM)
        _, err = child.communicate(timeout=60)
    assert child.returncode == 128 + signal.SIGTERM, err


def test_a_disk_that_is_too_small_is_reported_before_the_first_step(folder, monkeypatch):
    """By ModelCheckpoint and by a solver of Caffe, as by `prototorch run`: an error where one snapshot does not fit, a
    warning where all of them do not."""
    x, y = np.ones((8, 64), np.float32), np.zeros(8, np.int64)
    model = pt.load_model("two_layer")
    checkpoint = pt.callbacks.ModelCheckpoint("saved/{epoch}.h5")
    steps = []
    count = pt.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: steps.append(batch))
    Path("solver.prototxt").write_text(
        'net: "train.prototxt" base_lr: 0.1 lr_policy: "fixed" max_iter: 8 snapshot: 2\n'
    )
    Path("train.prototxt").write_text(
        'layer { name: "x" type: "DummyData" top: "x" top: "y" dummy_data_param { shape { dim: 2 dim: 300 } } }\n'
        'layer { name: "fc" type: "InnerProduct" bottom: "x" top: "fc" inner_product_param { num_output: 300 } }\n'
        'layer { name: "l" type: "EuclideanLoss" bottom: "fc" bottom: "y" top: "l" }\n'
    )
    solver = caffe.SGDSolver("solver.prototxt")
    monkeypatch.setattr(atomic_write, "_available_bytes", lambda folder: 1000)
    with pytest.raises(SnapshotError, match=r"saved: not enough space for 2 checkpoints of"):
        model.fit(x, y, epochs=3, verbose=0, callbacks=[checkpoint, count])
    assert not steps
    with pytest.raises(SnapshotError, match=r"not enough space for a checkpoint .722,400 bytes needed, 1,000 free"):
        solver.solve()
    assert solver.iter == 0
    monkeypatch.setattr(atomic_write, "_available_bytes", lambda folder: 2_000_000)
    with pytest.warns(
        ModelWarning, match=r"4 checkpoints of 722,400 bytes will need 2,889,600 bytes, 2,000,000 are free"
    ):
        solver.solve()
    monkeypatch.setattr(atomic_write, "_available_bytes", lambda folder: 10**9)
    with pytest.warns(ModelWarning, match="100000 checkpoints of"), pytest.raises(SnapshotError, match="not enough"):
        model.fit(x, y, epochs=100_000, verbose=0, callbacks=[checkpoint, Full()])


class Full(pt.callbacks.Callback):
    def on_train_begin(self, logs=None):
        raise SnapshotError("not enough")
