"""The loader: the same batches whatever the threads, exact resuming, errors instead of waits without end."""

import itertools
import json
import threading

import numpy as np
import pytest

from prototorch.data import ArrayDataset, Dataset, Loader, SampleError
from prototorch.data.ordered_pool import OrderedPool
from prototorch.data.shuffling import permutation
from prototorch.errors import DataError, UsageError
from prototorch.spec import Spec

THREADS = (0, 1, 2, 4)


def arrays(count=103):
    x = np.arange(count * 3, dtype=np.float32).reshape(count, 3)
    return ArrayDataset({"x": x, "y": np.arange(count)}, ["x"], ["y"])


def noisy(columns, place):
    return {**columns, "x": columns["x"] + place.generator().standard_normal(columns["x"].shape) + place.key % 7}


def seen(loader, epochs=2):
    return [
        (b.context.epoch, b.context.position, b["x"].tobytes(), b["y"].tobytes()) for _ in range(epochs) for b in loader
    ]


def test_same_seed_same_batches_whatever_the_threads():
    runs = [seen(Loader(arrays(), 10, seed=7, threads=t, transform=noisy)) for t in THREADS]
    assert runs[0] == runs[1] == runs[2] == runs[3]
    assert len(runs[0]) == 22


def test_seed_and_epoch_change_the_order_and_every_sample_comes_once():
    loader = Loader(arrays(), 10, seed=1)
    first = np.concatenate([b["y"] for b in loader])
    second = np.concatenate([b["y"] for b in loader])
    other = np.concatenate([b["y"] for b in Loader(arrays(), 10, seed=2)])
    for order in (first, second, other):
        assert sorted(order) == list(range(103))
    assert first.tolist() != second.tolist()
    assert first.tolist() != other.tolist()
    np.testing.assert_array_equal(second, np.concatenate([b["y"] for b in Loader(arrays(), 10, seed=1, epoch=1)]))


def test_the_order_is_written_down():
    """Resuming under another version of NumPy, or on another machine, needs these very numbers."""
    assert permutation(8, 0, 0).tolist() == EXPECTED[0]
    assert permutation(8, 1, 0).tolist() == EXPECTED[1]
    assert permutation(8, 0, 1).tolist() == EXPECTED[2]


EXPECTED = [[0, 2, 1, 5, 4, 3, 6, 7], [3, 5, 2, 7, 0, 6, 1, 4], [5, 3, 7, 2, 4, 1, 0, 6]]


def test_batch_counts_and_drop_last():
    assert len(Loader(arrays(), 10)) == 11
    assert [b.num_samples for b in Loader(arrays(), 10)][-1] == 3
    assert len(Loader(arrays(), 10, drop_last=True)) == 10
    assert {b.num_samples for b in Loader(arrays(), 10, drop_last=True)} == {10}
    assert [b.num_samples for b in Loader(arrays(), 1000)] == [103]


@pytest.mark.parametrize("threads", [0, 2])
@pytest.mark.parametrize("stop", [0, 1, 5, 10, 11, 14])
def test_resume_is_exact_mid_epoch(threads, stop):
    whole = seen(Loader(arrays(), 10, seed=3, transform=noisy), 3)
    loader = Loader(arrays(), 10, seed=3, transform=noisy, threads=threads)
    endless = itertools.chain.from_iterable(iter(loader) for _ in range(3))
    before = [next(endless) for _ in range(stop)]
    state = loader.state()
    again = Loader(arrays(), 10, seed=99, transform=noisy, threads=threads)
    again.restore(state)
    rest = seen(again, 3)
    got = [(b.context.epoch, b.context.position, b["x"].tobytes(), b["y"].tobytes()) for b in before] + rest
    assert got[: len(whole)] == whole
    assert json.loads(json.dumps(state)) == state


def test_a_state_of_other_data_is_refused():
    state = Loader(arrays(), 10).state()
    with pytest.raises(DataError, match="samples was 103 and is now 50"):
        Loader(arrays(50), 10).restore(state)
    with pytest.raises(DataError, match="batch_size was 10 and is now 20"):
        Loader(arrays(), 20).restore(state)


