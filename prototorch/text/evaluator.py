"""The evaluator of expressions: numbers, truth values, strings, words, lists.

Integers stay within 64 bits, lists and strings within their limits; there is no attribute access and no other call
than those of ``FUNCTIONS``.
"""

from __future__ import annotations

import math
import operator
from collections import ChainMap
from collections.abc import Callable, Mapping
from typing import Any

from prototorch.errors import did_you_mean
from prototorch.text import expressions as ex
from prototorch.text import limits
from prototorch.text.source import Span
from prototorch.text.syntax_tree import Body, InvalidValue, ListValue, Scalar, TypedBlock, Value, Word
from prototorch.text.value_size import measure_value


class BareWord(str):
    """A bare word as the value of a parameter; equal to the string of the same letters."""

    __slots__ = ()


class ScopedString(str):
    """A string that was given to a block as an argument: as a name it belongs to the scope of the block's user."""

    __slots__ = ("prefix",)
    prefix: str

    @classmethod
    def wrap(cls, value: Any, prefix: str) -> Any:
        """A string, or the strings of a list, marked; one that is marked already keeps its scope."""
        if type(value) is str:
            scoped = cls(value)
            scoped.prefix = prefix
            return scoped
        return [cls.wrap(item, prefix) for item in value] if isinstance(value, list) else value


class EvaluationError(Exception):
    """An expression that has no value."""

    def __init__(self, message: str, span: Span | None):
        super().__init__(message)
        self.message = message
        self.span = span


class UnknownValueError(Exception):
    """The expression depends on something whose mistake is already in the report."""


FUNCTIONS = ("min", "max", "len", "range", "round", "int", "float")
_CONSTANTS: dict[str, Any] = {"true": True, "false": False, "none": None}
_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod,
}  # fmt: skip
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip


