"""Opening of tables: which of them are read by type, and their rows with the types of the columns."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NoReturn

import numpy as np

from prototorch.data.csv_layout import one_column_hint
from prototorch.data.csv_reader import read_csv
from prototorch.data.dataset import ArrayDataset, Dataset
from prototorch.data.label_words import encode_labels, number_pattern
from prototorch.data.safe_io import printable_path
from prototorch.data.table_columns import TableColumns
from prototorch.data.tables.column_block import Column, InputColumns, find_statement
from prototorch.data.tables.raw_table import RawTable
from prototorch.data.tables.table_dataset import EncodedTable, TableDataset, TableTargets
from prototorch.data.tables.table_encoding import list_names
from prototorch.data.tables.table_files import TABLE_SUFFIXES, is_table_name, read_table_file, table_kind
from prototorch.data.tables.table_options import TableOptions
from prototorch.data.tables.typed_values import TypedValues, ValueType, guess_type, parse_values, to_words
from prototorch.errors import DataError, DataWarning, did_you_mean, warn_user
from prototorch.schema.block_source import find_span
from prototorch.text.diagnostics import located

__all__ = ["open_raw_table", "open_table"]

MAX_GUESSED = 100  # different texts of a column that is taken for categories without a statement
MIN_REPEATED = 20  # rows from which on categories must repeat


def open_table(
    path: str | os.PathLike[str],
    labels: Sequence[str | int],
    features: Sequence[str | int],
    classes: Sequence[str],
    groups: TableColumns | None = None,
    options: TableOptions | None = None,
) -> Dataset:
    """The data set of a table: arrays of numbers, or rows by type where a column says so, or, in a training, is not of
    numbers or has gaps.

    labels, features, classes, groups: see `read_csv`. options: None: numbers alone are read. Raises DataError.
    """
    options = options or TableOptions()
    is_csv = table_kind(path) in (None, "csv")
    is_named = is_table_name(path)
    if options.is_declared and is_csv and not is_named:
        raise DataError(
            f"{printable_path(path)}: a text file is read by type where its name ends in {', '.join(TABLE_SUFFIXES)}, "
            "or in one of them and .gz: give it such a name, or leave out what is said of its columns"
        )
    if options.is_declared or not is_csv:
        raw = _read(path, True, options)
        if options.is_declared or (options.learns and _holds_other_types(raw, labels, features)):
            return open_raw_table(raw, labels, features, classes, options)
        return _open_numbers(raw, labels, features, classes, groups)
    label = labels[0] if len(labels) == 1 else list(labels or [-1])
    try:
        return read_csv(path, label, classes, features, groups=groups)
    except DataError:
        if not options.learns or not is_named:
            raise
        raw = _read(path, any(isinstance(c, str) for c in (*labels, *features)), options)
        if not _holds_other_types(raw, labels, features):
            raise
    return open_raw_table(raw, labels, features, classes, options)


def _read(path: str | os.PathLike[str], has_header: bool, options: TableOptions) -> RawTable:
    """The columns of a file, with the folder of its images: that of the block, else its own."""
    table = read_table_file(path, has_header, options.table)
    columns = table.columns
    if options.decimal != "." or options.thousands is not None:
        pattern = number_pattern(options.decimal, options.thousands)
        columns = {name: _plain_numbers(values, pattern, options) for name, values in columns.items()}
    return replace(table, columns=columns, folder=options.folder or os.path.dirname(os.path.abspath(path)))


def _plain_numbers(values: np.ndarray, pattern: re.Pattern[str], options: TableOptions) -> np.ndarray:
    """A column with a decimal point, and nothing between thousands, in all numbers that are texts."""
    if values.dtype.kind != "O":
        return values
    plain = values.copy()
    for row, cell in enumerate(values):
        if isinstance(cell, str) and pattern.fullmatch(cell.strip()):
            text = cell.strip()
            text = text if options.thousands is None else "".join(text.split(options.thousands))
            plain[row] = text.replace("\u00a0", "").replace("\u202f", "").replace(options.decimal, ".")
    return plain


def open_raw_table(
    table: RawTable,
    labels: Sequence[str | int],
    features: Sequence[str | int],
    classes: Sequence[str],
    options: TableOptions,
    targets: TableTargets | None = None,
) -> TableDataset:
    """The rows of a table with the types of its columns.

    labels, features, classes: see `read_csv`; targets: where these are no columns of the table. Raises DataError for
    columns that are missing, values of another type than their column's, and gaps that nothing is said of.
    """
    encoding = options.encoding
    by_training = encoding is not None
    table, weights = _take_weights(table, options)
    names = tuple(table.columns)
    targets_here = [] if targets is not None else _label_columns(table, labels, options)
    for statement in () if by_training else options.statements:
        if not any(find_statement((statement,), name) for name in names):
            with located(find_span(statement, "name")):
                _refuse_column(table, statement.name)
    for group in () if by_training else options.groups:
        for pattern in group.columns:
            if not any(InputColumns(name=group.name, columns=[pattern]).matches(name) for name in names):
                with located(find_span(group, "columns")):
                    _refuse_column(table, pattern)
    if encoding is not None:
        columns = [one.name for one in encoding.columns]
    elif features:
        columns = [_find_column(table, column) for column in features]
    else:
        columns = [name for name in names if name not in targets_here]
    for name in columns:
        if name not in table.columns:
            _refuse_column(table, name, ", which the model was trained on" if by_training else "")
    statements = {name: _statement(name, options) for name in columns}
    if encoding is None:
        columns = [name for name in columns if statements[name].type != "ignore"]
        if options.groups and set(options.inputs) <= {group.name for group in options.groups}:
            columns = [name for name in columns if statements[name].input is not None]
    elif unknown := [n for n in names if n not in (*columns, *targets_here, *labels, *encoding.unread)]:
        warn_user(
            f"{table.name}: {list_names(unknown)} {'is' if len(unknown) == 1 else 'are'} not read: the model was "
            "trained on other columns",
            DataWarning,
        )
    if not columns:
        raise DataError(f"{table.name}: has no columns except the target")
    if targets is None:
        learned = targets_here if options.needs_targets else []
        rows = _rows_with_targets(table, learned, options)
        if rows is not None:
            table, weights = table.take(rows), None if weights is None else weights[rows]
        targets = _read_targets(table, learned, classes, options)
        targets = replace(targets, weight=weights, weight_column=options.weights)
    values = {name: _read_values(table, name, statements[name], options) for name in columns}
    settings = {name: _with_defaults(statements[name], values[name].type, options) for name in columns}
    unread = tuple(name for name in names if name not in columns and name not in targets_here)
    dataset = TableDataset(table, values, settings, targets, options.encoding, unread)
    if options.learns and not by_training:
        dataset.refuse_gaps([name for name in columns if settings[name].missing == "error"])
    return dataset


def _open_numbers(
    table: RawTable,
    labels: Sequence[str | int],
    features: Sequence[str | int],
    classes: Sequence[str],
    groups: TableColumns | None,
) -> ArrayDataset:
    """The data set of a table of numbers, which are read as they are; arguments as of `read_csv`. Raises DataError for
    another value, and for a gap."""
    groups = groups or TableColumns()
    targets = [column for columns in groups.outputs.values() for column in columns]
    targets = targets or [_find_column(table, column) for column in labels]
    rest = [_find_column(table, column) for column in features]
    rest = rest or [name for name in table.columns if name not in targets]
    inputs = groups.inputs or {"x": tuple(rest)}
    if not all(inputs.values()):
        raise DataError(f"{table.name}: has no columns except the target")
    arrays = {}
    for one, columns in inputs.items():
        values = [parse_values(table.columns[n], "number", _cell_origin(table, n)).numbers for n in columns]
        arrays[one] = np.stack([v for v in values if v is not None], 1).astype(np.float32)
        gaps = np.argwhere(np.isnan(arrays[one]))
        if len(gaps):
            row, at = (int(i) for i in gaps[0])
            raise DataError(f"{_cell_origin(table, columns[at])(row)}: expected a number, got none")
    learned = _read_targets(table, targets, classes, TableOptions(outputs=max(len(groups.outputs), 1)))
    names = {name: name if name not in arrays else f"{name}_target" for name in learned.arrays}
    arrays.update({names[name]: array for name, array in learned.arrays.items()})
    class_names = {names[name]: words for name, words in learned.classes.items()}
    dataset = EncodedTable(arrays, list(inputs), list(names.values()), class_names, table)
    if groups.inputs:
        dataset.table_columns = TableColumns(
            (), () if groups.outputs else tuple(targets), groups.inputs, groups.outputs
        )
    else:
        dataset.table_columns = TableColumns(tuple(rest), tuple(targets))
    return dataset


def _holds_other_types(table: RawTable, labels: Sequence[str | int], features: Sequence[str | int]) -> bool:
    """Whether a column that a model would read is not of numbers, or has gaps."""
    targets = [_find_column(table, column) for column in labels or [-1] if _has_column(table, column)]
    columns = [_find_column(table, column) for column in features if _has_column(table, column)]
    for name in columns or [name for name in table.columns if name not in targets]:
        type_ = guess_type(table.columns[name])
        if type_ != "number":
            return True
        try:
            if parse_values(table.columns[name], "number", lambda row: "").gaps().any():
                return True
        except DataError:
            continue  # a number that is written wrongly
    return False


def _statement(name: str, options: TableOptions) -> Column:
    """The statement for a column, with the input of the ``inputs`` group that it belongs to."""
    statement = find_statement(options.statements, name) or Column(name=name)
    group = next((group for group in options.groups if group.matches(name)), None)
    return statement if group is None or statement.input is not None else statement.replace(input=group.name)


def _with_defaults(statement: Column, type_: ValueType, options: TableOptions) -> Column:
    """The statement of a column with the defaults of the data block."""
    missing, scale = statement.missing, statement.scale
    if missing is None and options.missing is not None and type_ != "image":
        missing = options.missing
        if missing in ("mean", "median", "most_frequent"):
            instead = {"category": "most_frequent", "boolean": "most_frequent", "text": "", "list": "indicator"}
            missing = instead.get(type_, missing)
    if scale == "auto":
        scale = "standard" if options.scale == "auto" else options.scale
        scale = "standard" if scale == "log" and type_ == "date" else scale
    is_scaled = type_ in ("number", "date", "list")
    return statement.replace(missing="error" if missing is None else missing, scale=scale if is_scaled else "none")


def _read_values(table: RawTable, name: str, statement: Column, options: TableOptions) -> TypedValues:
    """The values of a column by its type: the trained, the declared one, or else by the values."""
    raw, label, origin = table.columns[name], f"{table.name}, column {name!r}", _cell_origin(table, name)

    if options.encoding is not None:
        one = next(one for one in options.encoding.columns if one.name == name)
        return parse_values(raw, one.type, origin, one.date_format, one.separator, one.elements)
    declared = statement.declared_type()
    type_ = declared if declared not in (None, "ignore") else guess_type(raw)
    if type_ is None:
        raise DataError(f'{label}: has no value in any row; leave it out: column {{ name: "{name}"  type: ignore }}')
    assert type_ != "ignore"
    values = parse_values(raw, type_, origin, statement.format, statement.separator, statement.elements)
    if type_ == "category" and declared is None:
        _check_repeated(values, label, name)
    return values


def _cell_origin(table: RawTable, column: str) -> Callable[[int], str]:
    """Gives the origin of a cell of a column by its row."""
    return lambda row: f"{table.origin(row)}, column {column!r}"


def _check_repeated(values: TypedValues, label: str, name: str) -> None:
    """Raise DataError for texts that are taken for categories and hardly repeat: names, numbers of tickets, prose."""
    assert values.words is not None
    present = [word for word in values.words if word is not None]
    count = len(set(present))
    if count > MAX_GUESSED or (len(present) >= MIN_REPEATED and 2 * count > len(present)):
        raise DataError(
            f"{label}: holds {count:,} different texts in {len(present):,} rows, too many for categories that nothing "
            f'is said of: leave it out with column {{ name: "{name}"  type: ignore }}, or write type: category '
            "max_categories: 100, or type: text; dates of another form than 2024-01-31 are type: date  format: "
            '"%d.%m.%Y"'
        )


def _label_columns(table: RawTable, labels: Sequence[str | int], options: TableOptions) -> list[str]:
    """The target columns. Without ``labels`` the last column; in a table to predict those that it has."""
    if not options.needs_targets:
        return [_find_column(table, column) for column in labels if _has_column(table, column)]
    columns = [_find_column(table, column) for column in labels or [-1]]
    for name in columns:
        statement = _statement(name, options)
        if not _is_pattern(statement.name) and statement.type not in (None, "category", "number"):
            with located(find_span(statement, "name")):
                raise DataError(
                    f"{table.name}: the column {name!r} is the target; of it a statement tells type: category (class "
                    "names that look like numbers), scale (of values, in the loss) and missing: drop alone"
                )
    return columns


def _is_pattern(name: str) -> bool:
    return any(character in name for character in "*?[")


def _take_weights(table: RawTable, options: TableOptions) -> tuple[RawTable, np.ndarray | None]:
    """The table without the column of weights, and the weights, float32 [rows]; None where there are none, as in a
    table to predict or to evaluate that lacks the column. Raises DataError for what is no weight."""
    encoding = options.encoding
    name = options.weights if encoding is None else encoding.weights
    if name is None or (name not in table.columns and encoding is not None):
        return table, None
    if name not in table.columns:
        _refuse_column(table, name, " for the weights")
    rest = replace(table, columns={n: values for n, values in table.columns.items() if n != name})
    if not options.needs_targets:
        return rest, None
    origin = _cell_origin(table, name)
    weights = parse_values(table.columns[name], "number", origin).numbers
    assert weights is not None
    wrong = np.flatnonzero(~(weights >= 0))
    if len(wrong):
        value = "none" if np.isnan(weights[wrong[0]]) else f"{weights[wrong[0]]:g}"
        raise DataError(f"{origin(int(wrong[0]))}: expected a weight of at least 0, got {value}")
    return rest, weights.astype(np.float32)


def _rows_with_targets(table: RawTable, labels: Sequence[str], options: TableOptions) -> np.ndarray | None:
    """The rows that have a target, where a statement of the target says ``missing: drop``; None: all."""
    dropping = [name for name in labels if _statement(name, options).missing == "drop"]
    gaps = np.zeros(len(table), bool)
    for name in dropping:
        gaps |= TypedValues("category", words=to_words(table.columns[name], table.origin)).gaps()
    if not gaps.any():
        return None
    warn_user(
        f"{table.name}: {int(gaps.sum()):,} of the {len(table):,} rows have no {list_names(dropping)} and are left out "
        "(missing: drop)",
        DataWarning,
    )
    return np.flatnonzero(~gaps)


def _read_targets(
    table: RawTable, labels: Sequence[str], classes: Sequence[str], options: TableOptions
) -> TableTargets:
    """The targets of a table: one, of several columns where there are several, or one for each of several outputs."""
    arrays, names, scales = {}, {}, {}
    for name in labels:
        values, statement = table.columns[name], _statement(name, options)
        if statement.scale not in ("auto", "none") and not _is_pattern(statement.name):
            scales[name] = statement.scale
        trained_classes = options.encoding.target_classes(name) if options.encoding is not None else ()
        is_class = statement.type == "category"
        words = to_words(values, table.origin) if values.dtype.kind == "O" or is_class else None
        if words is None:
            arrays[name] = values
            continue
        cells = ["" if word is None else word for word in words]
        declared = (tuple(classes) if len(labels) == 1 else ()) or trained_classes
        declared = declared or (tuple(sorted(set(cells) - {""})) if is_class else ())
        arrays[name], class_names = encode_labels(cells, declared, _cell_origin(table, name))
        if class_names:
            names[name] = class_names
    if len(labels) > 1 and options.outputs == 1:
        if names:
            raise DataError(
                f"{table.name}: several target columns form one target of numbers, and {list_names(list(names))} holds "
                "class names"
            )
        stacked = {"y": np.stack([arrays[n].astype(np.float32) for n in labels], 1)}
        return TableTargets(stacked, {}, tuple(labels), scales)
    return TableTargets(arrays, names, tuple(labels), scales)


def _has_column(table: RawTable, column: str | int) -> bool:
    count = len(table.columns)
    return column in table.columns if isinstance(column, str) else -count <= column < count


def _find_column(table: RawTable, column: str | int) -> str:
    """The name of a column. Raises DataError for one that is not there."""
    if isinstance(column, str):
        if column not in table.columns:
            _refuse_column(table, column)
        return column
    if not _has_column(table, column):
        raise DataError(f"{table.name}: has {len(table.columns)} columns, so there is no index {column}")
    return list(table.columns)[column]


def _refuse_column(table: RawTable, column: str, reason: str = "") -> NoReturn:
    names = list(table.columns)
    raise DataError(
        f"{table.name}: has no column {column!r}{reason}; it has {list_names(names)}{one_column_hint(names)}."
        f"{did_you_mean(column, names)}"
    )
