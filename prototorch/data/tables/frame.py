"""A table in memory together with how its columns are read."""

from __future__ import annotations

from typing import Any

from prototorch.data.data_block import Data

__all__ = ["TypedTable"]


class TypedTable:
    """A table of pandas, polars or Arrow, or a dict of columns, with what a ``data`` block says of one in a file.

    >>> import prototorch as pt
    >>> columns = [pt.data.Column("fare", scale="log"), pt.data.Column("ticket", type="ignore")]
    >>> values = {"fare": [7.5, 80.0], "ticket": ["a", "b"], "survived": [0, 1]}
    >>> table = pt.data.TypedTable(values, "survived", column=columns)

    Args:
        values: the table.
        label: the target columns; empty: the target is ``y`` of `Model.fit`.
        settings: features, classes, column, inputs, weights, missing, scale, refit: the fields of `Data`.
    """

    def __init__(self, values: Any, label: Any = (), **settings: Any):
        allowed = ("features", "classes", "column", "inputs", "weights", "missing", "scale", "refit")
        for name in settings:
            if name not in allowed:
                raise TypeError(f"TypedTable() has no argument {name!r}; it has values, label, {', '.join(allowed)}")
        self.values = values
        self.block = Data(source="a table in memory", label=label, **settings)