class Evaluator:
    """Evaluates against ``names``; ``spend(steps)`` is called with the work and memory of each value that is made."""

    def __init__(self, names: Mapping[str, Any], spend: Callable[[int], None]):
        self.names = names
        self.scopes = names.maps if isinstance(names, ChainMap) else (names,)
        self.spend = spend

    def value(self, node: Any) -> Any:
        """The value of a node; raises EvaluationError or Unknowable."""
        return _METHODS[type(node)](self, node)

    def literal(self, node: ex.Literal) -> Any:
        if node.value is None:
            raise UnknownValueError
        return node.value

    def name(self, node: ex.Name) -> Any:
        for scope in self.scopes:
            if node.name in scope:
                value = scope[node.name]
                if isinstance(value, InvalidValue):
                    raise UnknownValueError
                return value
        if node.name in _CONSTANTS:
            return _CONSTANTS[node.name]
        names = [name for scope in self.scopes for name in scope]
        hint = did_you_mean(node.name, [*names, *FUNCTIONS, *_CONSTANTS])
        if not hint:
            names_text = ", ".join(sorted(names[:200])[:12])
            hint = f" Known here: {names_text}." if names else " No param is defined before it."
        raise EvaluationError(f"There is no value named {node.name!r}.{hint}", node.span)

    def unary(self, node: ex.UnaryExpression) -> Any:
        value = self.value(node.operand)
        if node.operator == "not":
            return not to_bool(value, node.operand.span)
        self._number(value, node.operator, node)
        return self._check_limits(-value if node.operator == "-" else value, node)

    def binary(self, node: ex.BinaryExpression) -> Any:
        if node.operator in ("and", "or"):
            left = to_bool(self.value(node.left), node.left.span)
            if left is (node.operator == "or"):
                return left
            return to_bool(self.value(node.right), node.right.span)
        left, right = self.value(node.left), self.value(node.right)
        if node.operator == "+" and isinstance(left, str) and isinstance(right, str):
            return self._check_limits(str(left) + str(right), node)
        if node.operator == "+" and isinstance(left, list) and isinstance(right, list):
            self._check_length(len(left) + len(right), node)
            return self._check_limits(left + right, node)
        self._number(left, node.operator, node)
        self._number(right, node.operator, node)
        try:
            if node.operator == "**":
                return self._check_limits(self._power(left, right, node), node)
            return self._check_limits(_ARITHMETIC[node.operator](left, right), node)
        except ZeroDivisionError:
            raise EvaluationError(
                f"Division by zero: {render_value(left)} {node.operator} {render_value(right)}.", node.span
            ) from None
        except OverflowError:
            raise self._too_large(node) from None

    def _power(self, base: Any, exponent: Any, node: Any) -> Any:
        if isinstance(base, int) and isinstance(exponent, int) and exponent >= 0:
            if abs(base) > 1 and (exponent > 64 or base.bit_length() * exponent > 130):
                raise self._too_large(node)
            return base**exponent
        if base < 0 and not float(exponent).is_integer():
            raise EvaluationError(f"{render_value(base)} ** {render_value(exponent)} is not a real number.", node.span)
        return float(base) ** float(exponent)

    def compare(self, node: ex.Compare) -> bool:
        left = self.value(node.first)
        for sign, other in node.rest:
            right = self.value(other)
            if sign not in ("==", "!="):
                numbers = is_number(left) and is_number(right)
                if not numbers and not (isinstance(left, str) and isinstance(right, str)):
                    raise EvaluationError(
                        f"{render_value(left)} and {render_value(right)} cannot be compared with {sign}.", node.span
                    )
            if isinstance(left, list) and isinstance(right, list):
                self.spend(measure_value(left, limits.MAX_STEPS)[0])
            if isinstance(left, bool) != isinstance(right, bool):
                holds = sign == "!="
            else:
                holds = _COMPARISONS[sign](left, right)
            if not holds:
                return False
            left = right
        return True

    def choose(self, node: ex.Conditional) -> Any:
        return self.value(node.yes if to_bool(self.value(node.condition), node.condition.span) else node.no)

    def series(self, node: ex.ListExpression) -> list[Any]:
        return self._check_limits([self.value(item) for item in node.items], node)

    def index(self, node: ex.Subscript) -> Any:
        value, index = self.value(node.value), self.value(node.index)
        if not isinstance(value, list):
            raise EvaluationError(f"Only a list can be indexed; this is {render_value(value)}.", node.value.span)
        if not isinstance(index, int) or isinstance(index, bool):
            raise EvaluationError(f"A list index must be an integer, not {render_value(index)}.", node.index.span)
        if not -len(value) <= index < len(value):
            valid = f"0 to {len(value) - 1}" if value else "none"
            message = f"The list index {index} is out of range: the list has {len(value)} values (valid: {valid})."
            raise EvaluationError(message, node.index.span)
        return value[index]

    def template(self, node: ex.TemplateString) -> str:
        parts = []
        for part in node.parts:
            if isinstance(part, str):
                parts.append(part)
                continue
            value = self.value(part)
            if not isinstance(value, str | int | float):
                raise EvaluationError(f"{render_value(value)} cannot be part of a string.", part.span)
            parts.append(value if isinstance(value, str) else render_value(value))
        return self._check_limits("".join(parts), node)

    def call(self, node: ex.FunctionCall) -> Any:
        if node.function not in FUNCTIONS:
            hint = did_you_mean(node.function, FUNCTIONS) or f" There are {', '.join(FUNCTIONS)}."
            raise EvaluationError(f"There is no function {node.function!r}.{hint}", node.span)
        arguments = [self.value(a) for a in node.arguments]
        try:
            return self._check_limits(getattr(self, "_" + node.function)(*arguments), node)
        except EvaluationError as error:
            raise EvaluationError(error.message, error.span or node.span) from None
        except (TypeError, ValueError, OverflowError):
            operands = ", ".join(map(render_value, arguments))
            raise EvaluationError(f"{node.function}({operands}): {_SIGNATURES[node.function]}.", node.span) from None

    def _min(self, *values: Any) -> Any:
        return min(self._require_numbers(values))

    def _max(self, *values: Any) -> Any:
        return max(self._require_numbers(values))

    def _require_numbers(self, values: tuple[Any, ...]) -> Any:
        items = values[0] if len(values) == 1 and isinstance(values[0], list) else values
        self.spend(len(items))
        if not all(map(is_number, items)):
            raise TypeError
        return items

    def _len(self, value: Any) -> int:
        if not isinstance(value, list | str):
            raise TypeError
        return len(value)

    def _range(self, *values: Any) -> list[int]:
        if any(type(v) is not int for v in values):
            raise TypeError
        steps = range(*values)
        count = max(
            0,
            -((steps.start - steps.stop) // steps.step)
            if steps.step > 0
            else -((steps.stop - steps.start) // -steps.step),
        )
        self._check_length(count, None)
        return list(steps)

    def _round(self, value: Any, digits: Any = None) -> Any:
        if not is_number(value) or not (digits is None or (type(digits) is int and abs(digits) < 100)):
            raise TypeError
        return round(value) if digits is None else round(value, digits)

    def _int(self, value: Any) -> int:
        if not is_number(value):
            raise TypeError
        return int(value)

    def _float(self, value: Any) -> float:
        if not is_number(value):
            raise TypeError
        return float(value)

    def _number(self, value: Any, sign: str, node: Any) -> None:
        if not is_number(value):
            raise EvaluationError(f"{sign} takes numbers, not {render_value(value)}.", node.span)

    def _check_limits(self, value: Any, node: Any) -> Any:
        if isinstance(value, int) and not limits.INT_MIN <= value <= limits.INT_MAX:
            raise self._too_large(node)
        if isinstance(value, list):
            self._check_length(len(value), node)
            size, depth = measure_value(value, limits.MAX_LIST_LENGTH)
            self.spend(size)
            if depth > limits.MAX_NESTING:
                raise EvaluationError(f"This list is nested deeper than {limits.MAX_NESTING} levels.", node.span)
            if size > limits.MAX_LIST_LENGTH:
                message = f"This list has more than {limits.MAX_LIST_LENGTH} values, those of the lists in it included."
                raise EvaluationError(message, node.span)
        if isinstance(value, str):
            if len(value) > limits.MAX_STRING_LENGTH:
                message = f"A string of {len(value)} characters is above the limit of {limits.MAX_STRING_LENGTH}."
                raise EvaluationError(message, node.span)
            self.spend(len(value) // 64)
        if isinstance(value, complex):
            raise EvaluationError("The result is not a real number.", node.span)
        return value

    @staticmethod
    def _check_length(count: int, node: Any) -> None:
        if count > limits.MAX_LIST_LENGTH:
            message = f"A list of {count} values is above the limit of {limits.MAX_LIST_LENGTH}."
            raise EvaluationError(message, node and node.span)

    @staticmethod
    def _too_large(node: Any) -> EvaluationError:
        return EvaluationError("The result is too large: integers have 64 bits.", node.span)


_METHODS: dict[type, Callable[[Evaluator, Any], Any]] = {
    ex.Literal: Evaluator.literal,
    ex.Name: Evaluator.name,
    ex.UnaryExpression: Evaluator.unary,
    ex.BinaryExpression: Evaluator.binary,
    ex.Compare: Evaluator.compare,
    ex.Conditional: Evaluator.choose,
    ex.ListExpression: Evaluator.series,
    ex.Subscript: Evaluator.index,
    ex.TemplateString: Evaluator.template,
    ex.FunctionCall: Evaluator.call,
}
_SIGNATURES = {
    "min": "it takes numbers, or one list of numbers",
    "max": "it takes numbers, or one list of numbers",
    "len": "it takes one list or string",
    "range": "it takes one to three integers: stop, or start and stop, and a step that is not 0",
    "round": "it takes a finite number, and how many digits to keep",
    "int": "it takes one finite number",
    "float": "it takes one number",
}


def is_number(value: Any) -> bool:
    """Whether it is a number (a truth value is none)."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def to_bool(value: Any, span: Span | None) -> bool:
    """A truth value; anything else is a mistake."""
    if isinstance(value, bool):
        return value
    hint = " Write a comparison, such as $(n > 0)." if is_number(value) else ""
    hint = f" Write ${value}." if isinstance(value, BareWord) else hint
    raise EvaluationError(f"A condition is true or false, not {render_value(value)}.{hint}", span)


def render_value(value: Any, depth: int = 2) -> str:
    """A value as a message, or a string it is filled into, shows it: the first 8 of a list, and of lists in lists down
    to a depth."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "none"
    if isinstance(value, BareWord):
        return str(value)
    if isinstance(value, str):
        return f'"{value[:40]}"'
    if isinstance(value, list):
        if value and not depth:
            return "[...]"
        return "[" + ", ".join(render_value(v, depth - 1) for v in value[:8]) + (", ...]" if len(value) > 8 else "]")
    if isinstance(value, TypedBlock):
        return f"the block {value.word} {{ ... }}"
    if isinstance(value, Body):
        return "a block { ... }"
    if isinstance(value, float) and math.isnan(value):
        return "nan"
    return repr(value)


def to_operand(value: Value) -> Any:
    """What a parameter bound to this node is worth in expressions."""
    if isinstance(value, Scalar):
        return value.value
    if isinstance(value, Word):
        return None if value.text == "none" else BareWord(value.text)
    if isinstance(value, ListValue):
        return [to_operand(item) for item in value.items]
    return value


def from_operand(value: Any, span: Span | None, scoped: bool = False) -> Value:
    """The node of an expression's value; with ``scoped`` its strings keep the scope they came from."""
    if isinstance(value, BareWord):
        return Word(str(value), span)
    if value is None:
        return Word("none", span)
    if isinstance(value, list):
        return ListValue(tuple(from_operand(item, span, scoped) for item in value), span)
    if isinstance(value, bool | int | float | str):
        return Scalar(value if scoped or not isinstance(value, ScopedString) else str(value), span)
    return value
