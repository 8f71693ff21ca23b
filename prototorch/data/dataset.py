"""What a data set is: a number of samples, named columns, and a way to read some of them."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

import numpy as np

from prototorch.data.shuffling import permutation
from prototorch.errors import DataError, did_you_mean
from prototorch.spec import Spec

Columns = dict[str, np.ndarray]


class SampleError(DataError):
    """One sample that cannot be read; with ``on_error="skip"`` the loader leaves it out and counts it.

    ``index`` is its place in the data set, ``origin`` its file or row.
    """

    def __init__(self, message: str, index: int, origin: str):
        super().__init__(message)
        self.index, self.origin = index, origin


class Dataset(ABC):
    """Samples in named columns.

    columns: what each column holds, the batch dimension left out; images are channels-first.
    inputs, targets: which columns go into the model and which it learns, in order.
    weight: the column of sample weights, if there is one.
    classes: names of the classes of a target column, where they are known: index = label.
    name: for messages.
    sorted_by_class: samples of a class lie together, so that the first n of them are no fair choice.
    cheap: reading is copying memory, which is not worth a thread for small batches.
    grain: so many samples are worth being read by a thread of their own, each taking its time for itself; None where
        a batch is better read in one piece.
    most_threads: more threads than these do not make reading faster; None where nothing is known.
    """

    name: str = "data"
    columns: Mapping[str, Spec]
    inputs: tuple[str, ...]
    targets: tuple[str, ...]
    weight: str | None = None
    classes: Mapping[str, tuple[str, ...]] = {}
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

    @abstractmethod
    def origin(self, index: int) -> str:
        """Where a sample comes from, for messages: a file's path, or a file and a row."""

    def column_array(self, column: str) -> np.ndarray | None:
        """The whole column [len, ...] where it is in memory already, else None."""
        return None

    def subset(self, indices: np.ndarray) -> Dataset:
        """A view of some samples, in the order of ``indices``."""
        return Subset(self, indices)

    def take(self, count: int) -> Dataset:
        """The first ``count`` samples; of a set sorted by class, ``count`` drawn with a fixed seed, order kept.

        Raises:
            DataError: ``count`` < 1.
        """
        if count < 1:
            raise DataError(f"{self.name}: a limit of {count} samples leaves nothing; give 1 or more")
        if count >= len(self):
            return self
        if self.sorted_by_class:
            return self.subset(np.sort(permutation(len(self), 0, 0)[:count]))
        return self.subset(np.arange(count))

    def split(self, fraction: float) -> tuple[Dataset, Dataset]:
        """(training part, validation part): the last ``fraction`` of the samples validates, as in Keras.

        Of a set sorted by class the validation part is drawn with a fixed seed instead, order kept.

        Raises:
            DataError: ``fraction`` is not between 0 and 1, or one of the parts would be empty.
        """
        if not 0 < fraction < 1:
            raise DataError(f"validation_split is {fraction}; it must lie between 0 and 1 (both excluded)")
        count = len(self)
        at = int(count * (1 - fraction))  # Keras rounds like this
        if at < 1 or at >= count:
            raise DataError(f"{self.name}: validation_split {fraction} of {count} samples leaves one part empty")
        order = permutation(count, 0, 0) if self.sorted_by_class else np.arange(count)
        return self.subset(np.sort(order[:at])), self.subset(np.sort(order[at:]))

    def read_valid(self, indices: np.ndarray) -> tuple[Columns, np.ndarray, list[SampleError]]:
        """As `read`, but without the samples that cannot be read: (columns, the indices kept, what was wrong)."""
        try:
            return self.read(indices), indices, []
        except SampleError:
            pass
        rows, kept, wrong = [], [], []
        for index in indices:
            try:
                rows.append(self.read(np.array([index])))
                kept.append(index)
            except SampleError as error:
                wrong.append(error)
        if not rows:
            return {}, np.array([], np.int64), wrong
        return {name: np.concatenate([r[name] for r in rows]) for name in rows[0]}, np.array(kept, np.int64), wrong

    def with_targets(self, targets: Sequence[str]) -> Dataset:
        """The same set with other columns as targets. Raises DataError for a column that is not there."""
        for column in targets:
            self.column_spec(column)
        other = copy.copy(self)
        other.targets = tuple(targets)
        return other

    def column_spec(self, column: str) -> Spec:
        """What a column holds. Raises DataError naming the columns there are."""
        try:
            return self.columns[column]
        except KeyError:
            have = ", ".join(self.columns)
            raise DataError(
                f"{self.name} has no column {column!r}; it has {have}.{did_you_mean(column, self.columns)}"
            ) from None

    def summary(self) -> str:
        """One line: name, number of samples, columns."""
        shown = ", ".join(f"{name} {spec}" for name, spec in self.columns.items())
        return f"{self.name}: {len(self):,} samples; {shown}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.summary()}>"


