"""Samplers, by PyTorch's names: iterables of indices, or of batches of indices, in the order of an epoch."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Generic, TypeVar

import numpy as np

from prototorch.data.shuffling import permutation, philox
from prototorch.eager.generator import Generator, keys_of
from prototorch.errors import UsageError

__all__ = [
    "BatchSampler", "DistributedSampler", "RandomSampler", "Sampler", "SequentialSampler", "SubsetRandomSampler",
    "WeightedRandomSampler",
]  # fmt: skip

T_co = TypeVar("T_co", covariant=True)


class Sampler(Generic[T_co]):
    """A subclass defines ``__iter__``, which gives indices or lists of indices, and may define ``__len__``."""

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(f"{type(self).__name__} must define __iter__(), which gives indices")


class SequentialSampler(Sampler[int]):
    """0, 1, ... len(data_source) - 1."""

    def __init__(self, data_source: Sized):
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """Indices in random order.

    Args:
        data_source: the data set.
        replacement: whether an index may come several times.
        num_samples: the number of indices of an epoch; default: the data set's length. More of them, without
            replacement, are several orders one after another.
        generator: the source of the order; default: that of `prototorch.manual_seed`.

    Raises UsageError for an empty data set, a ``num_samples`` that is no positive integer, another ``replacement``.
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ):
        if not isinstance(replacement, bool):
            raise TypeError(f"replacement must be True or False, got {replacement!r}")
        self.data_source, self.replacement, self.generator = data_source, replacement, generator
        self._num_samples = num_samples
        keys_of(generator)
        if not isinstance(self.num_samples, int) or self.num_samples <= 0:
            raise UsageError(f"num_samples must be a positive integer, got {self.num_samples!r}")

    @property
    def num_samples(self) -> int:
        """The number of indices of an epoch."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        count, keys = len(self.data_source), keys_of(self.generator)
        if self.replacement:
            yield from keys.next_generator().integers(0, count, self.num_samples).tolist()
            return
        remaining = self.num_samples
        while remaining > 0:
            yield from permutation(count, *keys.next_pair())[:remaining].tolist()
            remaining -= count

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """The given indices in random order. generator: as for `RandomSampler`."""

    def __init__(self, indices: Sequence[int], generator: Generator | None = None):
        self.indices, self.generator = indices, generator
        keys_of(generator)

    def __iter__(self) -> Iterator[int]:
        for index in permutation(len(self.indices), *keys_of(self.generator).next_pair()).tolist():
            yield self.indices[index]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Indices 0 .. len(weights) - 1, drawn with these probabilities, which need not add up to 1.

    Args:
        weights: a number that is not negative for each index.
        num_samples: the number of indices of an epoch.
        replacement: whether an index may come several times.
        generator: as for `RandomSampler`.

    Raises UsageError for weights that are negative, not finite, all 0, or too few for ``num_samples``.
    """

    def __init__(
        self, weights: Sequence[float], num_samples: int, replacement: bool = True, generator: Generator | None = None
    ):
        if not isinstance(num_samples, int) or isinstance(num_samples, bool) or num_samples <= 0:
            raise UsageError(f"num_samples must be a positive integer, got {num_samples!r}")
        if not isinstance(replacement, bool):
            raise UsageError(f"replacement must be True or False, got {replacement!r}")
        values = np.asarray(weights, np.float64)
        if values.ndim != 1:
            raise UsageError(f"weights must be one number for each index, got the shape {list(values.shape)}")
        if not (np.isfinite(values).all() and (values >= 0).all() and values.sum() > 0):
            raise UsageError("weights must be finite numbers of at least 0, not all of them 0")
        if not replacement and num_samples > np.count_nonzero(values):
            raise UsageError(
                f"{num_samples} samples without replacement need as many weights above 0, got "
                f"{np.count_nonzero(values)}"
            )
        self.weights, self.num_samples, self.replacement, self.generator = values, num_samples, replacement, generator
        keys_of(generator)

    def __iter__(self) -> Iterator[int]:
        rng = keys_of(self.generator).next_generator()
        share = self.weights / self.weights.sum()
        return iter(rng.choice(len(share), self.num_samples, self.replacement, share).tolist())

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Batches of the indices of another sampler; with ``drop_last`` without a last batch that is not full."""

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool = False):
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise UsageError(f"batch_size must be a positive integer, got {batch_size!r}")
        if not isinstance(drop_last, bool):
            raise UsageError(f"drop_last must be True or False, got {drop_last!r}")
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if len(batch) < self.batch_size and self.drop_last:
                return
            yield batch

    def __len__(self) -> int:
        count = len(self.sampler)  # type: ignore[arg-type]
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)


class DistributedSampler(Sampler[int]):
    """The share of one process (``rank`` of ``num_replicas``) of a data set; `set_epoch` begins a new order.

    The shares have one length: with ``drop_last`` the last samples are left out, otherwise the first ones come twice.
    Both numbers must be given: prototorch trains in one process. Raises UsageError otherwise.
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ):
        if num_replicas is None or rank is None:
            raise UsageError("DistributedSampler needs num_replicas and rank: there is no process group to ask")
        if not 0 <= rank < num_replicas:
            raise UsageError(f"rank must lie in 0 .. {num_replicas - 1}, got {rank}")
        self.dataset, self.num_replicas, self.rank = dataset, num_replicas, rank
        self.shuffle, self.seed, self.drop_last, self.epoch = shuffle, seed, drop_last, 0
        count = len(dataset)
        self.num_samples = count // num_replicas if drop_last else math.ceil(count / num_replicas)
        self.total_size = self.num_samples * num_replicas

    def set_epoch(self, epoch: int) -> None:
        """The order of the next iteration is that of this epoch."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        count = len(self.dataset)
        order = permutation(count, self.seed, self.epoch) if self.shuffle else np.arange(count)
        return iter(np.resize(order, self.total_size)[self.rank :: self.num_replicas].tolist())

    def __len__(self) -> int:
        return self.num_samples


def draw_seed(generator: Generator | None) -> int:
    """The seed of an epoch's workers, a random integer below 2**63."""
    return int(philox(*keys_of(generator).next_pair(), stream=3).random_raw()) >> 1
