"""How a data block says that tables are read by type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from prototorch.data.tables.column_block import Column, InputColumns, Scale

if TYPE_CHECKING:
    from prototorch.data.tables.table_encoding import TableEncoding

__all__ = ["TableOptions"]


@dataclass(frozen=True)
class TableOptions:
    """How tables are read by type.

    Attributes:
        statements: the ``column`` blocks; missing, scale: what counts for columns that do not say it.
        encoding: what an earlier training has learned, which is settings; None: nothing, or it is learned anew.
        learns: whether the table is for a training, which learns the encoding where there is none.
        needs_targets: whether a table without the target columns is an error.
        outputs: the number of outputs that are learned.
        groups: the ``inputs`` blocks; weights: the column of the weights of the rows.
        inputs: the inputs of the model. folder: of the images; None: that of the table.
        table: the name of a table of SQLite, or of a sheet.
        decimal, thousands: what is written for the decimal point, and between thousands.
    """

    statements: tuple[Column, ...] = ()
    missing: str | float | None = None
    scale: Scale = "auto"
    encoding: TableEncoding | None = None
    learns: bool = False
    needs_targets: bool = True
    outputs: int = 1
    groups: tuple[InputColumns, ...] = ()
    weights: str | None = None
    inputs: tuple[str, ...] = ()
    folder: str | None = None
    decimal: str = "."
    thousands: str | None = None
    table: str | None = None

    @property
    def is_declared(self) -> bool:
        """Whether a table is read by type whatever its values are."""
        is_stated = bool(self.statements or self.groups) or self.missing is not None or self.weights is not None
        is_stated = is_stated or self.decimal != "." or self.thousands is not None
        return self.encoding is not None or is_stated or self.scale != "auto"
