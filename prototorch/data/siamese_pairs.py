"""Pairs of samples for Siamese networks, which learn whether both have the same class."""

from __future__ import annotations

from typing import Any

import numpy as np

from prototorch.data.dataset import Columns, Dataset
from prototorch.data.fingerprint import update_with_array
from prototorch.data.shuffling import philox
from prototorch.errors import DataError
from prototorch.spec import Spec

__all__ = ["SiamesePairs"]


class SiamesePairs(Dataset):
    """Each sample with a partner: half of the partners have the same class, half another one. The pairs are fixed.

    Columns: ``left`` and ``right`` (as the one input of ``dataset``), ``same`` (int64 []: 1 for equal classes, else 0).

    Args:
        dataset: a data set with one input and with its class labels in memory.
        seed: seed of the pairing.

    Raises:
        DataError: more than one input, no labels in memory, or only one class.
    """

    inputs = ("left", "right")
    targets = ("same",)

    def __init__(self, dataset: Dataset, seed: int = 0):
        labels = dataset.column_array(dataset.targets[0]) if len(dataset.targets) == 1 else None
        if len(dataset.inputs) != 1 or labels is None or labels.ndim != 1:
            raise DataError(f"{dataset.name}: pairs need one input and one label per sample, got {dataset!r}")
        self._dataset, self._input = dataset, dataset.inputs[0]
        self._partner, self._is_same_class = _draw_partners(labels, seed, dataset.name)
        spec = dataset.columns[self._input]
        self.columns = {"left": spec, "right": spec, "same": Spec((), "int64")}
        self.name = f"pairs of {dataset.name}"
        self.is_cheap, self.grain_size, self.max_threads = dataset.is_cheap, dataset.grain_size, dataset.max_threads

    def __len__(self) -> int:
        return len(self._dataset)

    def read(self, indices: np.ndarray) -> Columns:
        left = self._dataset.read(indices)[self._input]
        right = self._dataset.read(self._partner[indices])[self._input]
        return {"left": left, "right": right, "same": self._is_same_class[indices]}

    def origin(self, index: int) -> str:
        return f"{self._dataset.origin(index)} with {self._dataset.origin(int(self._partner[index]))}"

    @property
    def is_sampled(self) -> bool:
        return self._dataset.is_sampled

    def update_fingerprint(self, digest: Any) -> None:
        self._dataset.update_fingerprint(digest)
        update_with_array(digest, "partner", self._partner)

    def column_array(self, column: str) -> np.ndarray | None:
        return self._is_same_class if column == "same" else None


def _draw_partners(labels: np.ndarray, seed: int, name: str) -> tuple[np.ndarray, np.ndarray]:
    """For each sample the index of its partner, and 1 where both have the same class; both int64 [n]."""
    classes, codes = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise DataError(f"{name}: all samples have the same label; pairs of different classes need at least 2 classes")
    count = len(labels)
    draws = philox(seed, 0, stream=3).random_raw(3 * count).reshape(3, count)
    same = (draws[0] >> np.uint64(63)).astype(np.int64)
    step = 1 + (draws[1] % np.uint64(len(classes) - 1)).astype(np.int64)
    partner_class = np.where(same == 1, codes, (codes + step) % len(classes))
    order = np.argsort(codes, kind="stable")
    sizes = np.bincount(codes)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    offset = (draws[2] % sizes[partner_class].astype(np.uint64)).astype(np.int64)
    return order[starts[partner_class] + offset], same