class ArrayDataset(Dataset):
    """Columns that are arrays in memory; nothing is copied until a batch is gathered.

    Args:
        columns: name -> array [samples, ...]; all with the same number of samples.
        inputs, targets: which columns are read by the model and which it learns.
        origins: where sample i comes from, as a text with ``{}`` for the row, counted from ``first_row``.

    Raises:
        DataError: no columns, unequal numbers of samples, or elements that are no numbers.
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
        self._origins, self._first = origins or f"{name}, row {{}}", first_row
        self._arrays = {column: as_column(array, column, name) for column, array in columns.items()}
        self._count = check_equal_lengths(self._arrays, name)
        self.columns = {c: Spec(a.shape[1:], _dtype_name(a.dtype)) for c, a in self._arrays.items()}

    def __len__(self) -> int:
        return self._count

    def read(self, indices: np.ndarray) -> Columns:
        """Contiguous runs are read-only views, anything else a new array."""
        run = _as_slice(indices)
        if run is None:
            return {name: gather(array, indices) for name, array in self._arrays.items()}
        views = {name: np.ascontiguousarray(array[run]) for name, array in self._arrays.items()}
        for view in views.values():
            view.flags.writeable = False
        return views

    def without_samples(self) -> ArrayDataset:
        """A set of the same columns without samples."""
        columns = {name: np.empty((0, *spec.shape), spec.dtype) for name, spec in self.columns.items()}
        return ArrayDataset(
            columns, self.inputs, self.targets, weight=self.weight, classes=self.classes, name=self.name
        )

    def origin(self, index: int) -> str:
        return self._origins.replace("{}", str(index + self._first))

    def column_array(self, column: str) -> np.ndarray | None:
        return self._arrays.get(column)


class Subset(Dataset):
    """Some samples of another data set."""

    def __init__(self, dataset: Dataset, indices: np.ndarray):
        self._dataset, self._indices = dataset, np.asarray(indices, np.int64)
        self.name, self.columns, self.inputs, self.targets = (
            dataset.name,
            dataset.columns,
            dataset.inputs,
            dataset.targets,
        )
        self.weight, self.classes, self.sorted_by_class = dataset.weight, dataset.classes, dataset.sorted_by_class
        self.is_cheap, self.grain_size, self.max_threads = dataset.is_cheap, dataset.grain_size, dataset.max_threads

    def __len__(self) -> int:
        return len(self._indices)

    def read(self, indices: np.ndarray) -> Columns:
        try:
            return self._dataset.read(self._indices[indices])
        except SampleError as error:
            here = indices[np.flatnonzero(self._indices[indices] == error.index)[0]]
            raise SampleError(str(error), int(here), error.origin) from None

    def origin(self, index: int) -> str:
        return self._dataset.origin(int(self._indices[index]))

    def column_array(self, column: str) -> np.ndarray | None:
        array = self._dataset.column_array(column)
        run = _as_slice(self._indices)
        return None if array is None else array[self._indices if run is None else run]


def gather(array: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """The rows with these indices as a new plain array."""
    if array.flags.c_contiguous:
        return array.take(indices, axis=0)
    return np.ascontiguousarray(array[indices])  # ``take`` would first copy the whole array


def as_column(array: object, column: str, name: str) -> np.ndarray:
    """An array that can be a column: numbers, at least one dimension. Raises DataError naming what is wrong."""
    try:
        out = np.asarray(array)
    except ValueError as error:
        several = isinstance(array, list) and len(array) > 0 and isinstance(array[0], tuple)
        hint = "; batches (x, y) come from a generator, or a function that makes one: a list is one array"
        raise DataError(f"{name}: {column} cannot become an array: {error}{hint if several else ''}") from None
    if out.dtype.kind not in "buif":
        where, value = next(_first_values(out), ("", None))
        value = value.item() if isinstance(value, np.generic) else value
        shown = f"; its first value{where} is {value!r:.60}" if value is not None else ""
        raise DataError(f"{name}: {column} holds {_describe_dtype(out.dtype)}, not numbers{shown}")
    if out.dtype.itemsize > 8:
        raise DataError(f"{name}: {column} has element type {out.dtype}; convert it to float64 or float32")
    if out.ndim == 0:
        raise DataError(
            f"{name}: {column} is the single number {out[()]}; an array with a row for each sample is needed"
        )
    return out if out.dtype.isnative else out.astype(out.dtype.newbyteorder("="))


def check_equal_lengths(arrays: Mapping[str, np.ndarray], name: str) -> int:
    """The number of rows all arrays have. Raises DataError showing each one's where they differ."""
    if not arrays:
        raise DataError(f"{name}: holds no columns")
    counts = {column: len(array) for column, array in arrays.items()}
    if len(set(counts.values())) > 1:
        shown = ", ".join(f"{column} has {count:,}" for column, count in counts.items())
        raise DataError(f"{name}: the columns do not have the same number of rows: {shown}")
    return next(iter(counts.values()))


@cache
def _dtype_name(dtype: np.dtype) -> str:
    return dtype.name  # which NumPy makes anew each time


def _as_slice(indices: np.ndarray) -> slice | None:
    count = len(indices)
    if not count or indices[-1] - indices[0] != count - 1 or (indices[1:] - indices[:-1] != 1).any():
        return None
    return slice(int(indices[0]), int(indices[0]) + count)


def _first_values(array: np.ndarray) -> Iterator[tuple[str, object]]:
    for where in np.ndindex(array.shape):
        yield (f" (row {where[0]})" if where else ""), array[where]


def _describe_dtype(dtype: np.dtype) -> str:
    kinds = {"U": "text", "S": "bytes", "O": "Python objects", "c": "complex numbers", "M": "dates", "m": "durations"}
    return kinds.get(dtype.kind, str(dtype))
