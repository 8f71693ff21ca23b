"""DataLoader with processes: the batches of threads, errors of workers, and no process that is left behind."""

import contextlib
import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import prototorch as pt
from prototorch.utils.data import DataLoader
from tests.utils.sample_datasets import (
    Exiting,
    Failing,
    Slow,
    Squares,
    Stream,
    TwoArguments,
    Unpicklable,
    Workers,
    begin_at_the_workers_share,
)
from tests.utils.test_dataloader import plain

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork")


def children():
    """Processes of loaders that this one has started."""
    return [p for p in multiprocessing.active_children() if p.name.startswith("DataLoader")]


@pytest.mark.parametrize(
    "method",
    ["fork", pytest.param("spawn", marks=pytest.mark.slow), pytest.param("forkserver", marks=pytest.mark.slow)],
)
def test_processes_give_the_batches_of_threads(method):
    def batches(**options):
        loader = DataLoader(
            Squares(), 3, shuffle=True, generator=pt.Generator().manual_seed(4), num_workers=2, **options
        )
        return [plain(batch) for _ in range(2) for batch in loader]

    assert batches(multiprocessing_context=method, persistent_workers=True) == batches()
    gc.collect()
    assert not children()


def test_samples_are_read_in_other_processes_with_random_numbers_of_their_own():
    def run():
        loader = DataLoader(Workers(8), 2, num_workers=2, multiprocessing_context="fork")
        return [[item.numpy().tolist() for item in batch] for batch in loader]

    pt.manual_seed(1)
    first = run()
    assert os.getpid() not in {pid for batch in first for pid in batch[0]}
    assert len({pid for batch in first for pid in batch[0]}) == 2
    pt.manual_seed(1)
    assert [batch[1:] for batch in run()] == [batch[1:] for batch in first]
    pt.manual_seed(1)
    threads = [[item.numpy().tolist() for item in b][1:] for b in DataLoader(Workers(8), 2, num_workers=2)]
    assert [batch[1:] for batch in first] == threads


def test_streams_are_divided_among_processes():
    loader = DataLoader(Stream(11), 2, num_workers=2, multiprocessing_context="fork")
    assert [b.numpy().tolist() for b in loader] == [[0, 2], [1, 3], [4, 6], [5, 7], [8, 10], [9]]
    loader = DataLoader(
        Stream(9, is_divided=False),
        3,
        num_workers=2,
        multiprocessing_context="fork",
        worker_init_fn=begin_at_the_workers_share,
    )
    assert [b.numpy().tolist() for b in loader] == [[0, 1, 2], [10, 11, 12]]


@pytest.mark.parametrize(("error", "kind"), [(KeyError("no 7"), KeyError), (TwoArguments(1, 2), RuntimeError)])
def test_an_error_in_a_process_names_worker_and_place(error, kind):
    with pytest.raises(kind) as caught:
        list(DataLoader(Failing(error), 3, num_workers=2, multiprocessing_context="fork"))
    text = str(caught.value)
    assert f"Caught {type(error).__name__} in DataLoader worker process 0." in text
    assert "sample_datasets.py" in text
    assert "in __getitem__" in text


def test_a_process_that_ends_is_an_error():
    with pytest.raises(RuntimeError, match=r"worker 0 \(pid \d+\) exited unexpectedly with exit code 3"):
        list(DataLoader(Exiting(), num_workers=1, multiprocessing_context="fork"))


def test_a_batch_that_cannot_be_sent_is_an_error():
    with pytest.raises(RuntimeError, match=r"in DataLoader worker process 0"):
        list(DataLoader(Unpicklable(), num_workers=1, multiprocessing_context="fork", collate_fn=lambda batch: batch))


def test_an_epoch_that_is_left_ends_its_processes_at_once():
    begin = time.monotonic()
    for _ in DataLoader(Slow(), num_workers=2, multiprocessing_context="fork"):
        break
    gc.collect()
    assert not children()
    assert time.monotonic() - begin < 300  # a sample takes 600 seconds


@pytest.mark.parametrize("method", ["fork", None])
@pytest.mark.parametrize(
    "dataset",
    [Failing(KeyError("no 7")), Failing(TwoArguments(1, 2)), Exiting()],
    ids=["error", "error of two arguments", "exit"],
)
def test_after_an_error_workers_end_without_the_garbage_collector(method, dataset):
    def fail():
        with contextlib.suppress(Exception):
            list(DataLoader(dataset, 2, num_workers=2, multiprocessing_context=method))

    def held():
        return len(os.listdir("/dev/fd")), len(children()), threading.active_count()

    if method is None and isinstance(dataset, Exiting):
        pytest.skip("it would end this process")
    gc.collect()
    gc.disable()
    try:
        fail()
        before = held()
        for _ in range(3):
            fail()
        assert held() == before
    finally:
        gc.enable()


def test_large_batches_come_through_the_pipe():
    x = np.random.default_rng(0).normal(size=(8, 300_000))
    dataset = pt.utils.data.TensorDataset(pt.tensor(x))
    got = [b[0].numpy() for b in DataLoader(dataset, 4, num_workers=2, multiprocessing_context="fork")]
    assert np.array_equal(np.concatenate(got), x)


SCRIPT = """
    import os, signal, sys, time
    from prototorch.utils.data import DataLoader, Dataset

    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs inherit that it is ignored

    class Endless(Dataset):
        def __len__(self):
            return 10**6
        def __getitem__(self, index):
            time.sleep(0.01)
            return os.getpid()

    if __name__ == "__main__":
        for batch in DataLoader(Endless(), 2, num_workers=2, multiprocessing_context="fork"):
            print(*batch.numpy(), flush=True)
            if sys.argv[1] == "exit":
                raise SystemExit
"""


@pytest.mark.parametrize("how", ["exit", "interrupt", "kill"])
def test_no_process_outlives_its_parent(how, tmp_path):
    script = tmp_path / "endless.py"
    script.write_text(textwrap.dedent(SCRIPT))
    process = subprocess.Popen(
        [sys.executable, str(script), how],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        start_new_session=True,
    )
    lines = [process.stdout.readline() for _ in range(1 if how == "exit" else 2)]
    pids = {int(pid) for line in lines for pid in line.split()}
    assert pids
    if how == "interrupt":
        os.killpg(process.pid, signal.SIGINT)
    elif how == "kill":
        process.kill()
    _, errors = process.communicate(timeout=20)
    if how == "interrupt":
        assert errors.count("KeyboardInterrupt") == 1
    deadline = time.monotonic() + 15
    while any(is_running(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not [pid for pid in pids if is_running(pid)]


def is_running(pid):
    """Whether a process exists and is no zombie."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
