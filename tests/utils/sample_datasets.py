"""Data sets of the tests of loaders, in a module that a process of a worker can import."""

import os
import time
from collections import namedtuple

import numpy as np

import prototorch as pt
from prototorch.utils.data import Dataset, IterableDataset, get_worker_info

Pair = namedtuple("Pair", ["first", "second"])


class Squares(Dataset):
    """Samples with leaves of every kind."""

    def __init__(self, count=20):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return (np.float32(index), index**2, f"s{index}", {"a": [index, 0.5], "b": np.full(2, index)}, Pair(True, b"x"))


class Failing(Squares):
    """The sample 7 raises what it is made with."""

    def __init__(self, error):
        super().__init__(12)
        self.error = error

    def __getitem__(self, index):
        if index == 7:
            raise self.error
        return index


class TwoArguments(Exception):
    """An exception that is not made of a message."""

    def __init__(self, code, reason):
        super().__init__(code, reason)


class Exiting(Squares):
    """The process of a worker ends without a word."""

    def __getitem__(self, index):
        os._exit(3)


class Slow(Squares):
    """A sample takes a while."""

    def __getitem__(self, index):
        time.sleep(600 if index == 2 else 0)
        return index


class Unpicklable(Squares):
    """A sample that no process can send."""

    def __getitem__(self, index):
        return lambda: index


class Workers(Squares):
    """Process and thread of each sample, and random numbers drawn there."""

    def __getitem__(self, index):
        info = get_worker_info()
        number = float(pt.default_generator.keys.next_generator().random())
        return os.getpid(), -1 if info is None else info.id, number


class Stream(IterableDataset):
    """start .. end - 1; divided among the workers by `get_worker_info` where ``is_divided``."""

    def __init__(self, end, start=0, is_divided=True, shares=None):
        self.start, self.end, self.is_divided, self.shares = start, end, is_divided, shares

    def __iter__(self):
        info = get_worker_info()
        if info is None or not self.is_divided:
            return iter(range(self.start, self.end))
        if self.shares is not None:  # of different lengths
            return iter(range(100 * info.id, 100 * info.id + self.shares[info.id]))
        return iter(range(self.start + info.id, self.end, info.num_workers))


def begin_at_the_workers_share(number):
    """A ``worker_init_fn`` that changes the worker's own copy of the data set, as PyTorch's documentation does."""
    info = get_worker_info()
    info.dataset.start = number * 10
    info.dataset.end = number * 10 + 3
