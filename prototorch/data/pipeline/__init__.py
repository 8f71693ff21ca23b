"""The way of data from what `fit`, `evaluate` and `predict` are given to batches, in stages of one file each.

`DataSource` -> `Columns` -> `CheckedColumns` -> `PreprocessedColumns` -> `BoundColumns` -> `Batches`. A stage is
frozen, and knows the next one alone; what the model expects of data is a frozen `ModelSignature`, which goes along.
"""

from typing import Any

from prototorch.base.public_names import PublicNames

_NAMES = PublicNames(
    __name__,
    {
        "columns": "Columns",
        "frame_tables": "open_frame",
        "samples": "open_samples",
        "source": "DataSource FitSources open_fit_data",
        "table_statements": "reads_types table_options",
        "tables": "encode_rows encode_table learn_table",
    },
)
__all__ = _NAMES.names()


def __getattr__(name: str) -> Any:
    return _NAMES.get(name)


def __dir__() -> list[str]:
    return _NAMES.names()
