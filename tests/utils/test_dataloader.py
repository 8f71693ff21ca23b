"""DataLoader: order, batches, workers in threads, errors; against PyTorch's where nothing is random."""

import gc
import threading
from itertools import chain

import numpy as np
import pytest

import prototorch as pt
from prototorch.errors import DataError, UsageError
from prototorch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    SequentialSampler,
    StackDataset,
    Subset,
    TensorDataset,
    get_worker_info,
)
from prototorch.utils.data.pinned_memory import pin_batch
from tests.utils.sample_datasets import (
    Failing,
    Slow,
    Squares,
    Stream,
    TwoArguments,
    Workers,
    begin_at_the_workers_share,
)

torch_data = pytest.importorskip("torch.utils.data")


def plain(value):
    """Nested lists and scalars of a batch of ours or PyTorch's, with dtypes."""
    if isinstance(value, np.ndarray):
        return "array", value.tolist()
    if hasattr(value, "numpy"):
        return str(value.dtype).rpartition(".")[2], value.numpy().tolist()
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return type(value).__name__, [plain(item) for item in value]
    return value


@pytest.mark.parametrize("workers", [0, 1, 3])
@pytest.mark.parametrize("options", [
    {}, {"batch_size": 6}, {"batch_size": 6, "drop_last": True}, {"batch_size": None}, {"batch_size": 30},
    {"sampler": [3, 1, 4, 1, 5], "batch_size": 2}, {"batch_sampler": [[0], [5, 2, 2], []][:2]},
    {"batch_size": 4, "collate_fn": tuple}, {"batch_size": 30, "drop_last": True},
], ids=str)  # fmt: skip
def test_batches_are_those_of_pytorch(options, workers):
    theirs = [plain(batch) for batch in torch_data.DataLoader(Squares(), **options)]
    loader = DataLoader(Squares(), num_workers=workers, **options)
    assert [plain(batch) for batch in loader] == theirs
    assert len(loader) == len(theirs) == len(iter(loader))


@pytest.mark.parametrize("workers", [0, 1, 2, 3])
@pytest.mark.parametrize("options", [{}, {"batch_size": 4}, {"batch_size": 4, "drop_last": True}, {"batch_size": None}],
                         ids=str)  # fmt: skip
def test_streams_give_each_sample_once_in_a_fixed_order(options, workers):
    batches = [np.ravel(b).tolist() for b in DataLoader(Stream(23), num_workers=workers, **options)]
    again = [np.ravel(b).tolist() for b in DataLoader(Stream(23), num_workers=workers, **options)]
    assert batches == again
    if not options.get("drop_last"):
        assert sorted(chain(*batches)) == list(range(23))
    if not workers:
        theirs = torch_data.DataLoader(ToTorch(Stream(23)), **options)
        assert batches == [np.ravel(b).tolist() for b in theirs]


class ToTorch(torch_data.IterableDataset):
    """A stream of ours for PyTorch's loader."""

    def __init__(self, stream):
        self.stream = stream

    def __iter__(self):
        info = torch_data.get_worker_info()
        shares = self.stream.shares
        return iter(self.stream) if info is None else iter(range(100 * info.id, 100 * info.id + shares[info.id]))


@pytest.mark.slow
@pytest.mark.parametrize("shares", [(3, 9), (9, 3), (0, 5), (8, 0)], ids=str)
def test_workers_of_a_stream_that_end_at_different_times_keep_pytorchs_order(shares):
    """PyTorch starts processes."""
    stream = Stream(0, shares=shares)
    theirs = [b.tolist() for b in torch_data.DataLoader(ToTorch(stream), 2, num_workers=2)]
    assert [b.numpy().tolist() for b in DataLoader(stream, 2, num_workers=2)] == theirs


