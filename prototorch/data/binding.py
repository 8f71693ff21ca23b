"""Which column goes where: a data set seen through the names and shapes of a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..errors import DataError
from ..spec import Spec
from .dataset import Columns, Dataset, SampleError

Shape = tuple[int | None, ...]
Fitting = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Target:
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
    ignored: int | None = None


@dataclass(frozen=True)
class Indices:
    """What a column that is looked up in a table must hold: whole numbers 0..count-1, for the layer of this name."""

    count: int
    layer: str

    def outside(self, values: np.ndarray) -> np.ndarray:
        """True where a value lies outside; numbers that are not whole are rounded towards 0, NaN is outside."""
        return ~((values > -1) & (values < self.count))


class Bound(Dataset):
    """A data set whose columns have the shapes a model wants.

    input_of: the model's input -> the column it reads; target_of: the model's output -> the column it learns;
    indices: columns that a layer looks up in a table. Those that are not in memory are checked as they are read.
    """

    def __init__(self, whole: Dataset, input_of: dict[str, str], target_of: dict[str, str], fits: dict[str, Fitting],
                 indices: Mapping[str, Indices] | None = None):  # fmt: skip
        self._whole, self._fits = whole, fits
        self.input_of, self.target_of = input_of, target_of
        self.indices = {input_of[name]: wanted for name, wanted in (indices or {}).items() if name in input_of}
        self._unseen = [column for column in self.indices if whole.held(column) is None]
        self.name, self.weight, self.classes = whole.name, whole.weight, whole.classes
        self.cheap, self.grain, self.most_threads = whole.cheap, whole.grain, whole.most_threads
        self.sorted_by_class = whole.sorted_by_class
        self.inputs = tuple(dict.fromkeys(input_of.values()))
        self.targets = tuple(dict.fromkeys(target_of.values()))
        self.columns = {name: self._spec(name) for name in [*self.inputs, *self.targets]}
        if self.weight is not None:
            self.columns[self.weight] = whole.columns[self.weight]

    def __len__(self) -> int:
        return len(self._whole)

    def read(self, indices: np.ndarray) -> Columns:
        return self._fitted(self._checked(self._whole.read(indices), indices))

    def read_good(self, indices: np.ndarray) -> tuple[Columns, np.ndarray, list[SampleError]]:
        columns, kept, wrong = self._whole.read_good(indices)
        return self._fitted(self._checked(columns, kept)), kept, wrong

    def origin(self, index: int) -> str:
        return self._whole.origin(index)

    def held(self, column: str) -> np.ndarray | None:
        array = self._whole.held(column)
        return array if array is None or column not in self._fits else self._fits[column](array)

    def over(self, whole: Dataset) -> Bound:
        """Another set with the same columns, bound in the same way. Raises DataError for numbers outside a table."""
        other = object.__new__(Bound)
        other.__dict__.update(self.__dict__, _whole=whole)
        check_held(other)
        return other

    def whole(self) -> Columns:
        """All columns of a set that is in memory, as they are held."""
        columns = {name: self.held(name) for name in self.columns}
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
        spec = self._whole.columns[name]
        if name not in self._fits:
            return spec
        return Spec(self._fits[name](np.empty((0, *spec.shape), np.uint8)).shape[1:], spec.dtype)


def bind(
    dataset: Dataset,
    inputs: Mapping[str, Shape],
    targets: Mapping[str, Target] | None = None,
    columns: Mapping[str, str] | None = None,
    indices: Mapping[str, Indices] | None = None,
) -> Bound:
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
    input_of = _match(dataset, list(inputs), dataset.inputs, "input")
    said = {name: column for name, column in (columns or {}).items() if name in targets}
    for column in said.values():
        dataset.need(column)
    free = [name for name in targets if name not in said]
    offered = tuple(t for t in dataset.targets if t not in said.values() or len(free) == len(dataset.targets))
    target_of = {**(_match(dataset, free, offered, "output") if free else {}), **said}
    fits: dict[str, Fitting] = {}
    for model_name, column in input_of.items():
        fit = _input_fit(dataset, model_name, column, inputs[model_name])
        if fit is not None:
            fits[column] = fit
    for model_name, column in target_of.items():
        have = dataset.columns[column].shape if column not in fits else inputs[_reader(input_of, column)]
        fit = _target_fit(dataset, model_name, column, have, targets[model_name])
        if fit is not None and column not in fits:
            fits[column] = fit
    bound = Bound(dataset, input_of, target_of, fits, indices)
    check_held(bound)
    return bound


def check_held(bound: Bound) -> None:
    """Check the numbers that are looked up in a table, of columns in memory. Raises DataError as `check_indices`."""
    for column in bound.indices:
        values = bound._whole.held(column)
        if values is not None:
            check_indices(bound, column, values)


def check_indices(bound: Bound, column: str, values: np.ndarray, rows: np.ndarray | None = None) -> None:
    """Check numbers [n, ...] that are looked up in a table; ``rows`` are their places in the set (None: all of it).

    Raises DataError naming the first that lies outside, with its row.
    """
    wanted = bound.indices[column]
    if not values.size or not (wanted.outside(values.min()) or wanted.outside(values.max())):
        return
    bad = wanted.outside(values)
    place = tuple(int(i) for i in np.argwhere(bad)[0])
    inside = f"{list(place[1:])}" if len(place) > 1 else ""
    others = int(bad.sum()) - 1
    hint = "; numbers count from 0, so it must take the largest plus 1" if values.max() == wanted.count else ""
    more = f" (and {others:,} more)" if others else ""
    raise DataError(
        f"{bound.origin(place[0] if rows is None else int(rows[place[0]]))}: {column}{inside} is {values[place]}; "
        f"the layer {wanted.layer!r} takes whole numbers from 0 to {wanted.count - 1}{hint}{more}"
    )


def _reader(input_of: Mapping[str, str], column: str) -> str:
    return next(name for name, read in input_of.items() if read == column)


def _match(dataset: Dataset, wanted: Sequence[str], offered: tuple[str, ...], kind: str) -> dict[str, str]:
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


def same(have: Shape, want: Shape) -> bool:
    """Whether two shapes are equal where both sizes are known."""
    return len(have) == len(want) and all(a is None or b is None or a == b for a, b in zip(have, want, strict=True))


def _add_front(array: np.ndarray) -> np.ndarray:
    return array[:, None]


def _add_back(array: np.ndarray) -> np.ndarray:
    return array[..., None]


def _drop_back(array: np.ndarray) -> np.ndarray:
    return array[..., 0]


def _channels_first(array: np.ndarray) -> np.ndarray:
    return np.moveaxis(array, -1, 1)


def _input_fit(dataset: Dataset, name: str, column: str, want: Shape) -> Fitting | None:
    spec = dataset.need(column)
    have = spec.shape
    if same(have, want):
        return None
    if same((1, *have), want):
        return _add_front
    if len(have) == len(want) == 3 and same((have[2], *have[:2]), want):
        return _channels_first
    hint = ""
    if have != want and same((len(dataset), *have), want):
        hint = "; it seems to be a single sample, which is given as an array of one: x[np.newaxis]"
    elif len(want) == len(have) == 3:
        hint = "; pictures are channels-first: [channels, height, width]. A size can be given in the data block"
    elif len(want) == 1 and len(have) > 1:
        hint = "; a Flatten layer makes vectors of them"
    raise DataError(
        f"{dataset.name}: the input {name!r} has shape {_text(want)}, the column {column!r} holds {spec} a sample{hint}"
    )


def _target_fit(dataset: Dataset, name: str, column: str, have: Shape, target: Target) -> Fitting | None:
    want = target.shape
    if same(have, want):
        return None
    if same((*have, 1), want):
        return _add_back
    if have and have[-1] == 1 and same(have[:-1], want):
        return _drop_back
    hint = ""
    if target.kind == "classes" and have and same(have[:-1], want):
        hint = "; it looks like one-hot targets: categorical_crossentropy takes them, or np.argmax(y, -1) makes numbers"
    elif target.kind == "one_hot" and same(have, want[:-1]):
        hint = "; it looks like class numbers: sparse_categorical_crossentropy takes them"
    raise DataError(
        f"{dataset.name}: the target {column!r} has shape {_text(have)} a sample, "
        f"{target.loss} of output {name!r} wants {_text(want)}{hint}"
    )


def _text(shape: Shape) -> str:
    return "[" + ", ".join("none" if n is None else str(n) for n in shape) + "]"
