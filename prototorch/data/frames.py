"""Tables of other libraries (pandas, polars): their columns by name. None of these libraries is imported.

A table is recognised by what they all have: ``columns``, a column by its name, and ``__dataframe__`` or ``to_numpy``. A
dict of columns in the place of an array is a table as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from prototorch.data.checks import DataWarning
from prototorch.data.columns import as_column
from prototorch.data.pipeline.signature import ModelSignature, Shape
from prototorch.data.table_columns import TableColumns
from prototorch.errors import DataError, UsageError, did_you_mean, warn_user

__all__ = [
    "FrameReader",
    "as_table",
    "column_names",
    "column_values",
    "holds_frame",
    "is_frame",
    "match_columns",
    "read_frames",
    "whole_table",
]

MAX_LISTED = 12  # names in a message


def is_frame(x: Any) -> bool:
    """Whether x is a table with columns."""
    has_columns = hasattr(x, "columns") and hasattr(x, "__getitem__") and not isinstance(x, Mapping | np.ndarray)
    return has_columns and (hasattr(x, "__dataframe__") or hasattr(x, "to_numpy"))


def holds_frame(x: Any, names: Sequence[str]) -> bool:
    """Whether x is a table, or a list or dict that holds one for an input or output. names: of all of them."""
    return whole_table(x, names) is not None or any(map(_is_table, _by_name(x, names).values()))


class FrameReader:
    """Reads the tables of one batch after another as `read_frames` does. Where the model was trained on no names, the
    first table's names are those of all. Columns that are not read are a note on the first table alone."""

    def __init__(self, signature: ModelSignature):
        self._signature = signature
        self._warns = True

    def read(self, x: Any, y: Any, name: str) -> tuple[Any, Any, TableColumns]:
        """As `read_frames`. name: of the batch, for messages."""
        x, y, table = read_frames(x, y, self._signature, name, warns=self._warns)
        if not table.is_empty:
            self._warns = False
            if self._signature.table.is_empty:
                self._signature = replace(self._signature, table=table)
        return x, y, table


def read_frames(
    x: Any, y: Any, signature: ModelSignature, name: str = "data", warns: bool = True
) -> tuple[Any, Any, TableColumns]:
    """x and y of `Model.fit` with arrays in the place of tables, and the names of the columns that these consist of.

    A table is x itself, or the value of an input in a list or a dict; y likewise. An input that has a table is the
    columns that the model was trained on, in its order, or else all but the targets; several inputs of one table are
    the columns that they were trained on, or those of their names. Where y is None, targets are columns of x: those
    that the model was trained on, or that the losses or outputs name. name: of the data, for messages. warns: whether
    columns that are not read are a DataWarning. Raises DataError for columns that are missing, with their names,
    UsageError where the model reads tables by type, see `frame_tables.open_frame`.
    """
    inputs, outputs = tuple(signature.inputs), signature.outputs
    table, columns = whole_table(x, inputs, allows_dict=not signature.text_names), TableColumns()
    if table is not None and not column_names(table, name):
        x, table = _array(table), None
    if table is not None and signature.table.encoding is not None:
        raise UsageError(
            f"{name}: the model reads the columns of tables by type, and those in a stream of batches are not: give "
            "fit, evaluate or predict the whole table, or train_on_batch one"
        )
    if table is not None:
        targets = _target_columns(column_names(table, name), signature) if y is None else {}
        y = _groups(table, targets, name) if targets else y
        x, columns = _read_inputs(table, signature, [c for group in targets.values() for c in group], name, warns)
        columns = _with_targets(columns, targets, outputs)
    elif len(inputs) > 1:
        x, groups = _read_each(x, inputs, signature, signature.table.inputs, name, warns)
        columns = TableColumns(inputs=groups)
    table = whole_table(y, outputs)
    if table is not None:
        y, targets = _read_targets(table, signature, name)
        columns = _with_targets(columns, targets, outputs)
    elif len(outputs) > 1 and not columns.outputs:
        y, groups = _read_each(y, outputs, signature, signature.table.outputs, name, warns)
        columns = replace(columns, outputs=groups)
    elif columns.has_features and not columns.labels and isinstance(getattr(y, "name", None), str):
        columns = replace(columns, labels=(y.name,))
    return x, y, columns if columns.has_features or columns.outputs else TableColumns()


def match_columns(names: Sequence[str], signature: ModelSignature, name: str) -> TableColumns:
    """The columns of a table for each of several inputs: those that the model was trained on, or that of its name; and
    those of several outputs, where the table has them all. names: of its columns; name: of the table, for messages.

    Raises DataError for the column of an input that is missing.
    """
    inputs: dict[str, tuple[str, ...]] = {}
    for one in signature.inputs if len(signature.inputs) > 1 else ():
        if one in signature.table.inputs:
            inputs[one] = _trained_columns(signature.table.inputs[one], names, name)
        elif one in names:
            inputs[one] = (one,)
    missing = [one for one in signature.inputs if one not in inputs] if len(signature.inputs) > 1 else []
    if missing:
        raise DataError(
            f"{name}: has no column {missing[0]!r}{_count_others(missing)}, which is an input of the model; it has "
            f"{_listing(names)}.{did_you_mean(missing[0], names)}"
        )
    return TableColumns(inputs=inputs, outputs=_target_columns(names, signature) if len(signature.outputs) > 1 else {})


