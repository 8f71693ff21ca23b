"""Batches read in pieces by several threads: the same bits as in one piece, errors in their place."""

import threading

import numpy as np
import pytest
from PIL import Image

from prototorch.data import Dataset, Loader, SampleError, SiamesePairs
from prototorch.data.image_folder import TINY_FILE_BYTES, open_image_folder
from prototorch.data.image_io import ImageReader
from prototorch.data.loader import MAX_AUTO_THREADS, SMALL_BATCH_BYTES
from prototorch.data.split_batches import SplitBatches
from prototorch.spec import Spec


class Slow(Dataset):
    """Numbers that are worth a thread each; remembers what was read at a time."""

    name, inputs, targets = "slow", ("x",), ()
    columns = {"x": Spec((2,))}
    grain_size = 2

    def __init__(self, count=103, bad=()):
        self.count, self.bad, self.reads = count, set(bad), []

    def __len__(self):
        return self.count

    def read(self, indices):
        self.reads.append(len(indices))
        for index in indices:
            if index in self.bad:
                raise SampleError(f"sample {index} is bad", int(index), self.origin(index))
        return {"x": np.stack([np.full(2, i, np.float32) for i in indices]) if len(indices) else np.zeros((0, 2), "f4")}

    def origin(self, index):
        return f"sample {index}"


def seen(loader):
    return [(b.context.position, b.context.indices.tolist(), b["x"].tolist()) for _ in range(2) for b in loader]


def noisy(columns, place):
    assert len(columns["x"]) == len(place.indices)  # a whole batch
    return {"x": columns["x"] + place.generator().standard_normal(columns["x"].shape)}


@pytest.mark.parametrize("size", [1, 3, 10, 64, 200])
def test_pieces_give_the_same_batches(size):
    runs = [seen(Loader(Slow(), size, seed=3, threads=t, transform=noisy)) for t in (0, 1, 2, 5)]
    assert runs[0] == runs[1] == runs[2] == runs[3]


def test_a_batch_is_cut_by_the_grain_and_the_threads():
    for threads, size, wanted in ((2, 10, [5, 5]), (4, 6, [2, 2, 2]), (4, 3, [3]), (1, 10, [10]), (0, 10, [10])):
        data = Slow(size)
        list(Loader(data, size, threads=threads))
        assert sorted(data.reads) == wanted


def test_several_threads_work_on_one_batch():
    """Neither could go on if the other were not reading at the same time."""
    meet = threading.Barrier(2, timeout=30)

    class Met(Slow):
        def read(self, indices):
            meet.wait()
            return super().read(indices)

    assert next(iter(Loader(Met(8), 8, threads=2))).num_samples == 8


def test_bad_samples_in_pieces():
    kept = [seen(Loader(Slow(bad=range(20, 31)), 10, seed=1, threads=t, on_error="skip", skip_limit=1)) for t in (0, 4)]
    assert kept[0] == kept[1]
    everything_bad = Loader(Slow(40, bad=range(8)), 8, threads=4, shuffle=False, on_error="skip", skip_limit=1)
    assert [b.context.position for b in everything_bad] == [8, 16, 24, 32]
    with pytest.raises(SampleError, match="sample 3 is bad"):
        list(Loader(Slow(bad=[3, 7]), 10, shuffle=False, threads=4))


def test_resuming_in_the_middle_with_another_number_of_threads():
    whole = seen(Loader(Slow(), 10, seed=3, threads=0))
    loader = Loader(Slow(), 10, seed=3, threads=3)
    for _, _ in zip(range(4), loader, strict=False):
        pass
    again = Loader(Slow(), 10, seed=9, threads=2)
    again.restore(loader.state())
    assert [b["x"].tolist() for b in again] == [x for _, _, x in whole[4:11]]


def test_pieces_finish_whatever_their_order():
    made = SplitBatches(3, lambda thing, part: (thing, part), lambda thing, pieces: (thing, pieces))
    results = {number: made(number) for number in (2, 4, 0, 5, 1, 3)}
    assert [n for n, r in results.items() if r is not None] == [1, 3]
    assert made.collect(iter([results[n] for n in (0, 1, 2)]).__next__) == (0, [(0, 0), (0, 1), (0, 2)])


def test_threads_are_chosen_by_what_there_is_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(64)), raising=False)
    assert Loader(Slow(), 8)._choose_threads() == MAX_AUTO_THREADS
    cheap = Slow()
    cheap.is_cheap = True
    loader = Loader(cheap, 8)
    assert loader._choose_threads() == 0
    loader.transform_bytes = SMALL_BATCH_BYTES  # a transform that is not cheap
    assert loader._choose_threads() == MAX_AUTO_THREADS
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    for i in range(3):
        Image.new("L", (8, 8), i).save(tmp_path / "a" / f"{i}.png")
        Image.new("L", (8, 8), 9 - i).save(tmp_path / "b" / f"{i}.png")
    small = open_image_folder(tmp_path, ImageReader((8, 8), "gray"))
    assert Loader(small, 4)._choose_threads() == 1
    assert Loader(SiamesePairs(small), 4)._choose_threads() == 1
    for path in tmp_path.rglob("*.png"):
        path.write_bytes(
            path.read_bytes() + bytes(TINY_FILE_BYTES)
        )  # what follows the end of a picture is not looked at
    assert Loader(open_image_folder(tmp_path, ImageReader((8, 8), "gray")), 4)._choose_threads() == MAX_AUTO_THREADS
