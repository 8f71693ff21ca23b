"""The functions of expressions: `min`, `range`, `zip`, ... No other can be called.

Each takes operands and gives one. TypeError, ValueError and OverflowError say that the operands do not fit, which the
evaluator reports with the function's usage; a list that would be too long is refused before it is made.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from prototorch.text import limits
from prototorch.text.operands import EvaluationError, is_number
from prototorch.text.source import Span

__all__ = ["FUNCTIONS", "ExpressionFunction", "check_list_length"]


@dataclass(frozen=True)
class ExpressionFunction:
    """``compute(*operands)``; usage: what it takes, for messages; reads_list: it walks over a list or the operands."""

    compute: Callable[..., Any]
    usage: str
    reads_list: bool = False


def check_list_length(count: int, span: Span | None) -> None:
    """Raise EvaluationError for more values than a list may have."""
    if count > limits.MAX_LIST_LENGTH:
        raise EvaluationError(f"A list of {count} values is above the limit of {limits.MAX_LIST_LENGTH}.", span)


def _numbers(values: tuple[Any, ...]) -> Any:
    """The operands, or those of the one list among them."""
    items = values[0] if len(values) == 1 and isinstance(values[0], list) else values
    if not all(map(is_number, items)):
        raise TypeError
    return items


def _number(value: Any) -> Any:
    if not is_number(value):
        raise TypeError
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError
    return value


def _integer(value: Any) -> int:
    if type(value) is not int:
        raise TypeError
    return value


def _length(value: Any) -> int:
    if not isinstance(value, list | str):
        raise TypeError
    return len(value)


def _sum(value: Any) -> Any:
    return sum(_numbers((_list(value),)))


def _range(*values: Any) -> list[int]:
    steps = range(*map(_integer, values))
    count = (steps.stop - steps.start + steps.step - (1 if steps.step > 0 else -1)) // steps.step  # beyond 64 bits too
    check_list_length(max(0, count), None)
    return list(steps)


def _round(value: Any, digits: Any = None) -> Any:
    if digits is None:
        return round(_number(value))
    if abs(_integer(digits)) >= 100:
        raise ValueError
    return round(_number(value), digits)


def _zip(*lists: Any) -> list[Any]:
    if not lists:
        raise TypeError
    check_list_length(min(map(len, map(_list, lists))) * len(lists), None)
    return [list(row) for row in zip(*lists, strict=False)]


def _enumerate(values: Any, start: Any = 0) -> list[Any]:
    return [[index, value] for index, value in enumerate(_list(values), _integer(start))]


def _divmod(a: Any, b: Any) -> list[Any]:
    if b == 0:
        raise ValueError
    return list(divmod(_number(a), _number(b)))


_ONE_NUMBER = "it takes one number"
_ONE_FINITE = "it takes one finite number"
_ONE_LIST = "it takes one list"

#: by name
FUNCTIONS: dict[str, ExpressionFunction] = {
    "min": ExpressionFunction(lambda *v: min(_numbers(v)), "it takes numbers, or one list of numbers", True),
    "max": ExpressionFunction(lambda *v: max(_numbers(v)), "it takes numbers, or one list of numbers", True),
    "sum": ExpressionFunction(_sum, "it takes one list of numbers", True),
    "len": ExpressionFunction(_length, "it takes one list or string"),
    "range": ExpressionFunction(
        _range, "it takes one to three integers: stop, or start and stop, and a step that is not 0"
    ),
    "zip": ExpressionFunction(_zip, "it takes lists, and ends with the shortest", True),
    "enumerate": ExpressionFunction(_enumerate, "it takes one list, and the integer that it counts from", True),
    "reversed": ExpressionFunction(lambda values: _list(values)[::-1], _ONE_LIST),
    "round": ExpressionFunction(_round, "it takes a finite number, and how many digits to keep"),
    "int": ExpressionFunction(lambda value: int(_number(value)), _ONE_FINITE),
    "float": ExpressionFunction(lambda value: float(_number(value)), _ONE_NUMBER),
    "ceil": ExpressionFunction(lambda value: math.ceil(_number(value)), _ONE_FINITE),
    "floor": ExpressionFunction(lambda value: math.floor(_number(value)), _ONE_FINITE),
    "sqrt": ExpressionFunction(lambda value: math.sqrt(_number(value)), "it takes one number of at least 0"),
    "log2": ExpressionFunction(lambda value: math.log2(_number(value)), "it takes one number above 0"),
    "divmod": ExpressionFunction(_divmod, "it takes two numbers, the second not 0"),
}