@pytest.mark.parametrize("shares", [(3, 9), (9, 3), (0, 5), (8, 0)], ids=str)
def test_workers_of_a_stream_may_end_at_different_times(shares):
    batches = [b.numpy().tolist() for b in DataLoader(Stream(0, shares=shares), 2, num_workers=2)]
    expected = [list(range(shares[0])), list(range(100, 100 + shares[1]))]
    for worker, samples in enumerate(expected):
        assert list(chain(*(b for b in batches if b[0] // 100 == worker))) == samples


@pytest.mark.parametrize("workers", [0, 1, 4])
def test_the_order_depends_on_the_generator_alone(workers):
    def epochs(**options):
        loader = DataLoader(Squares(), 3, shuffle=True, num_workers=workers, **options)
        return [[batch[1].numpy().tolist() for batch in loader] for _ in range(2)]

    first, second = epochs(generator=pt.Generator().manual_seed(5))
    assert first != second
    assert sorted(chain(*first)) == [i**2 for i in range(20)]
    assert epochs(generator=pt.Generator().manual_seed(5)) == [first, second]
    assert epochs(generator=pt.Generator().manual_seed(6))[0] != first
    pt.manual_seed(5)
    assert epochs() == [first, second]


def test_random_numbers_of_workers_are_reproducible_and_different():
    def numbers():
        pt.manual_seed(3)
        return [batch[2].numpy().tolist() for batch in DataLoader(Workers(), 2, num_workers=2)]

    assert numbers() == numbers()
    flat = list(chain(*numbers()))
    assert len(set(flat)) == len(flat)


def test_worker_info_is_that_of_the_worker():
    assert get_worker_info() is None
    ids = [batch[1].numpy().tolist() for batch in DataLoader(Workers(8), 2, num_workers=2)]
    assert ids == [[0, 0], [1, 1], [0, 0], [1, 1]]
    assert get_worker_info() is None


def test_each_worker_has_a_copy_of_a_stream_that_its_init_function_may_change():
    loader = DataLoader(Stream(99, is_divided=False), 3, num_workers=2, worker_init_fn=begin_at_the_workers_share)
    assert [b.numpy().tolist() for b in loader] == [[0, 1, 2], [10, 11, 12]]
    assert loader.dataset.end == 99


@pytest.mark.parametrize("persistent", [False, True])
def test_the_init_function_runs_once_for_each_start_of_a_worker(persistent):
    calls = []
    loader = DataLoader(Squares(), num_workers=2, worker_init_fn=calls.append, persistent_workers=persistent)
    for _ in range(3):
        assert len(list(loader)) == 20
    assert sorted(calls) == ([0, 1] if persistent else [0, 0, 0, 1, 1, 1])


@pytest.mark.parametrize(("error", "kind"), [
    (KeyError("no 7"), KeyError), (DataError("bad 7"), DataError), (TwoArguments(1, 2), RuntimeError),
    (StopIteration("at 7"), RuntimeError), (IndexError("gone"), IndexError),
])  # fmt: skip
def test_an_error_in_a_worker_names_worker_and_place(error, kind):
    taken = []
    with pytest.raises(kind) as caught:
        taken.extend(iter(DataLoader(Failing(error), 3, num_workers=2)))
    text = str(caught.value)
    assert f"Caught {type(error).__name__} in DataLoader worker thread 0." in text
    assert "sample_datasets.py" in text
    assert "in __getitem__" in text
    assert len(taken) == 2


def test_an_error_without_workers_is_raised_as_it_is():
    with pytest.raises(KeyError, match=r"^'no 7'$"):
        list(DataLoader(Failing(KeyError("no 7")), 3))
    with pytest.raises(RuntimeError, match="StopIteration"):
        list(DataLoader(Failing(StopIteration("at 7")), 3))


def test_a_worker_that_takes_too_long_is_an_error():
    with pytest.raises(DataError, match=r"busy for 0\.3 s with batch 2"):
        list(DataLoader(Slow(4), num_workers=2, timeout=0.3))


def test_an_epoch_that_is_left_ends_its_threads():
    before = set(threading.enumerate())
    loader = DataLoader(Squares(5000), num_workers=3)
    for _ in loader:
        break
    gc.collect()
    assert not [t for t in set(threading.enumerate()) - before if t.is_alive()]
    assert len(list(loader)) == 5000


def test_persistent_workers_begin_anew_after_an_epoch_that_was_left():
    loader = DataLoader(Squares(), 4, num_workers=2, persistent_workers=True)
    for _ in range(3):
        for _ in loader:
            break
        assert [b[1].numpy()[0] for b in loader] == [0, 16, 64, 144, 256]


def test_workers_read_ahead_by_the_prefetch_factor_alone():
    seen = []

    class Counting(Squares):
        def __getitem__(self, index):
            seen.append(index)
            return index

    epoch = iter(DataLoader(Counting(100), num_workers=2, prefetch_factor=3))
    next(epoch)
    for _ in range(200):
        if len(seen) >= 7:
            break
        threading.Event().wait(0.01)
    threading.Event().wait(0.05)
    assert len(seen) == 7  # six wait, one was taken


@pytest.mark.parametrize(
    "wrap",
    [lambda d: d, lambda d: Subset(d, [5, 1, -1, 1]), lambda d: Subset(Subset(d, [3, 2, 0]), [2, 1])],
    ids=["whole", "subset", "nested"],
)
def test_tensors_are_gathered_to_what_their_samples_collate_to(wrap):
    x = np.random.default_rng(0).normal(size=(6, 2, 3)).astype(np.float32)
    dataset = wrap(TensorDataset(pt.tensor(x), pt.tensor(np.arange(6))))
    for slow, fast in zip(
        DataLoader(dataset, 3, collate_fn=lambda s: pt.utils.data.default_collate(s)),
        DataLoader(dataset, 3),
        strict=True,
    ):
        assert plain(slow) == plain(fast)


def test_a_subclass_that_defines_its_samples_is_asked_for_them():
    class Doubled(TensorDataset):
        def __getitem__(self, index):
            return super().__getitem__(index)[0] * 2

    (batch,) = DataLoader(Doubled(pt.tensor([1.0, 2.0])), 2)
    assert batch.numpy().tolist() == [2, 4]


def test_indices_outside_of_the_data_set_are_an_error():
    dataset = TensorDataset(pt.tensor(np.arange(4)))
    for source in (dataset, StackDataset(dataset, dataset), Subset(dataset, [0, 9])):
        with pytest.raises(IndexError):
            list(DataLoader(source, 2, sampler=[0, 1, 1, 9]))


@pytest.mark.parametrize(("options", "message"), [
    ({"shuffle": True, "sampler": [1]}, "leave shuffle"),
    ({"batch_sampler": [[1]], "batch_size": 2}, "leave batch_size"),
    ({"batch_size": None, "drop_last": True}, "drop_last"),
    ({"batch_size": 0}, "batch_size must be a positive integer, got 0"),
    ({"batch_size": 2.5}, "batch_size must be a positive integer"),
    ({"num_workers": -1}, "num_workers"), ({"timeout": -1}, "timeout"), ({"prefetch_factor": 2}, "num_workers above 0"),
    ({"num_workers": 1, "prefetch_factor": 0}, "prefetch_factor"),
    ({"persistent_workers": True}, "num_workers above 0"),
    ({"shuffle": "yes"}, "shuffle must be"), ({"generator": 3}, "prototorch.Generator"),
    ({"num_workers": 1, "multiprocessing_context": "thread"}, "spawn"),
    ({"multiprocessing_context": "spawn"}, "num_workers"),
    ({"pin_memory_device": "cuda"}, "pin_memory_device"),
], ids=str)  # fmt: skip
def test_arguments_that_contradict_are_refused(options, message):
    with pytest.raises(UsageError, match=message):
        DataLoader(Squares(), **options)


def test_streams_have_no_order_of_their_own():
    for options in ({"shuffle": True}, {"sampler": [1]}, {"batch_sampler": [[1]]}):
        with pytest.raises(UsageError, match="own order"):
            DataLoader(Stream(3), **options)
    with pytest.raises(TypeError):
        len(DataLoader(Stream(3)))


def test_what_is_no_data_set_is_refused():
    with pytest.raises(UsageError, match="__getitem__"):
        DataLoader(3)

    class NoLength(Dataset):
        def __getitem__(self, index):
            return index

    with pytest.raises(UsageError, match="__len__"):
        DataLoader(NoLength())
    assert [b.numpy().tolist() for b in DataLoader(NoLength(), sampler=[4, 2])] == [[4], [2]]


def test_what_was_checked_does_not_change():
    loader = DataLoader(Squares(), 4)
    for name in ("batch_size", "dataset", "sampler", "batch_sampler", "drop_last"):
        with pytest.raises(UsageError, match=f"{name} of a DataLoader is fixed"):
            setattr(loader, name, 1)
    assert isinstance(loader.batch_sampler, BatchSampler)
    assert isinstance(loader.sampler, SequentialSampler)


def test_memory_is_not_pinned_without_a_gpu():
    with pytest.warns(UserWarning, match="no GPU"):
        assert len(list(DataLoader(Squares(2), pin_memory=True))) == 2


def test_batches_are_copied_to_pinned_memory():
    blocks = []

    def allocate(shape, dtype):
        blocks.append(np.zeros(shape, dtype))
        return blocks[-1]

    class Own:
        def pin_memory(self):
            return "pinned"

    (batch,) = DataLoader(Squares(3), 3)
    pinned = pin_batch([*batch, Own(), "text", 7], allocate)
    assert plain(pinned[:5]) == plain(batch)
    assert pinned[5:] == ["pinned", "text", 7]
    assert type(pinned[4]) is type(batch[4])
    assert [block.nbytes for block in blocks] == [12, 24, 24, 24, 48, 3]
    assert all(np.shares_memory(t.numpy(), b) for t, b in zip(pinned[:2], blocks, strict=False))
