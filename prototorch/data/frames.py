"""Tables of other libraries (pandas, polars): their columns by name. None of these libraries is imported.

A table is recognised by what they all have: ``columns``, a column by its name, and ``__dataframe__`` or ``to_numpy``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from prototorch.data.checks import DataWarning
from prototorch.data.columns import as_column
from prototorch.data.pipeline.signature import ModelSignature
from prototorch.data.table_columns import TableColumns
from prototorch.errors import DataError, did_you_mean, warn_user

__all__ = ["FrameReader", "holds_frame", "is_frame", "read_frames"]

MAX_LISTED = 12  # names in a message


def is_frame(x: Any) -> bool:
    """Whether x is a table with columns."""
    has_columns = hasattr(x, "columns") and hasattr(x, "__getitem__") and not isinstance(x, Mapping | np.ndarray)
    return has_columns and (hasattr(x, "__dataframe__") or hasattr(x, "to_numpy"))


def holds_frame(x: Any, names: Sequence[str]) -> bool:
    """Whether x is a table, or a list or dict whose only value, that of the one input or output, is a table. names: of
    all inputs or outputs."""
    return is_frame(_only_value(x, names))


class FrameReader:
    """Reads the tables of one batch after another as `read_frames` does. Where the model was trained on no names, the
    first table's names are those of all. Columns that are not read are a note on the first table alone."""

    def __init__(self, signature: ModelSignature):
        self._signature = signature
        self._warns = True

    def read(self, x: Any, y: Any, name: str) -> tuple[Any, Any, TableColumns]:
        """As `read_frames`. name: of the batch, for messages."""
        x, y, table = read_frames(x, y, self._signature, name, warns=self._warns)
        if table.features:
            self._warns = False
            if not self._signature.table.features:
                self._signature = replace(self._signature, table=table)
        return x, y, table


def read_frames(
    x: Any, y: Any, signature: ModelSignature, name: str = "data", warns: bool = True
) -> tuple[Any, Any, TableColumns]:
    """x and y of `Model.fit` with arrays in the place of tables, and the names of the columns that these consist of.

    A table is x itself, or the value of the one input in a list or a dict; y likewise. One input of features is the
    columns that the model was trained on, in its order, or else all but the targets; several inputs are the columns of
    their names. Where y is None, targets are columns of x: those that the losses or outputs name, or that the model was
    trained on. name: of the data, for messages. warns: whether columns that are not read are a DataWarning. Raises
    DataError for columns that are missing, with their names.
    """
    table, outputs = signature.table, signature.outputs if signature.learned else ()
    if holds_frame(x, tuple(signature.inputs)):
        x = _only_value(x, tuple(signature.inputs))
    if holds_frame(y, signature.outputs):
        y = _only_value(y, signature.outputs)
    features: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    if is_frame(x):
        names = _column_names(x, name)
        if y is None and names:
            candidates = (table.labels, outputs) if outputs else ()
            labels = next((c for c in candidates if c and set(c) <= set(names)), ())
            y = _by_output(x, outputs) if labels and labels == outputs else _select(x, labels, name)
        if names:
            x, features = _read_inputs(x, signature, labels, name, warns)
        else:
            x = _array(x)
    if is_frame(y):
        names = _column_names(y, name)
        if outputs and set(outputs) <= set(names):
            y, labels = _by_output(y, outputs), outputs
        elif names:
            labels = names
            if len(table.labels) > 1:
                labels = _trained_columns(table.labels, names, name)
            y = _select(y, labels, name)
        else:
            y = _array(y)
    elif features and not labels and isinstance(getattr(y, "name", None), str):
        labels = (y.name,)
    return x, y, TableColumns(features, labels if features else ())


