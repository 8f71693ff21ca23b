"""Data sets of samples, by PyTorch's names: those that are indexed, and those that are iterated."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from prototorch.eager.tensor import Tensor
from prototorch.errors import UsageError
from prototorch.utils.data.arrays import row, rows

__all__ = ["ChainDataset", "ConcatDataset", "Dataset", "IterableDataset", "StackDataset", "Subset", "TensorDataset"]

T_co = TypeVar("T_co", covariant=True)


class Dataset(Generic[T_co]):
    """Samples by index: a subclass defines ``__getitem__(index)``, and ``__len__``, which most samplers need.

    It may define ``__getitems__(indices)``, which gives a list of samples, to read a batch in one call.
    """

    def __getitem__(self, index: Any) -> T_co:
        raise NotImplementedError(f"{type(self).__name__} must define __getitem__(index), which gives a sample")

    def __add__(self, other: Dataset[Any]) -> ConcatDataset:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co]):
    """Samples in the order in which ``__iter__``, which a subclass defines, gives them: a stream.

    Each of several workers of a `DataLoader` iterates its own copy: without a division of the work by
    `get_worker_info` every sample comes once from each worker.
    """

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(f"{type(self).__name__} must define __iter__(), which gives its samples")

    def __add__(self, other: Dataset[Any]) -> ChainDataset:  # type: ignore[override]
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Samples (first[i], second[i], ...) of tensors with equal first sizes.

    Raises UsageError where there are none, one is no tensor or has no axis, or the sizes differ.
    """

    def __init__(self, *tensors: Tensor):
        for tensor in tensors:
            if not isinstance(tensor, Tensor):
                kind = type(tensor).__name__
                raise UsageError(f"TensorDataset takes tensors, got a {kind}: prototorch.tensor(...) makes one of it")
            if not tensor.ndim:
                raise UsageError("TensorDataset takes tensors with an axis of samples, got a scalar")
        sizes = [tensor.shape[0] for tensor in tensors]
        if len(set(sizes)) != 1:
            raise UsageError(f"TensorDataset takes tensors with equal first sizes, got {sizes or 'no tensor'}")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        if isinstance(index, int | np.integer):
            check_index(self, int(index))
            return tuple(row(tensor, int(index)) for tensor in self.tensors)
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return int(self.tensors[0].shape[0])

    def read_batch(self, indices: np.ndarray) -> list[Tensor]:
        """What `default_collate` makes of the samples with these indices, in one copy for each tensor."""
        return [rows(tensor, indices) for tensor in self.tensors]


class StackDataset(Dataset[Any]):
    """Samples of several data sets of one length together: tuples, or dicts where they are given by name.

    Raises UsageError where there are none, both forms are mixed, or the lengths differ.
    """

    def __init__(self, *args: Any, **kwargs: Any):
        if bool(args) == bool(kwargs):
            raise UsageError("StackDataset takes data sets, all by position (tuples) or all by name (dicts)")
        self.datasets: Any = kwargs or args
        sizes = [len(dataset) for dataset in (kwargs.values() if kwargs else args)]
        if len(set(sizes)) != 1:
            raise UsageError(f"StackDataset takes data sets of one length, got {sizes}")
        self._length = sizes[0]

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, Mapping):
            return {name: dataset[index] for name, dataset in self.datasets.items()}
        return tuple(dataset[index] for dataset in self.datasets)

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        if isinstance(self.datasets, Mapping):
            columns = [self._read(dataset, indices) for dataset in self.datasets.values()]
            return [dict(zip(self.datasets, sample, strict=True)) for sample in zip(*columns, strict=True)]
        return list(zip(*(self._read(dataset, indices) for dataset in self.datasets), strict=True))

    def __len__(self) -> int:
        return self._length

    @staticmethod
    def _read(dataset: Any, indices: Sequence[int]) -> Sequence[Any]:
        if not callable(getattr(dataset, "__getitems__", None)):
            return [dataset[index] for index in indices]
        samples: Sequence[Any] = dataset.__getitems__(indices)
        if len(samples) != len(indices):
            raise UsageError(
                f"{type(dataset).__name__}.__getitems__ gave {len(samples)} samples for {len(indices)} indices"
            )
        return samples


class ConcatDataset(Dataset[T_co]):
    """The samples of several data sets one after another. Raises UsageError where there are none or one is a stream."""

    def __init__(self, datasets: Iterable[Any]):
        self.datasets = list(datasets)
        if not self.datasets:
            raise UsageError("ConcatDataset takes one or more data sets, got none")
        if any(isinstance(dataset, IterableDataset) for dataset in self.datasets):
            raise UsageError("ConcatDataset takes data sets with indices; ChainDataset joins IterableDatasets")
        self.cumulative_sizes = list(itertools.accumulate(len(dataset) for dataset in self.datasets))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: Any) -> T_co:
        check_index(self, index)
        index = index + len(self) if index < 0 else index
        which = bisect.bisect_right(self.cumulative_sizes, index)
        sample: T_co = self.datasets[which][index - (self.cumulative_sizes[which - 1] if which else 0)]
        return sample


class ChainDataset(IterableDataset[Any]):
    """The samples of several `IterableDataset`\\ s one after another. Raises UsageError where one is no stream."""

    def __init__(self, datasets: Iterable[Any]):
        self.datasets = datasets

    def __iter__(self) -> Iterator[Any]:
        for dataset in self.datasets:
            self._check(dataset)
            yield from dataset

    def __len__(self) -> int:
        for dataset in self.datasets:
            self._check(dataset)
        return sum(len(dataset) for dataset in self.datasets)

    @staticmethod
    def _check(dataset: Any) -> None:
        if not isinstance(dataset, IterableDataset):
            raise UsageError(
                f"ChainDataset takes IterableDatasets, got a {type(dataset).__name__}; ConcatDataset joins those "
                "with indices"
            )


class Subset(Dataset[T_co]):
    """The samples of a data set with these indices, in their order."""

    def __init__(self, dataset: Any, indices: Sequence[int]):
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, index: Any) -> T_co:
        if isinstance(index, list):
            index = [self.indices[i] for i in index]
        else:
            check_index(self, index)
            index = self.indices[index]
        sample: T_co = self.dataset[index]
        return sample

    def __getitems__(self, indices: Sequence[int]) -> list[T_co]:
        inner = [self.indices[index] for index in indices]
        if callable(getattr(self.dataset, "__getitems__", None)):
            samples: list[T_co] = self.dataset.__getitems__(inner)
            return samples
        return [self.dataset[index] for index in inner]

    def __len__(self) -> int:
        return len(self.indices)


def check_index(dataset: Any, index: Any) -> None:
    """Raise IndexError where a data set has no sample with this index."""
    if not -len(dataset) <= index < len(dataset):
        raise IndexError(f"sample {index} of a {type(dataset).__name__} of {len(dataset)} samples")
