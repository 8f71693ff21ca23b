"""Binding of a data set to a model: which column feeds which input or target, in the shapes that the model expects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from prototorch.data.dataset import ArrayDataset, Columns, Dataset, SampleError
from prototorch.data.pipeline.signature import IndexRange, Shape, TargetSpec
from prototorch.errors import DataError
from prototorch.spec import Spec

__all__ = ["BoundDataset", "bind", "bind_columns"]

ColumnAdapter = Callable[[np.ndarray], np.ndarray]


class BoundDataset(Dataset):
    """A data set whose columns have the shapes that a model expects.

    input_columns: input of the model -> the column that it reads.
    target_columns: output of the model -> the column that it learns.
    indices: column of table indices -> its valid values. Columns that are not in memory are checked as they are read.
    """

    def __init__(
        self,
        dataset: Dataset,
        input_columns: dict[str, str],
        target_columns: dict[str, str],
        adapters: dict[str, ColumnAdapter],
        indices: Mapping[str, IndexRange] | None = None,
    ):
        self._dataset, self._adapters = dataset, adapters
        self.input_columns, self.target_columns = input_columns, target_columns
        self.indices = {input_columns[name]: valid for name, valid in (indices or {}).items() if name in input_columns}
        self._checked_on_read = [column for column in self.indices if dataset.column_array(column) is None]
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
        return self._adapt(self._check(self._dataset.read(indices), indices))

    def read_into(self, indices: np.ndarray, outs: Mapping[str, np.ndarray]) -> Columns:
        own = {n: p for n, p in outs.items() if self._adapters.get(n) in (None, *_RESHAPING)}
        inner = {n: p.reshape(len(indices), *self._dataset.columns[n].shape) for n, p in own.items()}
        columns = self._check(self._dataset.read_into(indices, inner), indices)
        in_place = {n: outs[n] for n, p in inner.items() if columns[n] is p}
        rest = {n: a for n, a in columns.items() if n not in in_place}
        for name in outs.keys() & self._adapters.keys() - inner.keys():
            np.copyto(outs[name], self._adapters[name](rest.pop(name)))
            in_place[name] = outs[name]
        return {**self._adapt(rest), **in_place}

    def read_valid(self, indices: np.ndarray) -> tuple[Columns, np.ndarray, list[SampleError]]:
        columns, valid, errors = self._dataset.read_valid(indices)
        return self._adapt(self._check(columns, valid)), valid, errors

    def origin(self, index: int) -> str:
        return self._dataset.origin(index)

    def column_array(self, column: str) -> np.ndarray | None:
        array = self._dataset.column_array(column)
        return array if array is None or column not in self._adapters else self._adapters[column](array)

    def sequence_lengths(self) -> dict[str, np.ndarray]:
        return self._dataset.sequence_lengths()

    @property
    def is_encoded(self) -> bool:
        return self._dataset.is_encoded

    @property
    def is_sampled(self) -> bool:
        return self._dataset.is_sampled

    def update_fingerprint(self, digest: Any) -> None:
        self._dataset.update_fingerprint(digest)

    def rebind(self, dataset: Dataset) -> BoundDataset:
        """Another set with the same columns, bound in the same way. Raises DataError for table indices out of range."""
        other = object.__new__(BoundDataset)
        other.__dict__.update(self.__dict__, _dataset=dataset)
        other.check_indices_in_memory()
        return other

    def read_unbound(self, indices: np.ndarray) -> Columns:
        """The samples before they get the shapes that the model expects, which `rebind_arrays` takes."""
        return self._dataset.read(indices)

    def rebind_arrays(self, columns: Columns) -> BoundDataset:
        """Samples as `read_unbound` gives them, bound in the same way."""
        own = self._dataset
        return self.rebind(
            ArrayDataset(columns, own.inputs, own.targets, weight=own.weight, classes=own.classes, name=own.name)
        )

    def arrays_in_memory(self) -> Columns:
        """Column name -> array, for the columns that are in memory."""
        columns = {name: self.column_array(name) for name in self.columns}
        return {name: array for name, array in columns.items() if array is not None}

    def check_indices_in_memory(self) -> None:
        """Check the table indices of all columns in memory. Raises DataError with the first one out of range."""
        for column in self.indices:
            values = self._dataset.column_array(column)
            if values is not None:
                self._check_indices(column, values)

    def _check_indices(self, column: str, values: np.ndarray, rows: np.ndarray | None = None) -> None:
        """Check table indices [n, ...]; ``rows`` are the sample indices of the values (None: all samples)."""
        valid = self.indices[column]
        has_fractions = values.dtype.kind == "f" and bool((values != np.trunc(values)).any())  # NaN too
        if not values.size or not (
            has_fractions or valid.is_out_of_range(values.min()) or valid.is_out_of_range(values.max())
        ):
            return
        invalid = valid.is_out_of_range(values)
        if has_fractions:
            invalid |= values != np.trunc(values)
        at = tuple(int(i) for i in np.argwhere(invalid)[0])
        element = f"{list(at[1:])}" if len(at) > 1 else ""
        others = int(invalid.sum()) - 1
        hint = "; indices count from 0, so the table needs one entry more" if values.max() == valid.count else ""
        more = f" (and {others:,} more)" if others else ""
        row = at[0] if rows is None else int(rows[at[0]])
        raise DataError(
            f"{self.origin(row)}: {column}{element} is {values[at]}; the layer {valid.layer!r} "
            f"expects integers from 0 to {valid.count - 1}{hint}{more}"
        )

    def _check(self, columns: Columns, rows: np.ndarray) -> Columns:
        for column in self._checked_on_read:
            if column in columns:
                self._check_indices(column, columns[column], rows)
        return columns

    def _adapt(self, columns: Columns) -> Columns:
        return {
            name: np.ascontiguousarray(self._adapters[name](columns[name])) if name in self._adapters else columns[name]
            for name in self.columns
            if name in columns
        }

    def _spec(self, name: str) -> Spec:
        spec = self._dataset.columns[name]
        if name not in self._adapters:
            return spec
        return Spec(self._adapters[name](np.empty((0, *spec.shape), np.uint8)).shape[1:], spec.dtype)


def bind(
    dataset: Dataset,
    inputs: Mapping[str, Shape],
    targets: Mapping[str, TargetSpec] | None = None,
    columns: Mapping[str, str] | None = None,
    indices: Mapping[str, IndexRange] | None = None,
) -> BoundDataset:
    """Bind a data set to the inputs and targets of a model.

    Columns are matched by name if all names of the model are columns, otherwise by order. One target column may serve
    several outputs. A shape that differs only by an axis of size 1, or an image with its channels at the other end, is
    converted to the expected shape.

    Args:
        dataset: any data set.
        inputs: input of the model -> shape without the batch dimension, None for a dimension of any size.
        targets: output of the model -> the target that its loss expects; None or empty if nothing is learned.
        columns: output -> target column, for outputs that name their column.
        indices: input -> valid values, for inputs that a layer uses as table indices.

    Raises:
        DataError: missing columns, shapes that do not match (the message has both), or table indices out of range.
    """
    targets = targets or {}
    input_columns = dataset.match_inputs(list(inputs))
    named_columns = {output: column for output, column in (columns or {}).items() if output in targets}
    target_columns = dataset.match_targets(list(targets), named_columns)
    return bind_columns(dataset, input_columns, target_columns, inputs, targets, indices)


def bind_columns(
    dataset: Dataset,
    input_columns: Mapping[str, str],
    target_columns: Mapping[str, str],
    inputs: Mapping[str, Shape],
    targets: Mapping[str, TargetSpec],
    indices: Mapping[str, IndexRange] | None = None,
) -> BoundDataset:
    """As `bind`, with the columns that feed the inputs and targets; see `Dataset.match_inputs`."""
    adapters: dict[str, ColumnAdapter] = {}
    for name, column in input_columns.items():
        adapter = _input_adapter(dataset, name, column, inputs[name])
        if adapter is not None:
            adapters[column] = adapter
    input_shapes = {column: inputs[name] for name, column in input_columns.items() if column in adapters}
    for name, column in target_columns.items():
        actual = input_shapes.get(column, dataset.columns[column].shape)
        adapter = _target_adapter(dataset, name, column, actual, targets[name])
        if adapter is not None and column not in input_shapes:
            adapters[column] = adapter
    dataset_of_columns = BoundDataset(dataset, dict(input_columns), dict(target_columns), adapters, indices)
    dataset_of_columns.check_indices_in_memory()
    return dataset_of_columns


def is_compatible_shape(actual: Shape, expected: Shape) -> bool:
    """Whether two shapes are equal in all dimensions that are known in both."""
    return len(actual) == len(expected) and all(
        a is None or b is None or a == b for a, b in zip(actual, expected, strict=True)
    )


def _add_first_axis(array: np.ndarray) -> np.ndarray:
    return array[:, None]


def _add_last_axis(array: np.ndarray) -> np.ndarray:
    return array[..., None]


def _drop_last_axis(array: np.ndarray) -> np.ndarray:
    return array[..., 0]


def _move_channels_first(array: np.ndarray) -> np.ndarray:
    return np.moveaxis(array, -1, 1)


def _move_channels_last(array: np.ndarray) -> np.ndarray:
    return np.moveaxis(array, 1, -1)


_RESHAPING: tuple[ColumnAdapter, ...] = (_add_first_axis, _add_last_axis, _drop_last_axis)  # the elements stay in order


def _input_adapter(dataset: Dataset, name: str, column: str, expected: Shape) -> ColumnAdapter | None:
    """The conversion of a column to the shape of an input; None if the shapes are equal."""
    spec = dataset.column_spec(column)
    actual = spec.shape
    if is_compatible_shape(actual, expected):
        return None
    if is_compatible_shape((1, *actual), expected):
        return _add_first_axis
    if len(actual) == len(expected) == 3 and is_compatible_shape((actual[2], *actual[:2]), expected):
        return _move_channels_first
    if len(actual) == len(expected) == 3 and is_compatible_shape((*actual[1:], actual[0]), expected):
        return _move_channels_last
    if len(expected) == 3 and expected[-1] == 1 and is_compatible_shape((*actual, 1), expected):
        return _add_last_axis
    hint = ""
    if actual != expected and is_compatible_shape((len(dataset), *actual), expected):
        hint = "; it seems to be a single sample, which is given as an array of one: x[np.newaxis]"
    elif len(expected) == len(actual) == 3:
        hint = (
            "; images are [channels, height, width], or [height, width, channels] by data_format: channels_last. The "
            "data block's `size` resizes image files"
        )
    elif len(expected) == 1 and len(actual) > 1:
        hint = "; a Flatten layer converts them to vectors"
    else:
        hint = (
            f"; write shape: {_format_shape(actual)} at the input, or give samples of shape {_format_shape(expected)}"
        )
    raise DataError(
        f"{dataset.name}: the input {name!r} has shape {_format_shape(expected)}, "
        f"the column {column!r} has samples of shape {_format_shape(actual)} ({spec.dtype}){hint}"
    )


def _target_adapter(
    dataset: Dataset, name: str, column: str, actual: Shape, target: TargetSpec
) -> ColumnAdapter | None:
    """The conversion of a column to the shape of a target; None if the shapes are equal."""
    expected = target.shape
    if is_compatible_shape(actual, expected):
        return None
    if is_compatible_shape((*actual, 1), expected):
        return _add_last_axis
    if actual and actual[-1] == 1 and is_compatible_shape(actual[:-1], expected):
        return _drop_last_axis
    hint = ""
    if target.kind == "classes" and actual and is_compatible_shape(actual[:-1], expected):
        hint = "; it looks like one-hot targets: use categorical_crossentropy, or np.argmax(y, -1) for labels"
    elif target.kind == "classes" and (axis := _axis_left_out(actual, expected)) is not None:
        order = [*(i for i in range(1, len(expected) + 2) if i != axis), axis]
        hint = (
            f"; the {expected[axis - 1]} classes seem to lie along axis {axis} of the output: write axis: {axis} at "
            f"the loss, or Permute {{ dims: {order} }} before the output"
        )
    elif target.kind == "classes" and not actual and len(expected) > 1:
        hint = (
            f"; the output has a prediction for each of {_format_shape(expected)} places: Flatten {{ }} or "
            "GlobalAveragePooling2D { } before the last layer makes one of a sample"
        )
    elif target.kind == "one_hot" and is_compatible_shape(actual, expected[:-1]):
        hint = "; it looks like class labels: use sparse_categorical_crossentropy"
    elif target.kind == "values" and not actual and len(expected) == 1:
        is_integer = dataset.column_spec(column).dtype.startswith(("int", "uint"))
        labels = "they look like class labels: " if is_integer else "of class labels "
        hint = (
            f"; {labels}take the loss sparse_categorical_crossentropy {{ from_logits: true }} (without from_logits for "
            f"an output with softmax); of numbers to predict give {target.layer or 'the last layer'} one unit"
        )
    raise DataError(
        f"{dataset.name}: the target {column!r} has shape {_format_shape(actual)} per sample, "
        f"{target.loss} of output {name!r} expects {_format_shape(expected)}{hint}"
    )


def _axis_left_out(actual: Shape, expected: Shape) -> int | None:
    """The axis of the output (that of the batch is 0) that labels would leave out, where the loss leaves out the
    last: ``expected`` has it, and ``actual`` in its place the last."""
    for i in range(len(expected)):
        if len(actual) == len(expected) > 1 and is_compatible_shape(actual[:-1], (*expected[:i], *expected[i + 1 :])):
            return i + 1
    return None


def _format_shape(shape: Shape) -> str:
    return "[" + ", ".join("none" if n is None else str(n) for n in shape) + "]"