def _target_columns(names: Sequence[str], signature: ModelSignature) -> dict[str, tuple[str, ...]]:
    """The columns of a table that each target consists of: those that the model was trained on, or else that of its
    name; empty where the table does not have them all."""
    outputs, table = signature.outputs if signature.learned else (), signature.table
    recorded = {outputs[0]: table.labels} if len(outputs) == 1 and table.labels else table.outputs
    for groups in (recorded, {one: (one,) for one in outputs}):
        if outputs and all(one in groups and set(groups[one]) <= set(names) for one in outputs):
            return {one: tuple(groups[one]) for one in outputs}
    return {}


def _with_targets(
    columns: TableColumns, targets: Mapping[str, tuple[str, ...]], outputs: Sequence[str]
) -> TableColumns:
    """The names with those of the columns of one or several targets."""
    if len(outputs) > 1:
        return replace(columns, outputs=targets) if targets else columns
    return replace(columns, labels=next(iter(targets.values()))) if targets else columns


def _read_inputs(
    frame: Any, signature: ModelSignature, labels: Sequence[str], name: str, warns: bool
) -> tuple[Any, TableColumns]:
    """The inputs of a table, and the names of the columns that they consist of."""
    names, table = column_names(frame, name), signature.table
    if len(signature.inputs) > 1:
        groups = match_columns(names, signature, name).inputs
        if table.inputs and warns:
            _note_unread(names, [c for group in groups.values() for c in group], labels, table, name)
        return _groups(frame, groups, name, signature.inputs), TableColumns(inputs=groups if table.inputs else {})
    features = table.features or tuple(word for word in names if word not in labels)
    if table.features:
        _trained_columns(features, names, name)
        if warns:
            _note_unread(names, features, labels, table, name)
    if signature.text_names and len(features) != 1:
        return _array(frame), TableColumns()
    return _group(frame, features, name, None if signature.text_names else (None,)), TableColumns(features)


def _read_targets(frame: Any, signature: ModelSignature, name: str) -> tuple[Any, dict[str, tuple[str, ...]]]:
    """The targets of a table y, and the names of their columns."""
    names, table = column_names(frame, name), signature.table
    targets = _target_columns(names, signature)
    if targets or not names:
        return _groups(frame, targets, name) if targets else _array(frame), targets
    for group in (table.labels if len(table.labels) > 1 else (), *table.outputs.values()):
        _trained_columns(group, names, name)
    return _group(frame, names, name), dict.fromkeys(signature.outputs[:1], names)


def _read_each(
    values: Any,
    names: Sequence[str],
    signature: ModelSignature,
    recorded: Mapping[str, tuple[str, ...]],
    data_name: str,
    warns: bool,
) -> tuple[Any, dict[str, tuple[str, ...]]]:
    """The values of several inputs or outputs with arrays in the place of tables, and the names of the columns of each
    table. recorded: those that the model was trained on."""
    by_name, groups = _by_name(values, names), {}
    tables = {one: table for one, value in by_name.items() if (table := as_table(value)) is not None}
    if not tables:
        return values, {}
    for one, table in tables.items():
        columns, name = column_names(table, data_name), f"{data_name}, {one!r}"
        if not columns or (one in signature.text_names and len(columns) > 1):
            by_name[one] = _array(table)
            continue
        groups[one] = _trained_columns(recorded[one], columns, name) if one in recorded else columns
        if one in recorded and warns:
            _note_unread(columns, groups[one], (), signature.table, name)
        by_name[one] = _group(
            table, groups[one], name, signature.inputs.get(one) if names != signature.outputs else None
        )
    return {**values, **by_name} if isinstance(values, Mapping) else by_name, groups


def whole_table(x: Any, names: Sequence[str], allows_dict: bool = True) -> Any:
    """The table of all inputs or outputs, None where x is another value: x, or the value of the only name in a list or
    a dict. A dict of columns with other names than those of the model is one for a single input."""
    if len(names) == 1 and isinstance(x, Mapping) and len(x) == 1 and names[0] in x:
        return as_table(x[names[0]])
    if len(names) == 1 and isinstance(x, list | tuple) and len(x) == 1:
        return as_table(x[0])
    if not isinstance(x, Mapping):
        return as_table(x)
    is_dict_of_columns = allows_dict and len(names) == 1 and len(x) > 1 and names[0] not in x
    return as_table(x) if is_dict_of_columns else None