def _read_inputs(
    frame: Any, signature: ModelSignature, labels: Sequence[str], name: str, warns: bool
) -> tuple[Any, tuple[str, ...]]:
    """The inputs of a table, and the columns of the one that consists of several."""
    names = _column_names(frame, name)
    if len(signature.inputs) > 1:
        missing = [one for one in signature.inputs if one not in names]
        if missing:
            raise DataError(
                f"{name}: has no column {missing[0]!r}{_count_others(missing)}, which is an input of the model; it has "
                f"{_listing(names)}.{did_you_mean(missing[0], names)}"
            )
        columns = {one: _values(frame, one) for one in signature.inputs}
        return {one: c[:, None] if signature.inputs[one] == (1,) else c for one, c in columns.items()}, ()
    features = _feature_columns(frame, signature.table, labels, name, warns)
    if signature.text_names:
        return (_values(frame, features[0]), features) if len(features) == 1 else (_array(frame), ())
    if len(signature.input_shape or ()) == 1:
        return _stack(frame, features, name), features
    return _array(frame), ()


def _only_value(x: Any, names: Sequence[str]) -> Any:
    """The value of the only name in a list or a dict; x where there are more names, or other ones."""
    if len(names) == 1 and isinstance(x, Mapping) and len(x) == 1:
        x = x.get(names[0], x)
    return x[0] if len(names) == 1 and isinstance(x, list | tuple) and len(x) == 1 else x


def _column_names(frame: Any, name: str = "data") -> tuple[str, ...]:
    """The names of the columns; empty where they have none (numbers). Raises DataError for a name that occurs twice."""
    names = list(frame.columns)
    if not names or not all(isinstance(word, str) for word in names):
        return ()
    twice = next((word for word in names if names.count(word) > 1), None) if len(set(names)) < len(names) else None
    if twice is not None:
        raise DataError(f"{name}: has {names.count(twice)} columns named {twice!r}")
    return tuple(names)


def _feature_columns(
    frame: Any, table: TableColumns, targets: Sequence[str], name: str, warns: bool
) -> tuple[str, ...]:
    """The columns of a table that an input consists of: those that the model was trained on, in its order; without
    their names all but the ``targets``.

    A DataWarning lists columns that are not read, where it ``warns``. Raises DataError for columns that are missing.
    """
    names = _column_names(frame, name)
    if not table.features:
        return tuple(word for word in names if word not in targets)
    features = _trained_columns(table.features, names, name)
    unread = [word for word in names if word not in (*table.features, *table.labels, *targets)]
    if unread and warns:
        warn_user(
            f"{name}: {_listing(unread)} {'is' if len(unread) == 1 else 'are'} not read: the model was trained on "
            f"{_listing(features)}",
            DataWarning,
        )
    return features


def _trained_columns(columns: tuple[str, ...], names: Sequence[str], name: str) -> tuple[str, ...]:
    """Columns that the model was trained on, in its order. Raises DataError where one is missing."""
    missing = [word for word in columns if word not in names]
    if missing:
        raise DataError(
            f"{name}: has no column {missing[0]!r}{_count_others(missing)}, which the model was trained on; it has "
            f"{_listing(names)}.{did_you_mean(missing[0], names)} Values alone, frame.to_numpy(), are read by position"
        )
    return columns


def _values(frame: Any, column: str) -> Any:
    """The values of a column, as NumPy has them."""
    values = frame[column]
    return values.to_numpy() if hasattr(values, "to_numpy") else np.asarray(values)


def _by_output(frame: Any, outputs: Sequence[str]) -> dict[str, Any]:
    """The columns with the names of outputs."""
    return {column: _values(frame, column) for column in outputs}


def _array(frame: Any) -> Any:
    """All values of a table [rows, columns]."""
    return frame.to_numpy() if hasattr(frame, "to_numpy") else np.asarray(frame)


def _select(frame: Any, columns: Sequence[str], name: str) -> Any:
    """One column [rows], several side by side [rows, columns], or None for none."""
    return None if not columns else _values(frame, columns[0]) if len(columns) == 1 else _stack(frame, columns, name)


def _stack(frame: Any, columns: Sequence[str], name: str = "data") -> np.ndarray:
    """Columns of numbers side by side: [rows, columns]. Raises DataError, with its name, for another one."""
    return np.stack([as_column(_values(frame, column), column, name) for column in columns], 1)


def _listing(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:MAX_LISTED])) + (", ..." if len(names) > MAX_LISTED else "")


def _count_others(missing: Sequence[str]) -> str:
    return f" (nor {_listing(missing[1:])})" if len(missing) > 1 else ""
