"""Which column goes where: a data set seen through the names and shapes of a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from prototorch.data.dataset import Columns, Dataset, SampleError
from prototorch.errors import DataError
from prototorch.spec import Spec

Shape = tuple[int | None, ...]
ColumnAdapter = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class TargetSpec:
    """What the loss of one output wants to be given.

    shape: of one target, the batch dimension left out; for ``"classes"`` () or one position each, e.g. (time,).
    kind: ``"classes"`` whole numbers 0..classes-1; ``"one_hot"`` a distribution over ``axis``; ``"binary"``
        numbers from 0 to 1; ``"values"`` any finite numbers.
    classes: how many classes the output has, for ``"classes"``.
    loss: its name, for messages.
    axis: where the classes of ``"one_hot"`` lie, counted in [batch, ...].
    ignored: for ``"classes"``, a number outside 0..classes-1 that is allowed as well: it does not count.
    """

    shape: Shape
    kind: Literal["classes", "one_hot", "binary", "values"] = "values"
    classes: int | None = None
    loss: str = "the loss"
    axis: int = -1
    ignored_class: int | None = None


@dataclass(frozen=True)
class IndexRange:
    """What a column that is looked up in a table must hold: whole numbers 0..count-1, for the layer of this name."""

    count: int
    layer: str

    def is_out_of_range(self, values: np.ndarray) -> np.ndarray:
        """True where a value lies outside; numbers that are not whole are rounded towards 0, NaN is outside."""
        return ~((values > -1) & (values < self.count))


class BoundDataset(Dataset):
    """A data set whose columns have the shapes a model wants.

    input_of: the model's input -> the column it reads; target_of: the model's output -> the column it learns;
    indices: columns that a layer looks up in a table. Those that are not in memory are checked as they are read.
    """

    def __init__(
        self,
        dataset: Dataset,
        input_columns: dict[str, str],
        target_columns: dict[str, str],
        adapters: dict[str, ColumnAdapter],
        indices: Mapping[str, IndexRange] | None = None,
    ):
        self._dataset, self._fits = dataset, adapters
        self.input_columns, self.target_columns = input_columns, target_columns
        self.indices = {
            input_columns[name]: wanted for name, wanted in (indices or {}).items() if name in input_columns
        }
        self._unseen = [column for column in self.indices if dataset.column_array(column) is None]
        self.name, self.weight, self.classes = dataset.name, dataset.weight, dataset.classes
        self.is_cheap, self.grain_size, self.max_threads = dataset.is_cheap, dataset.grain_size, dataset.max_threads
        self.sorted_by_class = dataset.sorted_by_class
        self.inputs = tuple(dict.fromkeys(input_columns.values()))
        self.targets = tuple(dict.fromkeys(target_columns.values()))
        self.columns = {name: self._spec(name) for name in [*self.inputs, *self.targets]}
        if self.weight is not None:
            self.columns[self.weight] = dataset.columns[self.weight]

    def __len__(self) -> int:
        return len(self._dataset)

    def read(self, indices: np.ndarray) -> Columns:
        return self._fitted(self._checked(self._dataset.read(indices), indices))

    def read_valid(self, indices: np.ndarray) -> tuple[Columns, np.ndarray, list[SampleError]]:
        columns, kept, wrong = self._dataset.read_valid(indices)
        return self._fitted(self._checked(columns, kept)), kept, wrong

    def origin(self, index: int) -> str:
        return self._dataset.origin(index)

    def column_array(self, column: str) -> np.ndarray | None:
        array = self._dataset.column_array(column)
        return array if array is None or column not in self._fits else self._fits[column](array)

    def rebind(self, dataset: Dataset) -> BoundDataset:
        """Another set with the same columns, bound in the same way. Raises DataError for numbers outside a table."""
        other = object.__new__(BoundDataset)
        other.__dict__.update(self.__dict__, _dataset=dataset)
        check_indices_in_memory(other)
        return other

    def arrays_in_memory(self) -> Columns:
        """All columns of a set that is in memory, as they are held."""
        columns = {name: self.column_array(name) for name in self.columns}
        return {name: array for name, array in columns.items() if array is not None}

    def _checked(self, columns: Columns, rows: np.ndarray) -> Columns:
        for column in self._unseen:
            if column in columns:
                check_indices(self, column, columns[column], rows)
        return columns

    def _fitted(self, columns: Columns) -> Columns:
        return {
            name: np.ascontiguousarray(self._fits[name](columns[name])) if name in self._fits else columns[name]
            for name in self.columns
            if name in columns
        }

    def _spec(self, name: str) -> Spec:
        spec = self._dataset.columns[name]
        if name not in self._fits:
            return spec
        return Spec(self._fits[name](np.empty((0, *spec.shape), np.uint8)).shape[1:], spec.dtype)


def bind(
    dataset: Dataset,
    inputs: Mapping[str, Shape],
    targets: Mapping[str, TargetSpec] | None = None,
    columns: Mapping[str, str] | None = None,
    indices: Mapping[str, IndexRange] | None = None,
) -> BoundDataset:
    """The data set as a model sees it.

    Columns are found by name where all the model's names are there, else in order. One target may serve several
    outputs. A shape that differs only by an axis of one, or pictures that are channels-last, are brought into the shape
    wanted.

    Args:
        dataset: any data set.
        inputs: the model's inputs: name -> shape, the batch dimension left out, None where any size will do.
        targets: what the loss of each output wants; None or empty where nothing is learned.
        columns: for outputs whose target column is said: output -> column.
        indices: for inputs that a layer looks up in a table.

    Raises:
        DataError: columns missing, shapes that do not fit, with both shapes, or numbers outside a table.
    """
    targets = targets or {}
    input_of = _match_columns(dataset, list(inputs), dataset.inputs, "input")
    said = {name: column for name, column in (columns or {}).items() if name in targets}
    for column in said.values():
        dataset.column_spec(column)
    free = [name for name in targets if name not in said]
    offered = tuple(t for t in dataset.targets if t not in said.values() or len(free) == len(dataset.targets))
    target_of = {**(_match_columns(dataset, free, offered, "output") if free else {}), **said}
    fits: dict[str, ColumnAdapter] = {}
    for model_name, column in input_of.items():
        fit = _input_adapter(dataset, model_name, column, inputs[model_name])
        if fit is not None:
            fits[column] = fit
    for model_name, column in target_of.items():
        have = dataset.columns[column].shape if column not in fits else inputs[_find_input(input_of, column)]
        fit = _target_adapter(dataset, model_name, column, have, targets[model_name])
        if fit is not None and column not in fits:
            fits[column] = fit
    bound = BoundDataset(dataset, input_of, target_of, fits, indices)
    check_indices_in_memory(bound)
    return bound


def check_indices_in_memory(bound: BoundDataset) -> None:
    """Check the numbers that are looked up in a table, of columns in memory. Raises DataError as `check_indices`."""
    for column in bound.indices:
        values = bound._dataset.column_array(column)
        if values is not None:
            check_indices(bound, column, values)


def check_indices(bound: BoundDataset, column: str, values: np.ndarray, rows: np.ndarray | None = None) -> None:
    """Check numbers [n, ...] that are looked up in a table; ``rows`` are their places in the set (None: all of it).

    Raises DataError naming the first that lies outside, with its row.
    """
    wanted = bound.indices[column]
    if not values.size or not (wanted.is_out_of_range(values.min()) or wanted.is_out_of_range(values.max())):
        return
    bad = wanted.is_out_of_range(values)
    place = tuple(int(i) for i in np.argwhere(bad)[0])
    inside = f"{list(place[1:])}" if len(place) > 1 else ""
    others = int(bad.sum()) - 1
    hint = "; numbers count from 0, so it must take the largest plus 1" if values.max() == wanted.count else ""
    more = f" (and {others:,} more)" if others else ""
    raise DataError(
        f"{bound.origin(place[0] if rows is None else int(rows[place[0]]))}: {column}{inside} is {values[place]}; "
        f"the layer {wanted.layer!r} takes whole numbers from 0 to {wanted.count - 1}{hint}{more}"
    )


def _find_input(input_of: Mapping[str, str], column: str) -> str:
    return next(name for name, read in input_of.items() if read == column)


def _match_columns(dataset: Dataset, wanted: Sequence[str], offered: tuple[str, ...], kind: str) -> dict[str, str]:
    if wanted and all(name in offered for name in wanted):
        return {name: name for name in wanted}
    if len(wanted) == len(offered):
        return dict(zip(wanted, offered, strict=True))
    if kind == "output" and len(offered) == 1:
        return dict.fromkeys(wanted, offered[0])
    have = ", ".join(f"{name} {dataset.columns[name]}" for name in offered) or "none"
    raise DataError(
        f"{dataset.name}: the model's {kind}s are {', '.join(wanted) or 'none'}; "
        f"the data's {'inputs' if kind == 'input' else 'targets'} are {have}"
    )


def is_compatible_shape(have: Shape, want: Shape) -> bool:
    """Whether two shapes are equal where both sizes are known."""
    return len(have) == len(want) and all(a is None or b is None or a == b for a, b in zip(have, want, strict=True))


def _add_first_axis(array: np.ndarray) -> np.ndarray:
    return array[:, None]


def _add_last_axis(array: np.ndarray) -> np.ndarray:
    return array[..., None]


def _drop_last_axis(array: np.ndarray) -> np.ndarray:
    return array[..., 0]


def _move_channels_first(array: np.ndarray) -> np.ndarray:
    return np.moveaxis(array, -1, 1)


def _input_adapter(dataset: Dataset, name: str, column: str, want: Shape) -> ColumnAdapter | None:
    spec = dataset.column_spec(column)
    have = spec.shape
    if is_compatible_shape(have, want):
        return None
    if is_compatible_shape((1, *have), want):
        return _add_first_axis
    if len(have) == len(want) == 3 and is_compatible_shape((have[2], *have[:2]), want):
        return _move_channels_first
    hint = ""
    if have != want and is_compatible_shape((len(dataset), *have), want):
        hint = "; it seems to be a single sample, which is given as an array of one: x[np.newaxis]"
    elif len(want) == len(have) == 3:
        hint = "; pictures are channels-first: [channels, height, width]. A size can be given in the data block"
    elif len(want) == 1 and len(have) > 1:
        hint = "; a Flatten layer makes vectors of them"
    raise DataError(
        f"{dataset.name}: the input {name!r} has shape {_format_shape(want)}, "
        f"the column {column!r} holds {spec} a sample{hint}"
    )


def _target_adapter(dataset: Dataset, name: str, column: str, have: Shape, target: TargetSpec) -> ColumnAdapter | None:
    want = target.shape
    if is_compatible_shape(have, want):
        return None
    if is_compatible_shape((*have, 1), want):
        return _add_last_axis
    if have and have[-1] == 1 and is_compatible_shape(have[:-1], want):
        return _drop_last_axis
    hint = ""
    if target.kind == "classes" and have and is_compatible_shape(have[:-1], want):
        hint = "; it looks like one-hot targets: categorical_crossentropy takes them, or np.argmax(y, -1) makes numbers"
    elif target.kind == "one_hot" and is_compatible_shape(have, want[:-1]):
        hint = "; it looks like class numbers: sparse_categorical_crossentropy takes them"
    raise DataError(
        f"{dataset.name}: the target {column!r} has shape {_format_shape(have)} a sample, "
        f"{target.loss} of output {name!r} wants {_format_shape(want)}{hint}"
    )


def _format_shape(shape: Shape) -> str:
    return "[" + ", ".join("none" if n is None else str(n) for n in shape) + "]"
