"""The ``column { }`` statement of a data block: the type of a column of a table, its gaps, and its scale."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any, Literal, get_args

from prototorch.schema import Block, Choice, FieldType, Float, Str, example, field
from prototorch.schema.validation import ValidationError
from prototorch.text.diagnostics import Report
from prototorch.text.syntax_tree import Value, Word

__all__ = [
    "MISSING_WORDS",
    "Column",
    "ColumnType",
    "DatePart",
    "InputColumns",
    "MissingPolicy",
    "Scale",
    "ScaleWord",
    "find_statement",
]

ColumnType = Literal["number", "category", "boolean", "date", "text", "image", "list", "ignore"]
Scale = Literal["auto", "standard", "minmax", "log", "none"]
DatePart = Literal["year", "month", "weekday", "hour", "elapsed"]

#: what a gap may become, beside a value
MISSING_WORDS = ("mean", "median", "most_frequent", "indicator", "drop", "error")


class MissingPolicy(FieldType):
    """What a gap becomes: one of `MISSING_WORDS`, or a value: a number, or a text in quotes."""

    def describe(self) -> str:
        return f"one of {', '.join(MISSING_WORDS)}, or a number, or a text in quotes"

    def label(self) -> str:
        return " | ".join((*MISSING_WORDS, "VALUE"))

    def convert(self, value: Any) -> str | float:
        if isinstance(value, bool):
            return str(value).lower()
        try:
            return Float().convert(value)
        except ValidationError:
            return Str().convert(value)

    def read(self, value: Value, report: Report) -> str | float:
        if isinstance(value, Word) and value.text not in ("true", "false"):
            return str(Choice(MISSING_WORDS).convert(value.text))
        return super().read(value, report)

    def write(self, value: Any) -> Value:
        return Choice(MISSING_WORDS).write(value) if value in MISSING_WORDS else super().write(value)


class ScaleWord(FieldType):
    """A scale; ``none`` is one of them, and not the absence of a value."""

    def describe(self) -> str:
        return self._choice().describe()

    def label(self) -> str:
        return self._choice().label()

    def convert(self, value: Any) -> str:
        return str(self._choice().convert("none" if value is None else value))

    def write(self, value: Any) -> Value:
        return self._choice().write(value)

    def _choice(self) -> Choice:
        return Choice(get_args(Scale))


class Column(Block):
    """How a column of a table is read: ``column { name: "age"  missing: median }``.

    Without a statement the type follows from the values: numbers, dates (``2024-01-31``, with or without a time),
    ``true`` and ``false``, ``yes`` and ``no``; other texts are categories. Where several statements match a column, the
    last one counts.
    """

    display_name = "column"
    positional = ("name",)

    name: str = field(doc='its name in the header; * and ? stand for any characters: "q*"')
    type: ColumnType | None = field(
        None,
        doc="what it holds; text: for an input with a tokenizer its ids, else an element for each frequent word; "
        "image: the path of a file in the table's folder; list: numbers of one length, or categories; ignore: it is "
        "not read; none: by its values",
    )
    missing: str | float | None = field(
        None,
        type=MissingPolicy(),
        doc="what a gap becomes: mean, median or most_frequent of the training rows, a value, indicator (the mean and "
        "a further element that is 1 at gaps; of categories a place of their own), drop (the row is left out of "
        "training and evaluation) or error; none: that of data { missing: ... }",
    )
    scale: Scale = field(
        "auto",
        type=ScaleWord(),
        doc="numbers: standard (mean 0, deviation 1 in the training rows), minmax (0 to 1), log (log(1 + x), then "
        "standard) or none (as they are); auto: that of data { scale: ... }",
    )
    input: str | None = field(None, doc="the input of the model that reads it, where there are several")
    max_categories: int | None = field(
        None,
        min=1,
        max=1 << 20,
        doc="the most frequent categories that have an element; the others share one; of words of a text 1,000, and "
        "the others have none",
    )
    min_count: int = field(1, min=1, doc="training rows that a category needs; rarer ones share an element")
    elements: Literal["number", "category"] | None = field(
        None, doc="what a list holds; none: numbers where all are numbers and all lists have one length"
    )
    separator: str | None = field(
        None, doc="what separates the elements of a list; none: [1, 2], or the first of | ; , and a space that occurs"
    )
    format: str | None = field(None, doc='how dates are written, as of strptime: "%d.%m.%Y"; none: 2024-01-31')
    parts: list[DatePart] = field(
        [],
        doc="what a date becomes: year and elapsed (days since the first training date) are numbers, month, weekday "
        "one element each of 12 and 7, hour a number; empty: year, month, weekday, elapsed, and hour where there are "
        "times",
    )

    examples = [
        example('column { name: "age"  missing: median  scale: standard }'),
        example('column { name: "embarked"  type: category  missing: "S" }'),
        example('column { name: "q*"  scale: minmax }'),
        example('column { name: "tags"  type: list  separator: "|"  min_count: 5 }'),
        example('column { name: "photo"  type: image  input: "image" }'),
        example('column { name: "sold"  type: date  format: "%d.%m.%Y"  parts: [year, month] }'),
    ]
    foreign_fields = {
        **dict.fromkeys(("fill", "fillna", "impute", "na"), "missing"),
        **dict.fromkeys(("dtype", "kind"), "type"),
        **dict.fromkeys(("normalize", "normalization"), "scale"),
    }

    def check(self) -> None:
        if self.type not in (None, "date") and (self.format is not None or self.parts):
            self.refuse(f"format and parts are for dates, and the type is {self.type}", "type")
        has_counts = self.max_categories is not None or self.min_count > 1
        if self.type not in (None, "category", "list", "text") and has_counts:
            self.refuse(f"max_categories and min_count are for categories, and the type is {self.type}", "type")
        if self.type not in (None, "list") and (self.elements is not None or self.separator is not None):
            self.refuse(f"elements and separator are for lists, and the type is {self.type}", "type")
        if self.elements == "number" and has_counts:
            self.refuse("max_categories and min_count are for categories, and the elements are numbers", "elements")
        if self.separator is not None and not self.separator:
            self.refuse("separator needs a character, such as | or ;", "separator")
        if self.type in ("category", "boolean", "text", "image") and self.scale not in ("auto", "none"):
            self.refuse(f"scale is for numbers and dates, and the type is {self.type}", "scale")

    def declared_type(self) -> ColumnType | None:
        """The type, also where only fields of one type tell it."""
        if self.type is not None:
            return self.type
        if self.format is not None or self.parts:
            return "date"
        if self.elements is not None or self.separator is not None:
            return "list"
        return "category" if self.max_categories is not None or self.min_count > 1 else None


class InputColumns(Block):
    """The columns that an input of the model consists of: ``inputs { name: "place"  columns: ["town", "lat*"] }``.

    Columns in no group go to the one input that has none; where each input has a group they are not read.
    """

    display_name = "inputs"
    positional = ("name",)

    name: str = field(doc="the input of the model")
    columns: list[str] = field(doc='names of columns; * and ? stand for any characters: "q*"')
    examples = [example('inputs { name: "place"  columns: ["town", "lat*"] }')]
    foreign_fields = dict.fromkeys(("column", "features"), "columns")

    def check(self) -> None:
        """A group has columns."""
        if not self.columns:
            self.refuse('a group needs columns, such as ["town", "q*"]', "columns")

    def matches(self, column: str) -> bool:
        """Whether a column belongs to it."""
        return column in self.columns or any(fnmatchcase(column, pattern) for pattern in self.columns)


def find_statement(statements: tuple[Column, ...] | list[Column], name: str) -> Column | None:
    """The statement for a column: that of its name, else the last pattern that matches; None without one."""
    matching = [one for one in statements if one.name == name] or [
        one for one in statements if fnmatchcase(name, one.name)
    ]
    return matching[-1] if matching else None
