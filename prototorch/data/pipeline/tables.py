"""Tables by type in the pipeline: the encoding is learned of the training rows, after the split, and reads all rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from prototorch.data.data_block import Data
from prototorch.data.dataset import Dataset
from prototorch.data.pipeline.columns import Columns
from prototorch.data.pipeline.signature import ModelSignature
from prototorch.data.tables.table_dataset import EncodedTable, TableDataset
from prototorch.data.tables.table_encoding import TableEncoding
from prototorch.data.tables.table_options import TableOptions
from prototorch.errors import DataError, UsageError
from prototorch.schema.block_source import find_span
from prototorch.text.diagnostics import located

__all__ = ["encode_rows", "encode_table", "learn_table", "reads_types", "table_options"]


def table_options(data: Data | None, signature: ModelSignature, learn: bool) -> TableOptions:
    """How a table of a data block is read for a model. learn: whether it is the training's."""
    encoding = signature.table.encoding
    if data is None:
        return TableOptions(encoding=encoding, learns=learn, needs_targets=bool(signature.learned))
    return TableOptions(
        tuple(data.column),
        data.missing,
        data.scale,
        None if learn and data.refit else encoding,
        learn,
        bool(signature.learned),
        len(signature.outputs),
    )


def reads_types(data: Data, signature: ModelSignature) -> bool:
    """Whether a table of this block is read by type, whatever its values are."""
    return table_options(data, signature, learn=False).is_declared and not signature.text_names


def learn_table(columns: Columns) -> Columns:
    """Training data, and the validation data that the source itself has or that were split off, as arrays: with the
    encoding of an earlier training, or else that of these training rows. Other data as they are.

    Raises DataError as `TableDataset.fit` and `TableDataset.encode`.
    """
    dataset, signature = columns.dataset, columns.signature
    if not isinstance(dataset, TableDataset):
        return columns
    with located(find_span(columns.block, "source")):
        encoding = dataset.encoding
        if encoding is None:
            dropping = [name for name, statement in dataset.statements.items() if statement.missing == "drop"]
            dataset = dataset.without_gaps(dropping)
            encoding = dataset.fit(tuple(signature.inputs), signature.dtypes)
        _check_widths(encoding, signature, dataset.name)
        training = _encode(dataset, encoding, signature, warns=dataset.encoding is not None)
        validation: Dataset | None = columns.validation
        if isinstance(validation, TableDataset):
            validation = _encode(validation, encoding, signature, warns=True)
    return replace(columns, dataset=training, validation=validation)


def encode_table(columns: Columns) -> Columns:
    """Data to evaluate or to predict as arrays, by the encoding of the training. Other data as they are."""
    dataset, signature = columns.dataset, columns.signature
    if not isinstance(dataset, TableDataset):
        return columns
    with located(find_span(columns.block, "source")):
        return replace(columns, dataset=encode_rows(dataset, signature), validation=None)


def encode_rows(rows: TableDataset, signature: ModelSignature) -> EncodedTable:
    """The rows of a table as arrays, by the encoding of the training. Raises UsageError where there was none."""
    if rows.encoding is None:
        raise UsageError(f"{rows.name}: the model has not been trained on a table yet, whose columns `fit` learns")
    return _encode(rows, rows.encoding, signature, warns=True)


def _encode(dataset: TableDataset, encoding: TableEncoding, signature: ModelSignature, warns: bool) -> EncodedTable:
    return dataset.encode(encoding, tuple(signature.inputs), not signature.learned, warns)


def _check_widths(encoding: TableEncoding, signature: ModelSignature, name: str) -> None:
    """Raise DataError for an input of another number of elements than its columns become."""
    for one, shape in signature.inputs.items():
        width = encoding.widths().get(one, 0)
        if len(shape) == 1 and shape[0] not in (None, width) and one != signature.preprocessed:
            listing = _list_widths([(c.name, c.width) for c in encoding.of_input(one)])
            raise DataError(
                f"{name}: the input {one!r} has the shape {list(shape)}, and its columns become {width} elements "
                f"({listing}): write shape: [{width}], or shape: [none]"
            )


def _list_widths(widths: Sequence[tuple[str, int]], count: int = 12) -> str:
    return ", ".join(f"{name} {width}" for name, width in widths[:count]) + (", ..." if len(widths) > count else "")
