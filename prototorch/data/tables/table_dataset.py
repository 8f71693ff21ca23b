"""The rows of a table with the types of their columns, before it is known which elements they become."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from prototorch.data.array_conversion import WEIGHT_NAME
from prototorch.data.dataset import ArrayDataset, Columns, Dataset
from prototorch.data.image_folder import ImageFileDataset
from prototorch.data.table_columns import TableColumns
from prototorch.data.tables.column_block import Column, Scale
from prototorch.data.tables.column_encoding import ColumnEncoding
from prototorch.data.tables.column_fitting import fit_column, fit_scaling
from prototorch.data.tables.raw_table import RawTable
from prototorch.data.tables.table_encoding import TableEncoding, list_names
from prototorch.data.tables.table_images import ImageTable, open_image_column
from prototorch.data.tables.table_inputs import TableInputs, assign_inputs
from prototorch.data.tables.target_encoding import TargetEncoding
from prototorch.data.tables.typed_values import TypedValues
from prototorch.errors import DataError, DataWarning, warn_user

__all__ = ["EncodedTable", "TableDataset", "TableTargets"]


@dataclass(frozen=True)
class TableTargets:
    """The targets of a table.

    Attributes:
        arrays: [rows, ...] by name; classes: the class names of those that are classes.
        labels: the columns that they consist of; scales: of those that are scaled.
        weight: the weights of the rows [rows], where they have them; weight_column: the column that they are.
    """

    arrays: Mapping[str, np.ndarray]
    classes: Mapping[str, tuple[str, ...]]
    labels: tuple[str, ...]
    scales: Mapping[str, Scale] = field(default_factory=dict)
    weight: np.ndarray | None = None
    weight_column: str | None = None

    def take(self, rows: np.ndarray) -> TableTargets:
        """The targets of the rows with these indices."""
        arrays = {name: array[rows] for name, array in self.arrays.items()}
        return replace(self, arrays=arrays, weight=None if self.weight is None else self.weight[rows])

    def values(self, label: str) -> np.ndarray:
        """The values of a column, float64 [rows]."""
        array = self.arrays[label] if label in self.arrays else self.arrays["y"][:, self.labels.index(label)]
        return array.astype(np.float64)


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

    @property
    def is_encoded(self) -> bool:
        return True

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
    needs_encoding = True

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
        values = {name: one.take(indices) for name, one in self.values.items()}
        targets = self.table_targets.take(indices)
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

    def fit(self, inputs: TableInputs) -> TableEncoding:
        """What these rows, which are those of the training, show of the columns; tokenizers without a vocabulary learn
        that of their texts. Rows with gaps that are dropped must have been left out.

        Raises DataError for columns that no input, or several, could read.
        """
        types = {name: values.type for name, values in self.values.items()}
        by_column = assign_inputs(self.statements, types, inputs, self.name)
        columns = []
        for name, values in self.values.items():
            one = by_column[name]
            label, origin = f"{self.name}, column {name!r}", self._cell_origin(name)
            is_index = inputs.reads_indices(one)
            columns.append(fit_column(name, values, self.statements[name], one, is_index, origin, label))
        self._adapt(columns, inputs)
        classes = next(iter(self.table_targets.classes.values()), ())
        weights = self.table_targets.weight_column
        return TableEncoding(tuple(columns), tuple(classes), self.unread, self._fit_targets(inputs), weights)

    def _adapt(self, columns: Sequence[ColumnEncoding], inputs: TableInputs) -> None:
        """Let the tokenizers without a vocabulary learn that of the columns that they read."""
        texts: dict[int, list[str]] = {}
        for column in columns:
            if column.type == "text" and column.fills_input:
                texts.setdefault(id(inputs.texts[column.input].tokenizer), []).extend(self._texts(column))
        for one in inputs.texts.values():
            if id(one.tokenizer) in texts and not one.tokenizer.is_adapted():
                one.tokenizer.adapt(texts[id(one.tokenizer)])

    def _texts(self, column: ColumnEncoding) -> list[str]:
        words = self.values[column.name].words
        assert words is not None
        return [str(column.fill or "") if word is None else str(word) for word in words]

    def _fit_targets(self, inputs: TableInputs) -> tuple[TargetEncoding, ...]:
        """The scales of the targets that have one, and the class names where there are several targets."""
        targets, labels = self.table_targets, self.table_targets.labels
        outputs = inputs.outputs
        if len(outputs) == len(labels) and not set(labels) <= set(outputs):
            by_label = dict(zip(labels, outputs, strict=True))
        else:
            by_label = {label: label if label in outputs else outputs[0] for label in labels if outputs}
        encodings = []
        for label, output in by_label.items():
            scale, classes = targets.scales.get(label, "none"), self.classes.get(label, ())
            if scale == "none":
                if targets.scales or (self.classes and len(labels) > 1):
                    encodings.append(TargetEncoding(label, output, classes=classes))
                continue
            if classes:
                raise DataError(f"{self.name}, column {label!r}: scale is for values, and these are names of classes")
            shift, factor = fit_scaling(targets.values(label), scale, self._cell_origin(label))
            encodings.append(TargetEncoding(label, output, scale, shift, factor))
        return tuple(encodings)

    def encode(self, encoding: TableEncoding, inputs: TableInputs, keeps_rows: bool, warns: bool) -> Dataset:
        """The arrays that the inputs read: float32 [rows, elements], of an input of integers int32 [rows, columns], or
        [rows, time] of the ids of texts; images are decoded when they are read.

        keeps_rows: whether a row that is to be dropped is an error, as in a prediction. warns: whether categories that
        the training has not seen are a DataWarning. Raises DataError for gaps that nothing is said of, with their
        numbers by column.
        """
        dropping = [one.name for one in encoding.columns if one.missing == "drop"]
        rows = self if keeps_rows else self.without_gaps(dropping)
        kinds = ("error", "drop") if keeps_rows else ("error",)
        rows.refuse_gaps([one.name for one in encoding.columns if one.missing in kinds], keeps_rows)
        arrays: dict[str, np.ndarray] = {}
        images, sequences = {}, []
        for one in inputs.dtypes:
            columns = encoding.of_input(one)
            if columns and columns[0].type == "image":
                images[one] = rows._open_images(columns[0].name, inputs, one)
            elif columns and columns[0].fills_input:
                arrays[one] = inputs.texts[one].encode(rows._texts(columns[0]))
                sequences.append(one)
            else:
                parts = [column.encode(rows.values[column.name], rows._cell_origin(column.name)) for column in columns]
                arrays[one] = parts[0] if len(parts) == 1 else np.concatenate(parts, 1)
        if warns:
            rows._warn_of_unseen(encoding)
        targets, names = {}, {}
        for name, array in rows.table_targets.arrays.items():
            title = name if name not in inputs.dtypes else f"{name}_target"
            targets[title] = array
            if name in rows.classes:
                names[title] = rows.classes[name]
        if rows.table_targets.weight is not None:
            arrays[WEIGHT_NAME] = rows.table_targets.weight
        loaded = [one for one in inputs.dtypes if one not in images]
        arrays = arrays if arrays or targets else {"row": np.arange(len(rows))}
        dataset = EncodedTable({**arrays, **targets}, loaded, list(targets), names, rows.table)
        dataset.mark_sequences(sequences)
        dataset.table_columns = TableColumns(tuple(self.values), self.table_targets.labels, encoding=encoding)
        return ImageTable(dataset, images, tuple(inputs.dtypes)) if images else dataset

    def _open_images(self, column: str, inputs: TableInputs, name: str) -> ImageFileDataset:
        paths, origin = self.values[column].words, self._cell_origin(column)
        assert paths is not None
        label = f"{self.name}, column {column!r}"
        origins = [origin(row) for row in range(len(paths))]
        return open_image_column(paths, self.table.folder or os.getcwd(), inputs.reader(name), label, origins)

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
