"""Reader of CSV files: columns of numbers, one or several of which are the target."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping, Sequence

import numpy as np

from prototorch.data.arrow_csv import open_arrow_csv
from prototorch.data.csv_layout import (
    HINTS,
    check_widths,
    drop_empty_column,
    find_delimiter,
    one_column_hint,
    refuse_header_rows,
)
from prototorch.data.dataset import ArrayDataset
from prototorch.data.label_words import (
    describe_word,
    encode_labels,
    is_number,
    looks_like_data,
    number_hint,
    number_labels,
    parse_number,
)
from prototorch.data.safe_io import decode_text, inflate_head, is_gzip, printable_path, read_head, read_text_bytes
from prototorch.data.table_columns import TableColumns
from prototorch.data.tables.raw_table import RawTable
from prototorch.errors import DataError, did_you_mean

__all__ = ["column_index", "first_row", "read_cells", "read_csv", "read_rows"]

MAX_COLUMNS = 1 << 20
MAX_LINE_BYTES = 1 << 24
MAX_HEAD_BYTES = 1 << 20  # in which a header is searched for


def read_csv(
    path: str | os.PathLike[str],
    label: str | int | Sequence[str | int] = -1,
    classes: Sequence[str] = (),
    features: Sequence[str | int] = (),
    name: str = "",
    groups: TableColumns | None = None,
) -> ArrayDataset:
    """Read a table of numbers: columns ``x`` (float32 [features]) and the target.

    Args:
        path: UTF-8 text, or UTF-16 with a byte order mark; the delimiter is comma, semicolon, tab or |, whichever is
            most frequent in the first line.
        label: the target column by name or by index (negative from the end); several columns form one target [n], none
            (an empty list) a table without a target.
        classes: class names in label order, for a target of text; default: the distinct values, sorted.
        features: the columns that the model reads; default: all except the target.
        groups: the columns of each of several inputs, which replace ``x``, and of several targets, which replace that
            of ``label``.

    The first line is a header if none of its fields is a number and the next line has a number, or if a column is given
    by name. A target of integers has dtype int64, of text int64 with class names, otherwise float32.

    Raises:
        DataError: rows of different lengths, fields that are not numbers, an unknown column (with line and column).
    """
    name = name or printable_path(path)
    labels = [label] if isinstance(label, str | int) else list(label)
    by_name = groups is not None or any(isinstance(c, str) for c in [*labels, *features])
    large = _read_large(path, labels, classes, features, groups, by_name, name)
    if large is not None:
        return large
    rows, lines = read_rows(path, name)
    if len(rows) == 1 and not any(is_number(cell) for cell in rows[0]):
        raise DataError(f"{name}: has no rows: its one line has no numbers (a header?)")
    header = _find_header(rows, by_name)
    if header is not None:
        rows, lines = rows[1:], lines[1:]
    if not rows:
        raise DataError(f"{name}: has no rows")
    width = len(header or rows[0])
    check_widths(rows, lines, width, name)
    if header is not None:
        refuse_header_rows(header, rows, lines, name)
    is_table = width > 1 and any(is_number(cell) for cell in rows[0]) and not any(map(looks_like_data, header or []))
    table = groups or TableColumns()
    by_input, by_target = _match_columns(header, width, labels, features, table, name, is_table)
    titles = header if is_table and header else [str(i) for i in range(width)]
    arrays = {}
    for one, columns in by_input.items():
        arrays[one] = np.empty((len(rows), len(columns)), np.float32)
        for at, column in enumerate(columns):
            arrays[one][:, at] = _parse_column(rows, lines, column, titles, name)
    targets = {one: _parse_target(rows, lines, columns, titles, classes, name) for one, columns in by_target.items()}
    is_regular = lines == list(range(lines[0], lines[0] + len(lines)))
    return _make_dataset(arrays, targets, (header, by_input, by_target, table), name, lines[0] if is_regular else None)


#: the header, the indices of the columns of each input and target, and the groups that they come from
ColumnPlan = tuple[list[str] | None, dict[str, list[int]], dict[str, list[int]], TableColumns]


def _match_columns(
    header: list[str] | None,
    width: int,
    labels: Sequence[str | int],
    features: Sequence[str | int],
    table: TableColumns,
    name: str,
    is_table: bool,
) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
    """The indices of the columns of each input, and of each target; see `read_csv`. Raises DataError."""
    names = header or [str(i) for i in range(width)]
    by_target = _find_columns(table.outputs, names, name, is_table)
    if not by_target and labels:
        targets = [column_index(c, names, name, is_table) for c in labels]
        by_target = {names[targets[0]] if header and len(targets) == 1 else "y": targets}
    used = {i for columns in by_target.values() for i in columns}
    by_input = _find_columns(table.inputs, names, name, is_table)
    if not by_input:
        inputs = [column_index(c, names, name, is_table) for c in features]
        by_input = {"x": inputs or [i for i in range(width) if i not in used]}
    if not all(by_input.values()):
        raise DataError(f"{name}: has no columns except the target")
    return by_input, by_target


def _read_large(
    path: str | os.PathLike[str],
    labels: Sequence[str | int],
    classes: Sequence[str],
    features: Sequence[str | int],
    groups: TableColumns | None,
    by_name: bool,
    name: str,
) -> ArrayDataset | None:
    """A large file of numbers alone, by Arrow's reader; None for any other, which is read, or refused, line by line."""
    first = _first_lines(path)
    if classes or first is None:
        return None
    delimiter, rows = first
    header, width = _find_header(rows, by_name), len(rows[0])
    if header is not None and (len(set(header)) < width or not header[-1]):
        return None
    file = open_arrow_csv(path, delimiter, width, header is not None) if len(rows[-1]) == width else None
    if file is None or file.lines < 1:
        return None
    table = groups or TableColumns()
    by_input, by_target = _match_columns(header, width, labels, features, table, name, True)
    arrays = file.read(
        [*by_input.values(), *by_target.values()], [np.float32] * len(by_input) + [np.float64] * len(by_target)
    )
    if arrays is None:
        return None
    targets: dict[str, tuple[np.ndarray, tuple[str, ...]]] = {}
    for one, array in zip(by_target, arrays[len(by_input) :], strict=True):
        values = array[:, 0] if array.shape[1] == 1 else array
        targets[one] = (number_labels(values) if values.ndim == 1 else values.astype(np.float32)), ()
    columns = dict(zip(by_input, arrays, strict=False))
    return _make_dataset(columns, targets, (header, by_input, by_target, table), name, 1 + (header is not None))


