"""The inputs of a model as a table feeds them, and which of its columns each of them reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from prototorch.data.image_io import ImageReader
from prototorch.data.tables.column_block import Column
from prototorch.data.tables.table_encoding import list_names
from prototorch.data.text_source import TextInput
from prototorch.errors import DataError, did_you_mean

__all__ = ["TableInputs", "assign_inputs"]


@dataclass(frozen=True)
class TableInputs:
    """What a model reads.

    Attributes:
        dtypes: of its inputs, by name, in order.
        outputs: the outputs that are learned, in order.
        images: the inputs that are images. reader: gives what decodes the files of one of them.
        texts: the inputs with a tokenizer.
    """

    dtypes: Mapping[str, str]
    outputs: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    reader: Callable[[str], ImageReader] = lambda _: ImageReader()
    texts: Mapping[str, TextInput] = field(default_factory=dict)

    def reads_indices(self, name: str) -> bool:
        """Whether an input is made of integers."""
        return self.dtypes[name].startswith(("int", "uint"))


def assign_inputs(
    statements: Mapping[str, Column], types: Mapping[str, str], inputs: TableInputs, table: str
) -> dict[str, str]:
    """Column -> the input of the model that reads it: that of its statement, of its name, the only one for images or
    texts, or else the one that is left.

    statements, types: of the columns. table: its name, for messages. Raises DataError where it is not known, where a
    column and its input are not of one kind, and for an input without columns.
    """
    names, by_column = tuple(inputs.dtypes), dict[str, str]()
    kinds = {"image": inputs.images, "text": tuple(inputs.texts)}
    for column, statement in statements.items():
        fitting = kinds.get(types[column], ())
        if statement.input is not None:
            if statement.input not in names:
                raise DataError(
                    f"{table}, column {column!r}: the model has no input {statement.input!r}; its inputs are "
                    f"{', '.join(names)}.{did_you_mean(statement.input, names)}"
                )
            by_column[column] = statement.input
        elif column in names and len(names) > 1:
            by_column[column] = column
        elif len(fitting) == 1:
            by_column[column] = fitting[0]
    rest = [column for column in statements if column not in by_column]
    free = [one for one in names if one not in by_column.values()]
    if rest and len(free) != 1 and len(names) > 1:
        _refuse_inputs(rest, free, table)
    by_column.update(dict.fromkeys(rest, (free or list(names))[0]))
    for column, one in by_column.items():
        _check_kind(column, types[column], one, inputs, [c for c, name in by_column.items() if name == one], table)
    unfed = [one for one in names if one not in by_column.values()]
    if unfed:
        raise DataError(
            f'{table}: no column is for the input {unfed[0]!r} of the model: write column {{ name: "..."  input: '
            f'"{unfed[0]}" }}, or inputs {{ name: "{unfed[0]}"  columns: ["..."] }}'
        )
    return by_column


def _check_kind(column: str, type_: str, one: str, inputs: TableInputs, columns: Sequence[str], table: str) -> None:
    """Raise DataError where a column is not of the kind of the input that reads it and ``columns``."""
    label = f"{table}, column {column!r}"
    if (type_ == "image") != (one in inputs.images):
        kind = "is an image" if one in inputs.images else "is no image of shape [channels, height, width]"
        raise DataError(f"{label}: its type is {type_}, and the input {one!r} {kind}")
    if type_ == "text" and inputs.reads_indices(one) and one not in inputs.texts:
        raise DataError(
            f"{label}: the input {one!r} of integers reads texts through a tokenizer: TextVectorization "
            f'{{ bottom: "{one}" }}'
        )
    fills = type_ == "image" or (type_ == "text" and one in inputs.texts)
    if fills and len(columns) > 1:
        raise DataError(f"{label}: {type_}s are an input of their own, and {one!r} reads {list_names(columns)}")


def _refuse_inputs(rest: Sequence[str], free: Sequence[str], table: str) -> NoReturn:
    raise DataError(
        f"{table}: the model has several inputs, and it is not known which one reads {list_names(rest)}"
        + (f" ({', '.join(free)} are without columns)" if free else "")
        + f': write column {{ name: "{rest[0]}"  input: "..." }}'
    )
