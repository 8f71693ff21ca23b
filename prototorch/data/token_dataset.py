"""Data sets of token ids: texts of different lengths, padded as they are read; windows of one long text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from prototorch.data.dataset import Columns, Dataset
from prototorch.data.fingerprint import update_with_array
from prototorch.errors import DataError
from prototorch.spec import Spec

__all__ = ["TokenDataset", "TokenSequences", "WindowDataset"]

MAX_PADDED_BYTES = 1 << 28  # of a column that is also held padded, for the checks before the first step


class TokenSequences:
    """Sequences of ids of different lengths, without padding.

    Attributes:
        ids: all of them, int32 [total]. offsets: where each begins, int64 [n + 1]. length: of a padded sequence; longer
        ones are cut. padding: the id behind the others.
    """

    def __init__(self, sequences: Sequence[Sequence[int]], length: int | None = None, padding: int = 0):
        self.padding = padding
        sizes = np.fromiter(map(len, sequences), np.int64, len(sequences))
        self.offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        self.ids = np.fromiter((i for row in sequences for i in row), np.int32, int(self.offsets[-1]))
        self.length = length or max(int(sizes.max(initial=0)), 1)
        self.lengths = np.minimum(sizes, self.length)

    def __len__(self) -> int:
        return len(self.lengths)

    def read(self, indices: np.ndarray) -> np.ndarray:
        """The sequences with these indices, padded: int32 [n, length]."""
        steps = np.arange(self.length)
        counts = steps < self.lengths[indices][:, None]
        out = np.full(counts.shape, self.padding, np.int32)
        out[counts] = self.ids[(self.offsets[indices][:, None] + steps)[counts]]
        return out

    @cached_property
    def padded(self) -> np.ndarray | None:
        """All sequences, None where that takes more than `MAX_PADDED_BYTES`."""
        return self.read(np.arange(len(self))) if 4 * len(self) * self.length <= MAX_PADDED_BYTES else None


class TokenDataset(Dataset):
    """Samples of one or several texts each, as ids, and columns of numbers, as class labels.

    Args:
        sequences: column -> ids, in the order of the samples.
        columns: the other columns, arrays [n, ...].
        inputs, targets, classes, name: as for `Dataset`.
        origins: where the samples are from, for messages; one for each, or one with ``{}`` for the number from 1.
    """

    is_cheap = True

    def __init__(
        self,
        sequences: Mapping[str, TokenSequences],
        columns: Mapping[str, np.ndarray],
        inputs: Sequence[str],
        targets: Sequence[str] = (),
        *,
        classes: Mapping[str, tuple[str, ...]] | None = None,
        name: str = "texts",
        origins: Sequence[str] | str = "{}",
        sorted_by_class: bool = False,
    ):
        self._sequences, self._arrays, self._origins = dict(sequences), dict(columns), origins
        self.inputs, self.targets, self.name = tuple(inputs), tuple(targets), name
        self.classes, self.sorted_by_class = dict(classes or {}), sorted_by_class
        self.columns = {
            **{column: Spec((ids.length,), "int32") for column, ids in self._sequences.items()},
            **{column: Spec(array.shape[1:], array.dtype.name) for column, array in self._arrays.items()},
        }
        if not len(self):
            raise DataError(f"{name}: has no texts")

    def __len__(self) -> int:
        return len(next(iter(self._sequences.values())))

    def read(self, indices: np.ndarray) -> Columns:
        return {
            **{column: ids.read(indices) for column, ids in self._sequences.items()},
            **{column: array[indices] for column, array in self._arrays.items()},
        }

    def origin(self, index: int) -> str:
        if isinstance(self._origins, str):
            return self._origins.replace("{}", str(index + 1))
        return self._origins[index]

    def column_array(self, column: str) -> np.ndarray | None:
        return self._arrays[column] if column in self._arrays else self._sequences[column].padded

    def sequence_lengths(self) -> dict[str, np.ndarray]:
        return {column: ids.lengths for column, ids in self._sequences.items()}

    def update_fingerprint(self, digest: Any) -> None:
        for column, ids in sorted(self._sequences.items()):
            digest.update(f"{column} {ids.length}".encode())
            update_with_array(digest, column, ids.ids)
            update_with_array(digest, f"{column} offsets", ids.offsets)
        for column, array in sorted(self._arrays.items()):
            update_with_array(digest, column, array)


class WindowDataset(Dataset):
    """Windows of one long text: the ids from a position on, and as the target those one position later.

    Args:
        ids: of the whole text, int32 [total].
        length: of a window; stride: from the begin of one to that of the next. What does not fill a window is left out.
        input, target: the columns' names.
        name: for messages.

    Raises:
        DataError: the text is not longer than a window.
    """

    is_cheap = True

    def __init__(
        self, ids: np.ndarray, length: int, stride: int, *, input: str = "x", target: str = "y", name: str = "text"
    ):
        if len(ids) <= length:
            raise DataError(
                f"{name}: the text has {len(ids):,} tokens; a window of {length:,} and its target need one "
                "token more than the window"
            )
        self._ids, self._stride = ids, stride
        self._windows = np.lib.stride_tricks.sliding_window_view(ids, length)
        self.name, self.inputs, self.targets = name, (input,), (target,)
        self.columns = dict.fromkeys((input, target), Spec((length,), ids.dtype.name))

    def __len__(self) -> int:
        return (len(self._windows) - 2) // self._stride + 1

    def read(self, indices: np.ndarray) -> Columns:
        starts = indices * self._stride
        return {self.inputs[0]: self._windows[starts], self.targets[0]: self._windows[starts + 1]}

    def origin(self, index: int) -> str:
        return f"{self.name}, token {index * self._stride + 1}"

    def column_array(self, column: str) -> np.ndarray | None:
        first = 0 if column in self.inputs else 1
        return self._windows[first :: self._stride][: len(self)]

    def sequence_lengths(self) -> dict[str, np.ndarray]:
        return {column: np.full(len(self), spec.shape[0]) for column, spec in self.columns.items()}

    def update_fingerprint(self, digest: Any) -> None:
        digest.update(f"windows {self.columns[self.inputs[0]].shape[0]} {self._stride}".encode())
        update_with_array(digest, "ids", self._ids)