def _make_dataset(
    arrays: dict[str, np.ndarray],
    targets: Mapping[str, tuple[np.ndarray, tuple[str, ...]]],
    plan: ColumnPlan,
    name: str,
    first_line: int | None,
) -> ArrayDataset:
    """The data set of the inputs' arrays and of the targets with their class names. first_line: the line of the first
    row, None where rows and lines are not counted alike."""
    header, by_input, by_target, table = plan
    target_names, class_names = [], {}
    for one, (array, words) in targets.items():
        target = one if one not in arrays else "y" if one == "x" else f"{one}_target"
        arrays[target] = array
        target_names.append(target)
        class_names.update({target: words} if words else {})
    dataset = ArrayDataset(
        arrays,
        list(by_input),
        target_names,
        classes=class_names,
        name=name,
        origins=f"{name}, {'row' if first_line is None else 'line'} {{}}",
        first_row=1 if first_line is None else first_line,
    )
    if header is not None and len(set(header)) == len(header):
        feature_names = () if table.inputs else tuple(header[i] for i in by_input["x"])
        label_names = () if table.outputs else tuple(header[i] for columns in by_target.values() for i in columns)
        dataset.table_columns = TableColumns(feature_names, label_names, table.inputs, table.outputs)
    return dataset


def read_cells(path: str | os.PathLike[str], name: str, has_header: bool) -> RawTable:
    """The cells of a table with a header, as texts.

    has_header: whether the first line is a header whatever stands there. Raises DataError as `read_csv`, and for a
    table without names of columns, or with one twice.
    """
    rows, lines = read_rows(path, name)
    header = _find_header(rows, has_header)
    if len(rows) < 2:
        raise DataError(f"{name}: has no rows")
    if header is None or all(map(is_number, header)):
        raise DataError(f"{name}: a table that is read by type needs a header of column names")
    rows, lines = rows[1:], lines[1:]
    check_widths(rows, lines, len(header), name)
    refuse_header_rows(header, rows, lines, name)
    columns = {}
    for at, column in enumerate(header):
        columns[column] = np.empty(len(rows), object)
        columns[column][:] = [row[at] for row in rows]
    return RawTable(name, columns, np.array(lines))


def _find_columns(
    groups: Mapping[str, Sequence[str]], names: list[str], name: str, is_table: bool
) -> dict[str, list[int]]:
    """The indices of the columns of each input or target."""
    return {one: [column_index(c, names, name, is_table) for c in columns] for one, columns in groups.items()}


