"""Tables of other libraries that are read by type: their columns, targets and weights as the rows of a table."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from prototorch.data.array_conversion import WEIGHT_NAME, as_dataset
from prototorch.data.data_block import Data
from prototorch.data.frames import as_table, column_names, column_values, is_frame, whole_table
from prototorch.data.label_words import encode_labels
from prototorch.data.pipeline.signature import ModelSignature
from prototorch.data.pipeline.table_statements import reads_types, table_options
from prototorch.data.tables.frame import TypedTable
from prototorch.data.tables.raw_table import raw_column, raw_table, stored_values
from prototorch.data.tables.table_dataset import TableDataset, TableTargets
from prototorch.data.tables.table_source import open_raw_table
from prototorch.data.tables.typed_values import guess_type
from prototorch.errors import DataError, UsageError

__all__ = ["open_frame"]

NAME = "data"


def open_frame(
    x: Any, y: Any, sample_weight: Any, signature: ModelSignature, learn: bool = False
) -> TableDataset | None:
    """The rows of a table that is read by type; None for a table of numbers alone, and for all else.

    x: a `TypedTable`, a table of pandas, polars or Arrow, a dict of columns, or a list or dict of one of them for the
    one input. y, sample_weight: as of `Model.fit`. learn: whether what the columns hold is learned, where no earlier
    training has. Raises DataError, UsageError for a `TypedTable` without names of columns.
    """
    if isinstance(x, np.ndarray):
        return None  # it names no columns
    is_declared = isinstance(x, TypedTable)
    is_text_model = bool(signature.text_names) and not is_declared and signature.table.encoding is None
    if is_text_model and not (signature.data is not None and reads_types(signature.data, signature)):
        return None
    table = (
        as_table(x.values, allows_lists=True) if isinstance(x, TypedTable) else whole_table(x, tuple(signature.inputs))
    )
    names = () if table is None else column_names(table, NAME)
    if not names:
        if is_declared:
            raise UsageError(f"TypedTable: expected a table with names of columns, got {type(x.values).__name__}")
        return None
    block = x.block if isinstance(x, TypedTable) else _statements(signature)
    options = table_options(block, signature, learn)
    labels = _label_columns(block, names, signature) if y is None else ()
    if not options.is_declared and (not learn or _holds_numbers(table, names, labels)):
        return None
    raw = raw_table([(name, stored_values(table[name])) for name in names], NAME)
    options = replace(options, needs_targets=bool(labels) and options.needs_targets)
    trained_classes = () if signature.table.encoding is None else signature.table.encoding.classes
    classes = tuple(block.classes if block is not None else ()) or trained_classes
    targets = None
    if y is not None or not labels:
        targets = _targets(y, sample_weight, len(raw), classes, signature)
    elif sample_weight is not None:
        raise UsageError("sample_weight goes with y: give the target columns as y, not as a part of the table")
    features = tuple(block.features) if block is not None else ()
    return open_raw_table(raw, labels, features, classes, options, targets)


def _statements(signature: ModelSignature) -> Data | None:
    """The data block of the model's text, as far as it tells how columns are read."""
    block = signature.data
    return None if block is None else block.replace(refit=False)


def _label_columns(block: Data | None, names: tuple[str, ...], signature: ModelSignature) -> tuple[str, ...]:
    """The target columns of a table without y: of the block, of the training, or with the names of the outputs."""
    declared = tuple(str(label) for label in block.label) if block is not None else ()
    for labels in (declared, signature.table.labels, signature.outputs):
        if labels and set(labels) <= set(names):
            return tuple(labels)
    return ()


def _holds_numbers(table: Any, names: tuple[str, ...], labels: tuple[str, ...]) -> bool:
    """Whether all columns but the targets are of numbers, which are read as they are."""
    for name in names:
        values = stored_values(table[name])
        if name not in labels and getattr(getattr(values, "dtype", None), "kind", "O") not in "biuf":
            raw = raw_column(values, name, NAME)
            if raw.dtype.kind not in "biuf" and guess_type(raw) != "number":
                return False
    return True


def _targets(
    y: Any, sample_weight: Any, count: int, classes: tuple[str, ...], signature: ModelSignature
) -> TableTargets:
    """Targets that are no columns of the table, with the class names of texts."""
    if y is None:
        return TableTargets({}, {}, ())
    if is_frame(y) and len(column_names(y, NAME)) == 1:
        y = column_values(y, column_names(y, NAME)[0])
    label = getattr(y, "name", None)
    labels = (label,) if isinstance(label, str) else ()
    names: dict[str, tuple[str, ...]] = {}
    words = _words(y)
    if words is not None:
        y, class_names = encode_labels(words, classes, lambda row: f"{NAME}, row {row}, y")
        names = {signature.outputs[0]: class_names} if class_names else {}
    rows = as_dataset(
        np.arange(count), y, sample_weight, inputs=("row of the table",), outputs=signature.outputs, name=NAME
    )
    arrays = {name: rows.column_array(name) for name in rows.targets}
    weight = rows.column_array(WEIGHT_NAME) if sample_weight is not None else None
    return TableTargets({n: a for n, a in arrays.items() if a is not None}, names, labels, weight=weight)


def _words(y: Any) -> list[str] | None:
    """The texts that targets are; None for other targets. Raises DataError for a gap among them."""
    if isinstance(y, dict) or not (hasattr(y, "dtype") or isinstance(y, list | tuple)):
        return None
    values = np.asarray(y.to_numpy() if hasattr(y, "to_numpy") else y, object)
    if values.ndim != 1 or not any(isinstance(value, str) for value in values):
        return None
    raw = raw_column(values, "y", NAME)
    gap = next((row for row, word in enumerate(raw) if word is None), None)
    if gap is not None:
        raise DataError(f"{NAME}, row {gap}: the target is missing")
    return [word.strip() for word in raw]
