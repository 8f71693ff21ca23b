"""The rows of a table with the types of their columns, before it is known which elements they become."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

import numpy as np

from prototorch.data.array_conversion import WEIGHT_NAME
from prototorch.data.dataset import ArrayDataset, Columns, Dataset
from prototorch.data.table_columns import TableColumns
from prototorch.data.tables.column_block import Column
from prototorch.data.tables.column_encoding import fit_column
from prototorch.data.tables.raw_table import RawTable
from prototorch.data.tables.table_encoding import TableEncoding, list_names
from prototorch.data.tables.typed_values import TypedValues
from prototorch.errors import DataError, DataWarning, did_you_mean, warn_user

__all__ = ["EncodedTable", "TableDataset", "TableTargets"]

Dtypes = Mapping[str, str]


@dataclass(frozen=True)
class TableTargets:
    """The targets of a table: arrays [rows, ...] by name, the class names of those that are classes, and the columns
    that they consist of; and the weights of the rows [rows], where they have them."""

    arrays: Mapping[str, np.ndarray]
    classes: Mapping[str, tuple[str, ...]]
    labels: tuple[str, ...]
    weight: np.ndarray | None = None


class EncodedTable(ArrayDataset):
    """A table as arrays in memory, whose samples are known by the lines of their file. columns, inputs, targets,
    classes: see `ArrayDataset`; table: the rows."""

    def __init__(
        self,
        columns: Mapping[str, np.ndarray],
        inputs: Sequence[str],
        targets: Sequence[str],
        classes: Mapping[str, tuple[str, ...]],
        table: RawTable,
    ):
        weight = WEIGHT_NAME if WEIGHT_NAME in columns else None
        super().__init__(columns, inputs, targets, weight=weight, classes=classes, name=table.name)
        self.rows = RawTable(table.name, {}, table.lines)

    def origin(self, index: int) -> str:
        return self.rows.origin(index)


class TableDataset(Dataset):
    """Rows of a table: their values by type, which `encode` makes arrays of.

    Args:
        table: the rows as they are stored.
        values: of the columns that the model reads, in order.
        statements: how each of these is read, with the defaults of the data block.
        targets: what is learned.
        unread: the other columns of the table, but for the targets.
        encoding: what the columns were read by in an earlier training, which is kept; None: it is learned.
    """

    is_cheap = True

    def __init__(
        self,
        table: RawTable,
        values: Mapping[str, TypedValues],
        statements: Mapping[str, Column],
        targets: TableTargets,
        encoding: TableEncoding | None,
        unread: tuple[str, ...] = (),
    ):
        self.name, self.columns, self.inputs, self.targets = table.name, {}, (), tuple(targets.arrays)
        self.table, self.values, self.statements, self.table_targets, self.encoding = (
            table,
            dict(values),
            dict(statements),
            targets,
            encoding,
        )
        self.unread = unread
        self.classes = dict(targets.classes)
        self.table_columns = TableColumns(tuple(values), targets.labels, encoding=encoding)

    def __len__(self) -> int:
        return len(self.table)

    def read(self, indices: np.ndarray) -> Columns:
        raise DataError(f"{self.name}: the rows of a table are read after `encode`")

    def origin(self, index: int) -> str:
        return self.table.origin(index)

    def subset(self, indices: np.ndarray) -> TableDataset:
        values = {
            name: TypedValues(
                one.type,
                None if one.numbers is None else one.numbers[indices],
                None if one.words is None else one.words[indices],
            )
            for name, one in self.values.items()
        }
        arrays = {name: array[indices] for name, array in self.table_targets.arrays.items()}
        weight = None if self.table_targets.weight is None else self.table_targets.weight[indices]
        targets = replace(self.table_targets, arrays=arrays, weight=weight)
        return TableDataset(self.table.take(indices), values, self.statements, targets, self.encoding, self.unread)

    def without_gaps(self, columns: Sequence[str]) -> TableDataset:
        """The rows without those that have a gap in one of these columns. Raises DataError where none is left."""
        gaps = np.zeros(len(self), bool)
        for name in columns:
            gaps |= self.values[name].gaps()
        if not gaps.any():
            return self
        if gaps.all():
            raise DataError(f"{self.name}: missing: drop leaves no row")
        warn_user(
            f"{self.name}: {int(gaps.sum()):,} of the {len(self):,} rows are left out for gaps in "
            f"{list_names(columns)} (missing: drop)",
            DataWarning,
        )
        return self.subset(np.flatnonzero(~gaps))

    def fit(self, inputs: Sequence[str], dtypes: Dtypes) -> TableEncoding:
        """What these rows, which are those of the training, show of the columns. Rows with gaps that are dropped must
        have been left out.

        inputs: of the model; dtypes: of each. Raises DataError for columns that no input, or several, could read.
        """
        by_column = self._assign_inputs(inputs)
        columns = []
        for name, values in self.values.items():
            is_index = dtypes[by_column[name]].startswith(("int", "uint"))
            label = f"{self.name}, column {name!r}"
            origin = self._cell_origin(name)
            columns.append(fit_column(name, values, self.statements[name], by_column[name], is_index, origin, label))
        classes = next(iter(self.table_targets.classes.values()), ())
        return TableEncoding(tuple(columns), tuple(classes), self.unread)

    def encode(self, encoding: TableEncoding, inputs: Sequence[str], keeps_rows: bool, warns: bool) -> EncodedTable:
        """The arrays that the inputs read: float32 [rows, elements], of an input of integers int32 [rows, columns].

        inputs: of the model, in order. keeps_rows: whether a row that is to be dropped is an error, as in a prediction.
        warns: whether categories that the training has not seen are a DataWarning. Raises DataError for gaps that
        nothing is said of, with their numbers by column.
        """
        dropping = [one.name for one in encoding.columns if one.missing == "drop"]
        rows = self if keeps_rows else self.without_gaps(dropping)
        kinds = ("error", "drop") if keeps_rows else ("error",)
        rows.refuse_gaps([one.name for one in encoding.columns if one.missing in kinds], keeps_rows)
        arrays: dict[str, np.ndarray] = {}
        for one in inputs:
            parts = [
                column.encode(rows.values[column.name], rows._cell_origin(column.name))
                for column in encoding.of_input(one)
            ]
            arrays[one] = parts[0] if len(parts) == 1 else np.concatenate(parts, 1)
        if warns:
            rows._warn_of_unseen(encoding)
        targets, names = {}, {}
        for name, array in rows.table_targets.arrays.items():
            title = name if name not in arrays else f"{name}_target"
            targets[title] = array
            if name in rows.classes:
                names[title] = rows.classes[name]
        if rows.table_targets.weight is not None:
            arrays[WEIGHT_NAME] = rows.table_targets.weight
        dataset = EncodedTable({**arrays, **targets}, list(inputs), list(targets), names, rows.table)
        dataset.table_columns = TableColumns(tuple(self.values), self.table_targets.labels, encoding=encoding)
        return dataset

    def refuse_gaps(self, columns: Sequence[str], keeps_rows: bool = False) -> None:
        """Raise DataError for gaps in these columns, with their number and the first of them."""
        counts = {name: gaps for name in columns if (gaps := np.flatnonzero(self.values[name].gaps())).size}
        if not counts:
            return
        listing = ", ".join(self._count_of(name, rows) for name, rows in counts.items())
        first, numbers = next(iter(counts)), [n for n in counts if self.values[n].type == "number"]
        example = f'column {{ name: "{(numbers or [first])[0]}"  missing: {"median" if numbers else "most_frequent"} }}'
        advice = (
            "the training has said no other value for them, and a prediction leaves no row out"
            if self.encoding is not None or keeps_rows
            else f"say what they become: data {{ ... {example} }}, or data {{ missing: mean }} for all columns"
        )
        raise DataError(f"{self.name}: of {len(self):,} rows there are gaps: {listing}; {advice}")

    def _count_of(self, column: str, rows: np.ndarray) -> str:
        """The number of these rows, and the first of them: "3 in 'age' (the first: line 5)"."""
        first = self.table.origin(int(rows[0])).rpartition(", ")[2]
        return f"{len(rows):,} in {column!r} (the first: {first})"

    def _cell_origin(self, column: str) -> Callable[[int], str]:
        return lambda row: f"{self.table.origin(row)}, column {column!r}"

    def _warn_of_unseen(self, encoding: TableEncoding) -> None:
        notes = []
        for one in encoding.columns:
            rows = np.flatnonzero(one.unseen(self.values[one.name]))
            if len(rows):
                notes.append(self._count_of(one.name, rows))
        if notes:
            warn_user(
                f"{self.name}: values that the training has not seen, or that were rare there: {', '.join(notes)}",
                DataWarning,
            )

    def _assign_inputs(self, inputs: Sequence[str]) -> dict[str, str]:
        """Column -> the input of the model that reads it."""
        by_column: dict[str, str] = {}
        for name, statement in self.statements.items():
            if statement.input is not None:
                if statement.input not in inputs:
                    raise DataError(
                        f"{self.name}, column {name!r}: the model has no input {statement.input!r}; its inputs are "
                        f"{', '.join(inputs)}.{did_you_mean(statement.input, inputs)}"
                    )
                by_column[name] = statement.input
            elif name in inputs and len(inputs) > 1:
                by_column[name] = name
        rest = [name for name in self.statements if name not in by_column]
        free = [one for one in inputs if one not in by_column.values()]
        if rest and len(free) != 1 and len(inputs) > 1:
            self._refuse_inputs(rest, free)
        by_column.update(dict.fromkeys(rest, (free or list(inputs))[0]))
        unfed = [one for one in inputs if one not in by_column.values()]
        if unfed:
            raise DataError(
                f"{self.name}: no column is for the input {unfed[0]!r} of the model: write "
                f'column {{ name: "..."  input: "{unfed[0]}" }}'
            )
        return by_column

    def _refuse_inputs(self, rest: Sequence[str], free: Sequence[str]) -> NoReturn:
        raise DataError(
            f"{self.name}: the model has several inputs, and it is not known which one reads {list_names(rest)}"
            + (f" ({', '.join(free)} are without columns)" if free else "")
            + f': write column {{ name: "{rest[0]}"  input: "..." }}'
        )