def _by_name(values: Any, names: Sequence[str]) -> dict[str, Any]:
    """Name -> value of a dict, a list or a tuple for several inputs or outputs; empty for other values."""
    if isinstance(values, Mapping):
        return {one: values[one] for one in names if one in values}
    is_list = isinstance(values, list | tuple) and len(values) == len(names) > 1
    return dict(zip(names, values, strict=True)) if is_list else {}


class _DictTable:
    """A dict of columns [rows] as a table."""

    def __init__(self, values: Mapping[str, Any]):
        self._values, self.columns = values, list(values)

    def __getitem__(self, column: str) -> Any:
        return self._values[column]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.stack([np.asarray(values, dtype) for values in self._values.values()], 1)


def as_table(value: Any, allows_lists: bool = False) -> Any:
    """A value that is a table, or a dict of columns; None for others. allows_lists: whether a column of lists is one,
    and not an array."""
    if is_frame(value):
        return value
    is_dict = isinstance(value, Mapping) and len(value) > 0 and all(isinstance(n, str) for n in value)
    return (
        _DictTable(value)
        if is_dict and all(_is_vector(v) or (allows_lists and isinstance(v, list)) for v in value.values())
        else None
    )


def _is_table(value: Any) -> bool:
    return as_table(value) is not None


def _is_vector(values: Any) -> bool:
    """Whether these are the values of a column: an array [rows], a column of a table, or a list of numbers or texts."""
    if isinstance(values, list):
        return not any(hasattr(v, "__len__") and not isinstance(v, str) for v in values)
    return hasattr(values, "__array__") and len(getattr(values, "shape", ())) == 1


def column_names(frame: Any, name: str = "data") -> tuple[str, ...]:
    """The names of the columns; empty where they have none (numbers). Raises DataError for a name that occurs twice."""
    names = list(frame.column_names if hasattr(frame, "column_names") else frame.columns)  # of Arrow the first
    if not names or not all(isinstance(word, str) for word in names):
        return ()
    twice = next((word for word in names if names.count(word) > 1), None) if len(set(names)) < len(names) else None
    if twice is not None:
        raise DataError(f"{name}: has {names.count(twice)} columns named {twice!r}")
    return tuple(names)


def _note_unread(
    names: Sequence[str], read: Sequence[str], targets: Sequence[str], table: TableColumns, name: str
) -> None:
    """A DataWarning that lists columns which are not read although the model was trained on names."""
    used = {*read, *targets, *table.labels, *(column for group in table.outputs.values() for column in group)}
    unread = [word for word in names if word not in used]
    if unread:
        warn_user(
            f"{name}: {_listing(unread)} {'is' if len(unread) == 1 else 'are'} not read: the model was trained on "
            f"{_listing(read)}",
            DataWarning,
        )


def _trained_columns(columns: tuple[str, ...], names: Sequence[str], name: str) -> tuple[str, ...]:
    """Columns that the model was trained on, in its order. Raises DataError where one is missing."""
    missing = [word for word in columns if word not in names]
    if missing:
        raise DataError(
            f"{name}: has no column {missing[0]!r}{_count_others(missing)}, which the model was trained on; it has "
            f"{_listing(names)}.{did_you_mean(missing[0], names)} Values alone, frame.to_numpy(), are read by position"
        )
    return columns


def column_values(frame: Any, column: str) -> Any:
    """The values of a column, as NumPy has them."""
    values = frame[column]
    return values.to_numpy() if hasattr(values, "to_numpy") else np.asarray(values)


def _groups(
    frame: Any, groups: Mapping[str, Sequence[str]], name: str, shapes: Mapping[str, Shape] | None = None
) -> dict[str, Any]:
    """The columns of each of several inputs or targets. shapes: of the inputs."""
    return {one: _group(frame, columns, name, (shapes or {}).get(one)) for one, columns in groups.items()}


def _group(frame: Any, columns: Sequence[str], name: str, shape: Shape | None = None) -> Any:
    """One column [rows], several side by side [rows, columns]; one as [rows, 1] for an input of one axis."""
    if len(columns) > 1 or (shape is not None and len(shape) == 1):
        return _stack(frame, columns, name)
    return column_values(frame, columns[0])


def _array(frame: Any) -> Any:
    """All values of a table [rows, columns]."""
    return frame.to_numpy() if hasattr(frame, "to_numpy") else np.asarray(frame)


def _stack(frame: Any, columns: Sequence[str], name: str = "data") -> np.ndarray:
    """Columns of numbers side by side: [rows, columns]. Raises DataError, with its name, for another one."""
    return np.stack([as_column(column_values(frame, column), column, name) for column in columns], 1)


def _listing(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:MAX_LISTED])) + (", ..." if len(names) > MAX_LISTED else "")


def _count_others(missing: Sequence[str]) -> str:
    return f" (nor {_listing(missing[1:])})" if len(missing) > 1 else ""
