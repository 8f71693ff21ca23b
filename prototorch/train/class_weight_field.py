"""The field ``class_weight`` of a fit block."""

from __future__ import annotations

from typing import Any

from prototorch.schema.types import Bounds, Choice, FieldType, Float, ListOf
from prototorch.text.diagnostics import Report
from prototorch.text.syntax_tree import ListValue, Value

__all__ = ["BALANCED", "ClassWeights"]

BALANCED = "balanced"


class ClassWeights(FieldType):
    """``balanced``, or a number for each class in their order."""

    def describe(self) -> str:
        return "balanced, or a list of a number for each class, such as [1, 5]"

    def label(self) -> str:
        return "balanced | [NUMBER, ...]"

    def convert(self, value: Any) -> str | tuple[float, ...]:
        return BALANCED if value == BALANCED else tuple(_numbers().convert(value))

    def read(self, value: Value, report: Report) -> Any:
        return _numbers().read(value, report) if isinstance(value, ListValue) else _word().read(value, report)

    def write(self, value: Any) -> Value:
        return _word().write(value) if value == BALANCED else _numbers().write(list(value))


def _word() -> Choice:
    return Choice((BALANCED,))


def _numbers() -> ListOf:
    return ListOf(Float(Bounds(min=0)))
