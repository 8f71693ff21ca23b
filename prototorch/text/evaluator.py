"""The evaluator of expressions: numbers, truth values, strings, words, lists.

Integers stay within 64 bits, lists and strings within their limits; there is no attribute access and no other call
than those of ``FUNCTIONS``.
"""

from __future__ import annotations

import operator
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from prototorch.errors import did_you_mean
from prototorch.text import expressions as ex
from prototorch.text import limits
from prototorch.text.expression_functions import FUNCTIONS, check_list_length
from prototorch.text.loop_targets import bind_target
from prototorch.text.operands import EvaluationError, UnknownValueError, is_number, render_value, to_bool
from prototorch.text.syntax_tree import InvalidValue
from prototorch.text.value_size import measure_value

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
        self.scopes: Sequence[Mapping[str, Any]] = names.maps if isinstance(names, ChainMap) else (names,)
        self.spend = spend

    def value(self, node: Any) -> Any:
        """The value of a node; raises EvaluationError or Unknowable."""
        return _METHODS[type(node)](self, node)

    def literal(self, node: ex.Literal) -> Any:
        if node.value is None:
            raise UnknownValueError
        return node.value

    def find(self, name: str) -> Any:
        """The value that a name is bound to; None where it is not."""
        return next((scope[name] for scope in self.scopes if name in scope), None)

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
            check_list_length(len(left) + len(right), node.span)
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
            if sign in ("in", "not in"):
                if self._contains(right, left, other) is (sign == "not in"):
                    return False
                left = right
                continue
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

    def _contains(self, values: Any, value: Any, node: Any) -> bool:
        """Whether a list has the value, or a string the part."""
        if isinstance(values, str) and isinstance(value, str):
            return value in values
        if not isinstance(values, list):
            raise EvaluationError(f"'in' looks into a list, not into {render_value(values)}.", node.span)
        self.spend(measure_value(values, limits.MAX_STEPS)[0])
        return any(isinstance(v, bool) == isinstance(value, bool) and v == value for v in values)

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

    def slice(self, node: ex.SliceExpression) -> list[Any]:
        value = self.value(node.value)
        if not isinstance(value, list):
            raise EvaluationError(f"Only a list can be sliced; this is {render_value(value)}.", node.value.span)
        parts = []
        for part in (node.start, node.stop, node.step):
            bound = None if part is None else self.value(part)
            if bound is not None and (not isinstance(bound, int) or isinstance(bound, bool)):
                raise EvaluationError(f"The bounds of a slice are integers, not {render_value(bound)}.", part.span)
            if part is node.step and bound == 0:
                raise EvaluationError("The step of a slice is not 0.", part.span)
            parts.append(bound)
        return self._check_limits(value[slice(*parts)], node)

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
        function = FUNCTIONS.get(node.function)
        if function is None:
            hint = did_you_mean(node.function, FUNCTIONS) or f" There are {', '.join(FUNCTIONS)}."
            raise EvaluationError(f"There is no function {node.function!r}.{hint}", node.span)
        arguments = [self.value(a) for a in node.arguments]
        if function.reads_list:
            self.spend(len(arguments) + sum(len(a) for a in arguments if isinstance(a, list)))
        try:
            return self._check_limits(function.compute(*arguments), node)
        except EvaluationError as error:
            raise EvaluationError(error.message, error.span or node.span) from None
        except (TypeError, ValueError, OverflowError):
            operands = ", ".join(map(render_value, arguments))
            raise EvaluationError(f"{node.function}({operands}): {function.usage}.", node.span) from None

    def comprehension(self, node: ex.Comprehension) -> list[Any]:
        """The list, made value by value: the steps of each are counted before it is made."""
        values: list[Any] = []
        outer = self.scopes
        try:
            self._loop(node, 0, outer, values)
        finally:
            self.scopes = outer
        return self._check_limits(values, node)

    def _loop(self, node: ex.Comprehension, depth: int, outer: Any, values: list[Any]) -> None:
        """Append the values of the loops from number ``depth`` on; ``outer`` are the names around that loop."""
        loop = node.loops[depth]
        self.scopes = outer
        series = self.value(loop.series)
        if not isinstance(series, list):
            hint = f" Write range({series})." if isinstance(series, int) and not isinstance(series, bool) else ""
            raise EvaluationError(f"'for' iterates over a list, not {render_value(series)}.{hint}", loop.series.span)
        for item in series:
            self.spend(node.size)
            scopes = (bind_target(loop.target, item, loop.series.span), *outer)
            self.scopes = scopes
            if not all(to_bool(self.value(c), c.span) for c in loop.conditions):
                continue
            if depth + 1 < len(node.loops):
                self._loop(node, depth + 1, scopes, values)
            else:
                values.append(self.value(node.element))
                check_list_length(len(values), node.span)

    def _number(self, value: Any, sign: str, node: Any) -> None:
        if not is_number(value):
            raise EvaluationError(f"{sign} takes numbers, not {render_value(value)}.", node.span)

    def _check_limits(self, value: Any, node: Any) -> Any:
        if isinstance(value, int) and not limits.INT_MIN <= value <= limits.INT_MAX:
            raise self._too_large(node)
        if isinstance(value, list):
            check_list_length(len(value), node.span)
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
    ex.Comprehension: Evaluator.comprehension,
    ex.Subscript: Evaluator.index,
    ex.SliceExpression: Evaluator.slice,
    ex.TemplateString: Evaluator.template,
    ex.FunctionCall: Evaluator.call,
}
