"""Data sets: a number of samples, named columns, and random access by sample indices."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from prototorch.data.columns import as_column, as_slice, check_equal_lengths, dtype_name, gather
from prototorch.data.fingerprint import update_with_array
from prototorch.data.shuffling import permutation
from prototorch.data.table_columns import TableColumns
from prototorch.errors import DataError, did_you_mean
from prototorch.spec import Spec

__all__ = ["ArrayDataset", "Columns", "Dataset", "SampleError"]

Columns = dict[str, np.ndarray]


class SampleError(DataError):
    """A sample that cannot be read; with ``on_error="skip"`` the loader leaves it out and counts it.

    ``index`` is its index in the data set, ``origin`` its file or row.
    """

    def __init__(self, message: str, index: int, origin: str):
        super().__init__(message)
        self.index, self.origin = index, origin


class Dataset(ABC):
    """Samples in named columns.

    columns: column name -> shape and dtype of one sample; images are channels-first.
    inputs, targets: the columns that the model reads and those that it learns, in order.
    weight: the column of sample weights, or None.
    classes: target column -> class names, where they are known; the index in the tuple is the label.
    name: for messages.
    table_columns: the names of the columns of a table that form the inputs and the targets, where they have names.
    needs_encoding: whether it is rows of a table whose values are still to become numbers.
    sorted_by_class: whether samples of a class are adjacent, so that the last n of them are a biased choice.
    is_cheap: whether reading only copies memory, which does not justify a thread for small batches.
    grain_size: the number of samples from which a separate thread is worthwhile; None if a batch must be read whole.
    max_threads: the number of threads beyond which reading does not become faster; None if unknown.
    """

    name: str = "data"
    columns: Mapping[str, Spec]
    inputs: tuple[str, ...]
    targets: tuple[str, ...]
    weight: str | None = None
    classes: Mapping[str, tuple[str, ...]] = {}
    table_columns: TableColumns = TableColumns()
    needs_encoding: bool = False
    sorted_by_class: bool = False
    is_cheap: bool = False
    grain_size: int | None = None
    max_threads: int | None = None

    @abstractmethod
    def __len__(self) -> int:
        """The number of samples."""

    @abstractmethod
    def read(self, indices: np.ndarray) -> Columns:
        """The samples with these indices (int64 [n], each in 0..len-1), stacked: column name -> array [n, ...].

        Raises:
            SampleError: one of them cannot be read.
        """

    def read_into(self, indices: np.ndarray, outs: Mapping[str, np.ndarray]) -> Columns:
        """As `read`, with the samples of some columns written to arrays that are given: column -> array [n, ...] of the
        column's dtype. These arrays are in the result; a column that `read` gives in another shape or dtype is not
        copied."""
        columns = dict(self.read(indices))
        for name, out in outs.items():
            array = columns[name]
            if array.shape == out.shape and array.dtype == out.dtype:
                out[...] = array
                columns[name] = out
        return columns

    @abstractmethod
    def origin(self, index: int) -> str:
        """The source of a sample, for messages: a file's path, or a file and a row."""

    def column_array(self, column: str) -> np.ndarray | None:
        """The whole column [len, ...] if it is in memory, else None."""
        return None

    def sequence_lengths(self) -> dict[str, np.ndarray]:
        """The columns that are sequences of token ids, padded at the end with 0, and how many each sample has before
        the padding: int64 [len]."""
        return {}

    @property
    def is_encoded(self) -> bool:
        """Whether elements stand for classes, words or parts of dates, so that some may well be the same in all
        samples."""
        return False

    @property
    def is_sampled(self) -> bool:
        """Whether it consists of samples that were drawn at random from another set."""
        return False

    def update_fingerprint(self, digest: Any) -> None:
        """Feed what identifies the samples to a hash; see `prototorch.data.fingerprint`. By default the specs and the
        columns that are in memory."""
        digest.update(f"{len(self)} {self.summary()}".encode("utf-8", "surrogateescape"))
        for column in self.columns:
            array = self.column_array(column)
            if array is not None:
                update_with_array(digest, column, array)

    def subset(self, indices: np.ndarray) -> Dataset:
        """A view of the samples with these indices, in this order."""
        return Subset(self, indices)

    def sample(self, count: int, seed: int = 0) -> Dataset:
        """``count`` samples drawn by ``seed``, in the order of the set; all of them if there are not more.

        Raises:
            DataError: ``count`` < 1.
        """
        if count < 1:
            raise DataError(f"{self.name}: the limit must be at least 1 sample, got {count}")
        if count >= len(self):
            return self
        return self.subset(np.sort(permutation(len(self), seed, 0)[:count]))

    def split(self, fraction: float, seed: int | None = None) -> tuple[Dataset, Dataset]:
        """(training set, validation set): the last ``fraction`` of the samples validates, as in Keras.

        With a ``seed`` the validation samples are drawn at random instead, so that a set that is sorted by class (or in
        any other way) has all classes on both sides; so they are, with a fixed seed, of a set that is known to be
        sorted by class. The order of the samples stays.

        Raises:
            DataError: ``fraction`` is not between 0 and 1, or one of the two sets would be empty.
        """
        if not 0 < fraction < 1:
            raise DataError(f"validation_split is {fraction}; it must lie between 0 and 1 (both excluded)")
        count = len(self)
        at = int(count * (1 - fraction))  # Keras rounds like this
        if at < 1 or at >= count:
            raise DataError(
                f"{self.name}: validation_split {fraction} of {count} samples leaves one part empty: expected at least "
                "one sample in each; give validation_data, or more samples"
            )
        if seed is None:
            order = permutation(count, 0, 0) if self.sorted_by_class else np.arange(count)
        else:
            order = permutation(count, seed, 0)
        return self.subset(np.sort(order[:at])), self.subset(np.sort(order[at:]))

    def read_valid(self, indices: np.ndarray) -> tuple[Columns, np.ndarray, list[SampleError]]:
        """As `read`, without the samples that cannot be read: (columns, indices of the samples read, errors)."""
        try:
            return self.read(indices), indices, []
        except SampleError:
            pass
        rows, valid, errors = [], [], []
        for index in indices:
            try:
                rows.append(self.read(np.array([index])))
                valid.append(index)
            except SampleError as error:
                errors.append(error)
        if not rows:
            return {}, np.array([], np.int64), errors
        return {name: np.concatenate([r[name] for r in rows]) for name in rows[0]}, np.array(valid, np.int64), errors

    def label_name(self, column: str, label: int) -> str:
        """A class label for messages: its name in quotes where it is known, else the number."""
        names = self.classes.get(column, ())
        return repr(names[label]) if 0 <= label < len(names) else str(label)

    def with_targets(self, targets: Sequence[str]) -> Dataset:
        """The same set with these columns as targets. Raises DataError for an unknown column."""
        for column in targets:
            self.column_spec(column)
        other = copy.copy(self)
        other.targets = tuple(targets)
        return other

    def column_spec(self, column: str) -> Spec:
        """Shape and dtype of one sample of a column. Raises DataError, with the known columns, for an unknown one."""
        try:
            return self.columns[column]
        except KeyError:
            listing = ", ".join(self.columns)
            raise DataError(
                f"{self.name} has no column {column!r}; it has {listing}.{did_you_mean(column, self.columns)}"
            ) from None

    def match_inputs(self, names: Sequence[str]) -> dict[str, str]:
        """Input of a model -> the column that feeds it: by name if all names are columns, otherwise by order.

        Raises DataError where the numbers differ, with the columns.
        """
        return self._match(names, self.inputs, "input")

    def match_targets(self, names: Sequence[str], declared: Mapping[str, str]) -> dict[str, str]:
        """Output of a model -> the column that it learns; declared: the column of outputs that name theirs. The others
        are matched as inputs are; one column may serve several outputs. Raises DataError as `match_inputs`, and for an
        unknown column."""
        for column in declared.values():
            self.column_spec(column)
        unnamed = [output for output in names if output not in declared]
        available = tuple(t for t in self.targets if t not in declared.values() or len(unnamed) == len(self.targets))
        return {**(self._match(unnamed, available, "output") if unnamed else {}), **declared}

    def _match(self, names: Sequence[str], available: tuple[str, ...], kind: str) -> dict[str, str]:
        """Name of the model -> column, by name or else by order."""
        if names and all(name in available for name in names):
            return {name: name for name in names}
        if len(names) == len(available):
            return dict(zip(names, available, strict=True))
        if kind == "output" and len(available) == 1:
            return dict.fromkeys(names, available[0])
        listing = ", ".join(f"{name} {self.columns[name]}" for name in available) or "none"
        raise DataError(
            f"{self.name}: the model's {kind}s are {', '.join(names) or 'none'}; "
            f"the data's {'inputs' if kind == 'input' else 'targets'} are {listing}"
        )

    def summary(self) -> str:
        """One line: name, number of samples, columns."""
        listing = ", ".join(f"{name} {spec}" for name, spec in self.columns.items())
        return f"{self.name}: {len(self):,} samples; {listing}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.summary()}>"