def test_unshuffled_batches_are_views_that_cannot_be_written():
    data = arrays()
    batch = next(iter(Loader(data, 10, shuffle=False)))
    assert np.shares_memory(batch["x"], data.column_array("x"))
    assert not batch["x"].flags.writeable
    assert data.column_array("x").flags.writeable
    shuffled = next(iter(Loader(data, 10)))
    assert not np.shares_memory(shuffled["x"], data.column_array("x"))


def test_dtypes_are_converted_before_the_transform():
    data = ArrayDataset({"image": np.arange(20, dtype=np.uint8).reshape(10, 2), "y": np.arange(10)}, ["image"], ["y"])
    kinds = []

    def note(columns, place):
        kinds.append(columns["image"].dtype.name)
        return columns

    batch = next(iter(Loader(data, 4, dtypes={"image": "float32"}, transform=note, threads=0)))
    assert batch["image"].dtype == np.float32
    assert batch["y"].dtype == np.int64
    assert kinds == ["float32"]


def test_arrays_with_unusual_memory_are_gathered_plainly():
    x = np.arange(60, dtype=np.float32).reshape(5, 3, 4).transpose(0, 2, 1)
    data = ArrayDataset({"x": x, "y": np.arange(5)}, ["x"], ["y"])
    got = data.read(np.array([3, 1]))["x"]
    np.testing.assert_array_equal(got, x[[3, 1]])
    assert got.flags.c_contiguous
    big = ArrayDataset({"x": np.arange(5, dtype=">f4")}, ["x"])
    assert big.column_array("x").dtype.isnative


# ---------------------------------------------------------------- errors


class Faulty(Dataset):
    """Samples of which some raise, block, or end their thread."""

    name, inputs, targets, columns = "faulty", ("x",), (), {"x": Spec((), "float32")}

    def __init__(self, at=None, how=None, count=40):
        self.at, self.how, self.count, self.reads = at, how, count, []

    def __len__(self):
        return self.count

    def read(self, indices):
        self.reads.append(len(indices))
        if self.at in indices:
            self.how(self)
        return {"x": indices.astype(np.float32)}

    def origin(self, index):
        return f"file{index}.png"


def raising(error):
    def how(self):
        raise error

    return how


@pytest.mark.parametrize("threads", THREADS)
def test_an_exception_arrives_in_its_place_with_the_samples_named(threads):
    data = Faulty(22, raising(KeyError("lost")))
    got = []
    batches = (got.append(b.context.position) for b in Loader(data, 5, shuffle=False, threads=threads))
    with pytest.raises(DataError, match=r"5 samples from file20.png on: KeyError: 'lost'") as caught:
        list(batches)
    assert got == [0, 5, 10, 15]
    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.parametrize("threads", [0, 2])
def test_a_sample_error_arrives_as_it_is(threads):
    data = Faulty(22, raising(SampleError("file22.png: damaged", 22, "file22.png")))
    with pytest.raises(SampleError, match=r"^file22.png: damaged; data { on_error: skip } leaves out"):
        list(Loader(data, 5, threads=threads))


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), MemoryError()])
def test_what_ends_a_thread_reaches_the_main_one(error):
    with pytest.raises(type(error)):
        list(Loader(Faulty(22, raising(error)), 5, threads=2))


def test_a_thread_that_never_comes_back_is_an_error_that_names_it():
    release = threading.Event()
    data = Faulty(22, lambda self: release.wait(60))
    try:
        with pytest.raises(DataError, match=r"thread loader-\d has been busy for 0.2 s with batch 4 .*file20.png"):
            list(Loader(data, 5, shuffle=False, threads=2, timeout=0.2))
    finally:
        release.set()


def test_threads_that_are_gone_are_an_error():
    pool = OrderedPool(lambda i: i, 3, threads=1, read_ahead=0, timeout=60, describe=lambda i: f"piece {i}")
    assert pool.take() == 0
    pool.close()
    with pytest.raises(DataError, match="threads have ended before piece"):
        [pool.take() for _ in range(3)]