def read_rows(
    path: str | os.PathLike[str], name: str, *, prefers_tabs: bool = False
) -> tuple[list[list[str]], list[int]]:
    """The rows of a table as text, and the line on which each ends; empty lines are left out.

    prefers_tabs: whether a tab in the first line is the delimiter, whatever else it has: texts hold commas.
    Raises DataError for what is no UTF-8 text, no table, or empty.
    """
    text = decode_text(read_text_bytes(path, MAX_LINE_BYTES), name)
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise DataError(f"{name}, line {line}: has NUL characters, so it is not a text file, or it is damaged")
    hint = HINTS.get(text.lstrip()[:1]) if text.lstrip()[:2] in ("<!", "<?", "<h", "<t", "[{", "[[") else None
    if hint is not None:
        raise DataError(f"{name}: {hint}")
    delimiter = find_delimiter(text.partition("\n")[0], prefers_tabs)
    rows, lines = [], []
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        for row in reader:
            if not row or (len(row) == 1 and not row[0].strip()):
                continue
            if len(row) > MAX_COLUMNS:
                raise DataError(f"{name}, line {reader.line_num}: has {len(row):,} fields, more than {MAX_COLUMNS:,}")
            rows.append(row)
            lines.append(reader.line_num)
    except csv.Error as error:
        is_open = "end of data" in str(error)
        hint = "; a quote that is opened somewhere before is not closed" if is_open else ""
        raise DataError(f"{name}, line {reader.line_num}: {error}{hint}") from None
    if not rows:
        raise DataError(f"{name}: is empty")
    drop_empty_column(rows)
    return rows, lines


def first_row(path: str | os.PathLike[str]) -> tuple[tuple[str, ...], bool]:
    """The cells of a table's first row, and whether they are a header; no cells of what is no table.

    Only the beginning of the file is read.
    """
    first = _first_lines(path)
    if first is None:
        return (), False
    return tuple(cell.strip() for cell in first[1][0]), _find_header(first[1], False) is not None


def _first_lines(path: str | os.PathLike[str]) -> tuple[str, list[list[str]]] | None:
    """The delimiter and the cells of the first two lines; None for what is no table."""
    head = read_head(path, MAX_HEAD_BYTES)
    if is_gzip(head):
        head = inflate_head(head, MAX_HEAD_BYTES, printable_path(path))
    try:
        text = decode_text(head if len(head) < MAX_HEAD_BYTES else head[: head.rfind(b"\n") + 1], "")
    except DataError:
        return None
    lines = [line for line in text.splitlines() if line.strip()][:2]
    if not lines or "\0" in text:
        return None
    delimiter = find_delimiter(lines[0])
    try:
        rows = list(csv.reader(lines, delimiter=delimiter))
    except csv.Error:
        return None
    return (delimiter, rows) if rows else None


def _find_header(rows: list[list[str]], has_header: bool) -> list[str] | None:
    first = [cell.strip() for cell in rows[0]]
    if has_header:
        return first
    if any(is_number(cell) for cell in first):
        return None
    return first if len(rows) > 1 and any(is_number(cell) for cell in rows[1]) else None


def column_index(column: str | int, names: list[str], name: str, is_table: bool) -> int:
    """The index of a column. The names are listed for a table of numbers only: another file may hold anything.

    Raises DataError for a column that is not there.
    """
    if isinstance(column, str):
        if names.count(column) > 1:
            raise DataError(f"{name}: has {names.count(column)} columns named {column!r}")
        if column in names:
            return names.index(column)
        if not is_table:
            raise DataError(
                f"{name}: has no column {column!r}; expected a header of column names and, in the next line, numbers. "
                "Without a header columns are given by index: label: -1 is the last"
            )
        listing = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "") + one_column_hint(names)
        raise DataError(f"{name}: has no column {column!r}; it has {listing}.{did_you_mean(column, names)}")
    if not -len(names) <= column < len(names):
        raise DataError(f"{name}: has {len(names)} columns, so there is no index {column}")
    return column % len(names)


def _parse_column(rows: list[list[str]], lines: list[int], column: int, names: list[str], name: str) -> np.ndarray:
    out = np.empty(len(rows), np.float64)
    for at, row in enumerate(rows):
        try:
            out[at] = parse_number(row[column])
        except ValueError:
            raise DataError(
                f"{name}, line {lines[at]}, column {names[column]!r}: expected a number, "
                f"got {describe_word(row[column])}{number_hint(row[column])}"
            ) from None
    return out


def _parse_target(
    rows: list[list[str]], lines: list[int], targets: list[int], names: list[str], classes: Sequence[str], name: str
) -> tuple[np.ndarray, tuple[str, ...]]:
    if len(targets) > 1:
        return np.stack([_parse_column(rows, lines, t, names, name) for t in targets], 1).astype(np.float32), ()
    column = names[targets[0]]
    cells = [row[targets[0]].strip() for row in rows]
    return encode_labels(cells, classes, lambda at: f"{name}, line {lines[at]}, column {column!r}")