class ArrayDataset(Dataset):
    """Columns that are arrays in memory; nothing is copied until a batch is gathered.

    Args:
        columns: name -> array [samples, ...]; all of the same length.
        inputs, targets: the columns that the model reads and those that it learns.
        weight: the column of sample weights, or None.
        classes: target column -> class names.
        name: for messages.
        origins: the source of a sample, a text with ``{}`` for the row, which is counted from ``first_row``.

    Raises:
        DataError: no columns, different numbers of samples, or elements that are not numbers.
    """

    is_cheap = True

    def __init__(
        self,
        columns: Mapping[str, np.ndarray],
        inputs: Sequence[str],
        targets: Sequence[str] = (),
        *,
        weight: str | None = None,
        classes: Mapping[str, tuple[str, ...]] | None = None,
        name: str = "data",
        origins: str = "",
        first_row: int = 0,
    ):
        self.name, self.inputs, self.targets, self.weight = name, tuple(inputs), tuple(targets), weight
        self.classes = dict(classes or {})
        self._origins, self._first_row = origins or f"{name}, row {{}}", first_row
        self._arrays = {column: as_column(array, column, name) for column, array in columns.items()}
        self._count = check_equal_lengths(self._arrays, name)
        self.columns = {c: Spec(a.shape[1:], dtype_name(a.dtype)) for c, a in self._arrays.items()}
        self._sequences: tuple[str, ...] = ()

    def mark_sequences(self, columns: Sequence[str]) -> None:
        """Say which columns are sequences of token ids, see `sequence_lengths`."""
        self._sequences = tuple(columns)

    def sequence_lengths(self) -> dict[str, np.ndarray]:
        lengths = {}
        for column in self._sequences:
            steps = self._arrays[column].reshape(len(self), -1) != 0
            lengths[column] = np.where(steps.any(1), steps.shape[1] - steps[:, ::-1].argmax(1), 0)
        return lengths

    def __len__(self) -> int:
        return self._count

    def read(self, indices: np.ndarray) -> Columns:
        """As `Dataset.read`; consecutive indices give read-only views, others a new array."""
        run = as_slice(indices)
        if run is None:
            return {name: gather(array, indices) for name, array in self._arrays.items()}
        views = {name: np.ascontiguousarray(array[run]) for name, array in self._arrays.items()}
        for view in views.values():
            view.flags.writeable = False
        return views

    def read_into(self, indices: np.ndarray, outs: Mapping[str, np.ndarray]) -> Columns:
        run = as_slice(indices)
        columns: Columns = {}
        for name, array in self._arrays.items():
            out = outs.get(name)
            if out is None:
                columns[name] = gather(array, indices)
            else:
                columns[name] = out
                if run is None:
                    gather(array, indices, out)
                else:
                    out[...] = array[run]
        return columns

    def without_samples(self) -> ArrayDataset:
        """A data set of the same columns with 0 samples."""
        columns = {name: np.empty((0, *spec.shape), spec.dtype) for name, spec in self.columns.items()}
        return ArrayDataset(
            columns, self.inputs, self.targets, weight=self.weight, classes=self.classes, name=self.name
        )

    def origin(self, index: int) -> str:
        return self._origins.replace("{}", str(index + self._first_row))

    def column_array(self, column: str) -> np.ndarray | None:
        return self._arrays.get(column)

    def update_fingerprint(self, digest: Any) -> None:
        for column in sorted(self._arrays):
            update_with_array(digest, column, self._arrays[column])


