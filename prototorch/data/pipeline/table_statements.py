"""The options of reading a table for a model: those of its data block and of an earlier training."""

from __future__ import annotations

from prototorch.data.data_block import Data
from prototorch.data.pipeline.signature import ModelSignature
from prototorch.data.tables.table_options import TableOptions

__all__ = ["reads_types", "table_options"]


def table_options(data: Data | None, signature: ModelSignature, learn: bool) -> TableOptions:
    """How a table of a data block is read for a model. learn: whether it is the training's."""
    encoding = signature.table.encoding
    if data is None:
        block = signature.data
        return TableOptions(
            encoding=encoding,
            learns=learn,
            needs_targets=bool(signature.learned),
            decimal="." if block is None else block.decimal,
            thousands=None if block is None else block.thousands,
            table=None if block is None else block.table,
        )
    return TableOptions(
        tuple(data.column),
        data.missing,
        data.scale,
        None if learn and data.refit else encoding,
        learn,
        bool(signature.learned),
        len(signature.outputs),
        tuple(data.inputs),
        data.weights,
        tuple(signature.inputs),
        data.folder,
        data.decimal,
        data.thousands,
        data.table,
    )


def reads_types(data: Data, signature: ModelSignature) -> bool:
    """Whether a table of this block is read by type, whatever its values are."""
    return data.text is None and table_options(data, signature, learn=False).is_declared
