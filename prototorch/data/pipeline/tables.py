"""Tables by type in the pipeline: the encoding is learned of the training rows, after the split, and reads all rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from prototorch.data.data_block import Data
from prototorch.data.dataset import Dataset
from prototorch.data.pipeline.columns import Columns
from prototorch.data.pipeline.signature import ModelSignature
from prototorch.data.tables.table_dataset import TableDataset
from prototorch.data.tables.table_encoding import TableEncoding
from prototorch.data.tables.table_inputs import TableInputs
from prototorch.errors import DataError, UsageError
from prototorch.schema.block_source import find_span
from prototorch.text.diagnostics import located

__all__ = ["encode_rows", "encode_table", "learn_table"]


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
            encoding = dataset.fit(_table_inputs(signature, columns.block))
        _check_widths(encoding, signature, dataset.name)
        inputs = _table_inputs(signature, columns.block)
        training = _encode(dataset, encoding, signature, inputs, warns=dataset.encoding is not None)
        validation: Dataset | None = columns.validation
        if isinstance(validation, TableDataset):
            validation = _encode(validation, encoding, signature, inputs, warns=True)
    return replace(columns, dataset=training, validation=validation)


def encode_table(columns: Columns) -> Columns:
    """Data to evaluate or to predict as arrays, by the encoding of the training. Other data as they are."""
    dataset, signature = columns.dataset, columns.signature
    if not isinstance(dataset, TableDataset):
        return columns
    with located(find_span(columns.block, "source")):
        return replace(columns, dataset=encode_rows(dataset, signature, columns.block), validation=None)


def encode_rows(rows: TableDataset, signature: ModelSignature, block: Data | None = None) -> Dataset:
    """The rows of a table as arrays, by the encoding of the training. block: the data block that names it, if one does.
    Raises UsageError where there was none."""
    if rows.encoding is None:
        raise UsageError(f"{rows.name}: the model has not been trained on a table yet, whose columns `fit` learns")
    return _encode(rows, rows.encoding, signature, _table_inputs(signature, block), warns=True)


def _encode(
    dataset: TableDataset, encoding: TableEncoding, signature: ModelSignature, inputs: TableInputs, warns: bool
) -> Dataset:
    return dataset.encode(encoding, inputs, not signature.learned, warns)


def _table_inputs(signature: ModelSignature, block: Data | None) -> TableInputs:
    """The inputs of a model as a table feeds them. block: says how images are read; None: that of the training does."""
    shapes = dict(signature.inputs)
    if shapes and signature.image_shape is not None:
        shapes[next(iter(shapes))] = signature.image_shape
    images = tuple(name for name, shape in shapes.items() if len(shape) == 3)
    data = block or signature.data or Data(source="a table")
    return TableInputs(
        signature.dtypes,
        tuple(one.output for one in signature.learned),
        images,
        lambda name: data.image_reader(shapes[name]),
        {one.name: one for one in signature.texts()},
    )


def _check_widths(encoding: TableEncoding, signature: ModelSignature, name: str) -> None:
    """Raise DataError for an input of another number of elements than its columns become."""
    for one, shape in signature.inputs.items():
        width = encoding.widths().get(one, 0)
        fills = any(column.fills_input for column in encoding.of_input(one))
        if len(shape) == 1 and shape[0] not in (None, width) and one != signature.preprocessed and not fills:
            listing = _list_widths([(c.name, c.width) for c in encoding.of_input(one)])
            raise DataError(
                f"{name}: the input {one!r} has the shape {list(shape)}, and its columns become {width} elements "
                f"({listing}): write shape: [{width}], or shape: [none]"
            )


def _list_widths(widths: Sequence[tuple[str, int]], count: int = 12) -> str:
    return ", ".join(f"{name} {width}" for name, width in widths[:count]) + (", ..." if len(widths) > count else "")