class Subset(Dataset):
    """A view of some samples of another data set."""

    def __init__(self, dataset: Dataset, indices: np.ndarray):
        self._dataset, self._indices = dataset, np.asarray(indices, np.int64)
        self.name, self.columns, self.inputs, self.targets = (
            dataset.name,
            dataset.columns,
            dataset.inputs,
            dataset.targets,
        )
        self.weight, self.classes, self.sorted_by_class = dataset.weight, dataset.classes, dataset.sorted_by_class
        self.table_columns = dataset.table_columns
        self.is_cheap, self.grain_size, self.max_threads = dataset.is_cheap, dataset.grain_size, dataset.max_threads

    def __len__(self) -> int:
        return len(self._indices)

    def read(self, indices: np.ndarray) -> Columns:
        return self.read_into(indices, {})

    def read_into(self, indices: np.ndarray, outs: Mapping[str, np.ndarray]) -> Columns:
        try:
            inner = self._indices[indices]
            return self._dataset.read_into(inner, outs) if outs else self._dataset.read(inner)
        except SampleError as error:
            own_index = indices[np.flatnonzero(self._indices[indices] == error.index)[0]]
            raise SampleError(str(error), int(own_index), error.origin) from None

    def origin(self, index: int) -> str:
        return self._dataset.origin(int(self._indices[index]))

    def sequence_lengths(self) -> dict[str, np.ndarray]:
        return {column: lengths[self._indices] for column, lengths in self._dataset.sequence_lengths().items()}

    @property
    def is_encoded(self) -> bool:
        return self._dataset.is_encoded

    @property
    def is_sampled(self) -> bool:
        return self._dataset.is_sampled or as_slice(self._indices) is None

    def update_fingerprint(self, digest: Any) -> None:
        self._dataset.update_fingerprint(digest)
        update_with_array(digest, "indices", self._indices)

    def column_array(self, column: str) -> np.ndarray | None:
        array = self._dataset.column_array(column)
        run = as_slice(self._indices)
        return None if array is None else array[self._indices if run is None else run]
