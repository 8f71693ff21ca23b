"""Tables by type: columns of numbers, categories, yes and no, and dates become the arrays that a model reads.

`raw_table.RawTable` holds the values of a file or a frame, `table_dataset.TableDataset` those of one split with their
types, and `table_encoding.TableEncoding` what was learned of the training rows, by which rows become numbers.
"""

from typing import Any

from prototorch.base.public_names import PublicNames

_NAMES = PublicNames(__name__, {"table_files": "is_workbook table_kind", "table_source": "open_table"})
__all__ = _NAMES.names()


def __getattr__(name: str) -> Any:
    return _NAMES.get(name)


def __dir__() -> list[str]:
    return _NAMES.names()
