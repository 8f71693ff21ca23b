"""A survey of the columns of a table: types, gaps, identifiers, leaks; which of them a model should read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from prototorch.data.tables.raw_table import RawTable
from prototorch.data.tables.table_source import MAX_GUESSED, MIN_REPEATED
from prototorch.data.tables.typed_values import ValueType, guess_type, parse_values, to_words
from prototorch.errors import DataError

__all__ = ["ColumnSurvey", "TableSurvey", "survey_table"]

MAX_CLASSES = 20  # different integers of a target that are taken for classes
MIN_ROWS_A_CLASS = 3
WORDS_OF_TEXT = 3.0  # words of a cell, on average, from which on different texts are prose
SKEWED = 20.0  # of the largest value to the median, from which on a logarithm is taken
LEAK = 0.9999  # of the correlation with the target
_IDENTIFIER = re.compile(r"(^|[_ .-])(id|ids|uuid|guid|key|index|row|nr|no|number)$|^(unnamed: *\d+|)$", re.IGNORECASE)

TargetKind = Literal["classes", "values"]


@dataclass(frozen=True)
class ColumnSurvey:
    """The contents of a column.

    Attributes:
        type: that a model reads it as; None: it is left out.
        reason: why it is left out, or what is unusual about it; "" for nothing.
        gaps: the number of rows without a value; different: of different values.
        is_skewed: whether its numbers are of several orders of magnitude, none negative.
    """

    name: str
    type: ValueType | None
    reason: str = ""
    gaps: int = 0
    different: int = 0
    is_skewed: bool = False


@dataclass(frozen=True)
class TableSurvey:
    """The columns of a table, and its target.

    Attributes:
        columns: all but the target; target: the target's column; kind: whether it is a class or a value.
        classes: the number of classes, with the number of rows of the rarest and of the most frequent one.
    """

    rows: int
    columns: tuple[ColumnSurvey, ...]
    target: ColumnSurvey
    kind: TargetKind
    classes: tuple[int, int, int] = (0, 0, 0)

    def read(self) -> list[ColumnSurvey]:
        """The columns that a model reads."""
        return [column for column in self.columns if column.type is not None]


def survey_table(table: RawTable, target: str, ignored: Sequence[str] = ()) -> TableSurvey:
    """Look at the columns of a table. ignored: columns that are left out in any case.

    Raises DataError for a target without values, or of one value, and where no column is left to learn from.
    """
    goal = _survey_column(table, target, is_target=True)
    words = to_words(table.columns[target], table.origin)
    counts = Counter(word for word in words if word is not None)
    if len(counts) < 2:
        raise DataError(
            f"{table.name}: the target {target!r} has {len(counts)} different values: nothing can be learned"
        )
    is_class = _is_class(table.columns[target], goal.type, counts)
    columns = tuple(
        _without_leak(table, _survey_column(table, name), words, is_class)
        if name not in ignored
        else ColumnSurvey(name, None, "as asked")
        for name in table.columns
        if name != target
    )
    if all(column.type is None for column in columns):
        reasons = "; ".join(f"{column.name}: {column.reason}" for column in columns[:8])
        raise DataError(f"{table.name}: no column is left to learn {target!r} from ({reasons})")
    sizes = (len(counts), min(counts.values()), max(counts.values())) if is_class else (0, 0, 0)
    return TableSurvey(len(table), columns, goal, "classes" if is_class else "values", sizes)


def _survey_column(table: RawTable, name: str, is_target: bool = False) -> ColumnSurvey:
    values = table.columns[name]
    type_ = guess_type(values)
    if type_ is None:
        return ColumnSurvey(name, None, "it has no value in any row", len(values))
    words = to_words(values, table.origin) if type_ != "list" else None
    present = [word for word in words if word is not None] if words is not None else list(values)
    gaps, different = len(values) - len(present), len(set(present))
    survey = ColumnSurvey(name, type_, "", gaps, different)
    if is_target:
        return ColumnSurvey(name, type_, "", gaps, different, _is_skewed(table, name, type_))
    if different == 1:
        return _left_out(survey, "it has one value in all rows")
    if type_ == "list":
        return survey
    is_named_id = bool(_IDENTIFIER.search(name))
    if different == len(present) >= MIN_REPEATED and type_ in ("number", "category"):
        is_integer = type_ == "number" and all("." not in word and "e" not in word.lower() for word in present)
        if is_integer and (is_named_id or _counts_up(table, name)):
            return _left_out(survey, "it numbers the rows: all values are different")
    if type_ == "category" and (
        different > MAX_GUESSED or (len(present) >= MIN_REPEATED and 2 * different > len(present))
    ):
        average = sum(len(word.split()) for word in present) / len(present)
        if average >= WORDS_OF_TEXT:
            return ColumnSurvey(name, "text", "", gaps, different)
        return _left_out(survey, f"it has {different:,} different texts in {len(present):,} rows: names or identifiers")
    return ColumnSurvey(name, type_, "", gaps, different, _is_skewed(table, name, type_))


def _left_out(survey: ColumnSurvey, reason: str) -> ColumnSurvey:
    return ColumnSurvey(survey.name, None, reason, survey.gaps, survey.different)


def _numbers(table: RawTable, name: str) -> np.ndarray | None:
    """The numbers of a column, NaN for a gap; None where one of its values is none."""
    try:
        return parse_values(table.columns[name], "number", table.origin).numbers
    except DataError:
        return None


def _counts_up(table: RawTable, name: str) -> bool:
    """Whether the numbers grow by 1 from row to row."""
    numbers = _numbers(table, name)
    return numbers is not None and len(numbers) > 1 and bool((np.diff(numbers) == 1).all())


def _is_skewed(table: RawTable, name: str, type_: ValueType | None) -> bool:
    numbers = _numbers(table, name) if type_ == "number" else None
    if numbers is None:
        return False
    present = numbers[~np.isnan(numbers)]
    median = float(np.median(present)) if len(present) else 0.0
    return len(present) >= MIN_REPEATED and present.min() >= 0 < median and present.max() > SKEWED * median


def _is_class(values: np.ndarray, type_: ValueType | None, counts: Counter[str]) -> bool:
    """Whether a target is a class: no number, or one of a few integers that repeat."""
    if type_ in ("category", "boolean"):
        return True
    are_integers = all(re.fullmatch(r"-?\d+", word) for word in counts)
    return are_integers and len(counts) <= MAX_CLASSES and sum(counts.values()) >= MIN_ROWS_A_CLASS * len(counts)


def _without_leak(table: RawTable, column: ColumnSurvey, target: np.ndarray, is_class: bool) -> ColumnSurvey:
    """A column, left out where it tells the target: with the same values, one for one, or as a multiple."""
    if column.type in (None, "list", "text", "date"):
        return column
    words = to_words(table.columns[column.name], table.origin)
    pairs = {(a, b) for a, b in zip(words, target, strict=True) if a is not None and b is not None}
    firsts, seconds = {a for a, _ in pairs}, {b for _, b in pairs}
    if len(pairs) == len(firsts) == len(seconds) > 1 and (is_class or column.type == "category"):
        return _left_out(column, "each value stands for one value of the target: it tells the answer")
    if not is_class and column.type == "number":
        own, goal = _numbers(table, column.name), np.array([np.nan if b is None else _float(b) for b in target])
        if own is not None:
            both = ~(np.isnan(own) | np.isnan(goal))
            if both.sum() > 2 and own[both].std() > 0 and goal[both].std() > 0:
                correlation = abs(float(np.corrcoef(own[both], goal[both])[0, 1]))
                if correlation > LEAK:
                    return _left_out(
                        column, f"its correlation with the target is {correlation:.5f}: it tells the answer"
                    )
    return column


def _float(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        return np.nan
