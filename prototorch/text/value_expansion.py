"""Expansion of values: expressions are evaluated, bodies and lists expanded."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

from prototorch.text import limits
from prototorch.text.block_values import LayersValue
from prototorch.text.call_expansion import CallInScope
from prototorch.text.evaluator import Evaluator
from prototorch.text.expansion_state import PLAIN, ExpansionState, Names, Scope, new_names
from prototorch.text.operands import EvaluationError, UnknownValueError, from_operand, to_bool, to_operand
from prototorch.text.source import Span
from prototorch.text.syntax_tree import (
    Body,
    CallBody,
    Expression,
    Field,
    InvalidValue,
    ListValue,
    Scalar,
    TypedBlock,
    Value,
)
from prototorch.text.value_size import STRING_UNIT, measure_value

__all__ = ["ValueExpander"]


class ValueExpander(ExpansionState, ABC):
    """Expands values; a subclass expands the statements of bodies."""

    @abstractmethod
    def expand_statements(self, statements: tuple[Any, ...], names: Names, scope: Scope) -> list[Field]:
        """The fields that statements expand to, in order."""

    def evaluate(self, value: Value, names: Names, scope: Scope) -> Any:
        """The value of a node as an operand of expressions; InvalidValue after an error, which is reported."""
        if not isinstance(value, Expression):
            node = self.expand_value(value, names, scope)
            return node if isinstance(node, InvalidValue) else to_operand(node)
        if value.size > 1:
            self.spend_steps(value.size, value.span, scope)
        evaluator = Evaluator(names, lambda steps: self.spend_steps(steps, value.span, scope))
        try:
            return evaluator.value(value.root)
        except EvaluationError as error:
            self.report_error(error.message, error.span or value.span, scope)
        except UnknownValueError:
            pass
        return InvalidValue(value.span)

    def expand_value(self, value: Value, names: Names, scope: Scope, scoped: bool = False) -> Value:
        """The node without expressions; the same object if it has none. ``scoped``: see `from_operand`."""
        if isinstance(value, Expression):
            result = self.evaluate(value, names, scope)
            if isinstance(result, InvalidValue):
                return result
            if isinstance(result, LayersValue):
                name = result.definition.name
                self.report_error(
                    f"{name!r} is layers, and no value: write {name} where a layer stands.", value.span, scope
                )
                return InvalidValue(value.span)
            self.spend_value(result, value.span, scope)
            return from_operand(result, value.span, scoped)
        if isinstance(value, ListValue):
            self.spend_steps(len(value.items), value.span, scope)
            items = tuple(self.expand_value(item, names, scope, scoped) for item in value.items)
            if all(new is old for new, old in zip(items, value.items, strict=True)):
                return value
            invalid = any(isinstance(i, InvalidValue) for i in items)
            return InvalidValue(value.span) if invalid else ListValue(items, value.span)
        if isinstance(value, TypedBlock):
            if isinstance(value.body, CallBody):
                value = CallInScope(self, names, scope).bind_typed(value)
            inside = replace(scope, kind=PLAIN, owner=(*scope.owner, ":" + value.word))
            body = self.expand_body(value.body, names, inside)
            return value if body is value.body else TypedBlock(value.word, body, value.span, value.word_span)
        if isinstance(value, Body):
            return self.expand_body(value, names, replace(scope, kind=PLAIN))
        if isinstance(value, Scalar) and isinstance(value.value, str):
            self.spend_steps(len(value.value) // STRING_UNIT, value.span, scope)
        return value

    def spend_value(self, value: Any, span: Span | None, scope: Scope) -> None:
        """Count the steps of copying or reading a value: those of a list or a block by their size."""
        if isinstance(value, list | str | Body | TypedBlock):
            self.spend_steps(measure_value(value, limits.MAX_STEPS)[0], span, scope)

    def expand_body(self, body: Body, names: Names, scope: Scope) -> Body:
        inner = names if all(isinstance(s, Field) for s in body.statements) else new_names(names)
        fields = tuple(self.expand_statements(body.statements, inner, scope))
        same = len(fields) == len(body.statements) and all(a is b for a, b in zip(fields, body.statements, strict=True))
        return body if same else Body(fields, body.span)

    def evaluate_condition(self, value: Value, names: Names, scope: Scope) -> bool | None:
        """The truth value of a condition; None after an error, which is reported."""
        result = self.evaluate(value, names, scope)
        if isinstance(result, InvalidValue):
            return None
        try:
            return to_bool(result, value.span)
        except EvaluationError as error:
            self.report_error(error.message, error.span, scope)
            return None