def test_a_failing_transform_names_the_samples():
    def transform(columns, place):
        raise ZeroDivisionError("rate")

    with pytest.raises(DataError, match=r"samples from data, row \d+ on: ZeroDivisionError: rate"):
        list(Loader(arrays(), 10, transform=transform, threads=1))


def loader_threads():
    return {t for t in threading.enumerate() if t.name.startswith("loader-")}


def test_leaving_early_stops_the_threads():
    before = loader_threads()
    loader = Loader(Faulty(), 5, threads=3)
    batches = iter(loader)
    next(batches)
    assert len(loader_threads() - before) == 3
    batches.close()
    assert loader_threads() <= before
    for batch in loader:
        raise_here = batch
        break
    del raise_here, batch
    assert loader.position == 10


def test_an_interrupt_in_the_loop_stops_the_threads():
    def interrupted():
        for _ in Loader(Faulty(), 5, threads=3):
            raise KeyboardInterrupt

    before = loader_threads()
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert loader_threads() <= before


def test_reading_ahead_is_bounded():
    data = Faulty(count=1000)
    batches = iter(Loader(data, 5, threads=2, prefetch=3))
    next(batches)
    batches.close()
    assert len(data.reads) <= 1 + 2 + 3 + 1


def test_waiting_is_counted():
    loader = Loader(arrays(), 10, threads=1)
    assert loader.wait_seconds == 0
    list(loader)
    assert loader.wait_seconds > 0


@pytest.mark.parametrize(
    ("kwargs", "error", "words"),
    [
        ({"batch_size": 0}, UsageError, "batch_size is 0; it must be an integer of at least 1"),
        ({"batch_size": 2.5}, UsageError, "batch_size is 2.5"),
        ({"batch_size": True}, UsageError, "batch_size is True"),
        ({"threads": -1}, UsageError, "threads is -1"),
        ({"prefetch": -1}, UsageError, "prefetch is -1"),
        ({"on_error": "ignore"}, UsageError, "on_error is 'ignore'; it must be 'fail' or 'skip'"),
        ({"skip_limit": 2}, UsageError, "skip_limit is 2"),
        ({"timeout": 0}, UsageError, "timeout is 0"),
        ({"batch_size": 200, "drop_last": True}, DataError, "103 samples do not fill a batch of 200"),
    ],
)
def test_arguments_that_make_no_sense(kwargs, error, words):
    with pytest.raises(error, match=words):
        Loader(arrays(), **kwargs)


def test_an_empty_set():
    with pytest.raises(DataError, match="the data set is empty"):
        Loader(arrays(0), 10)


# ---------------------------------------------------------------- parts


def test_split_is_as_in_keras_and_parts_keep_their_origins():
    train, val = arrays().split(0.2)
    assert (len(train), len(val)) == (82, 21)
    np.testing.assert_array_equal(val.read(np.arange(21))["y"], np.arange(82, 103))
    assert val.origin(0) == "data, row 82"
    assert np.shares_memory(val.column_array("x"), train.column_array("x").base)
    for bad in (0, 1, -0.5, 1.5):
        with pytest.raises(DataError, match="must lie between 0 and 1"):
            arrays().split(bad)
    with pytest.raises(DataError, match="leaves one part empty"):
        arrays(1).split(0.5)


def test_skips_in_a_part_are_counted_by_the_parts_own_numbers():
    part = Faulty(22, None)
    part.how = raising(SampleError("file22.png: bad", 22, "file22.png"))
    some = part.subset(np.array([5, 22, 7]))
    loader = Loader(some, 2, shuffle=False, on_error="skip", skip_limit=1)
    assert [b.context.indices.tolist() for b in loader] == [[0], [2]]
    assert loader.skipped_samples == {1: "file22.png: bad"}
    again = Loader(some, 2, shuffle=False, on_error="skip", skip_limit=1)
    again.restore(loader.state())
    assert set(again.skipped_samples) == {1}


def test_limits():
    assert len(arrays().sample(10)) == 10
    assert len(arrays().sample(1000)) == 103
    with pytest.raises(DataError, match="limit must be at least 1 sample, got 0"):
        arrays().sample(0)
