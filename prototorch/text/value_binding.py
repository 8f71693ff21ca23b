"""Names of values (``param``, ``let``) and conditions on them (``assert``), where an expansion meets them."""

from __future__ import annotations

from abc import ABC
from collections import ChainMap

from prototorch.text.arguments import check_param
from prototorch.text.evaluator import Evaluator
from prototorch.text.expansion_state import Names, Scope
from prototorch.text.expression_writer import format_expression
from prototorch.text.expressions import names_in
from prototorch.text.operands import render_value
from prototorch.text.source import Span
from prototorch.text.syntax_tree import Assert, Expression, InvalidValue, Let, Param, Scalar, Value
from prototorch.text.value_expansion import ValueExpander

__all__ = ["ValueBinder"]

_NAMES_SHOWN = 12  # names of a condition whose values its message shows


class ValueBinder(ValueExpander, ABC):
    """Binds names to values, and checks conditions on them."""

    def bind_value(self, statement: Param | Let, names: Names, scope: Scope) -> None:
        """Bind a name. A param of the top level takes the caller's value."""
        top = names is self.global_names
        first = self._first_definition(statement, names, top)
        if first is not None:
            at = f" (first at {first[1]})" if first[1] is not None else ""
            message = f"The {first[0]} {statement.name!r} is defined twice{at}."
            self.report_error(message, statement.name_span, scope)
            return
        value = self.evaluate(statement.value, names, scope)
        if isinstance(statement, Let):
            if top:
                self.lets[statement.name] = statement
            self.spend_value(value, statement.span, scope)
        elif top:
            self.params[statement.name] = statement
            settable = self.tables.settable
            if statement.name in self.caller_params and (settable is None or statement.name in settable):
                caller_value = self.caller_params[statement.name]
                problem = check_param(statement.name, value, caller_value)
                if problem is not None:
                    self.report_error(problem, statement.name_span, scope)
                value = caller_value
        names[statement.name] = value

    def _first_definition(self, statement: Param | Let, names: Names, top: bool) -> tuple[str, Span | None] | None:
        """What bears the name already where it cannot be given again, for a message, and its place."""
        if top:
            first = self.params.get(statement.name) or self.lets.get(statement.name)
            kind = "let" if isinstance(first, Let) else "param"
            return None if first is None else (kind, first.span)
        own = names.maps[0] if isinstance(names, ChainMap) else names
        return ("value", None) if isinstance(statement, Let) and statement.name in own else None

    def check_assert(self, statement: Assert, names: Names, scope: Scope) -> None:
        """Report a condition that does not hold, with the values of the names in it."""
        holds = self.evaluate_condition(statement.condition, names, scope)
        if holds is None:
            self.complete = False
            return
        if holds:
            return
        text = self._assert_message(statement, names, scope)
        values = self._values_in(statement.condition, names)
        self.report_skipped(text + (f" ({values})." if values else "."), statement.condition.span, scope)

    def _assert_message(self, statement: Assert, names: Names, scope: Scope) -> str:
        if statement.message is not None:
            text = self.expand_value(statement.message, names, scope)
            if isinstance(text, Scalar) and str(text.value).strip():
                return str(text.value).rstrip(" .")
        return f"This must hold: {_format_condition(statement.condition)}"

    def _values_in(self, condition: Value, names: Names) -> str:
        """``dim = 100, heads = 8``: the values of the names in a condition."""
        if not isinstance(condition, Expression):
            return ""
        evaluator = Evaluator(names, lambda steps: None)
        values = []
        for name in list(names_in(condition.root))[:_NAMES_SHOWN]:
            value = evaluator.find(name)
            if value is not None and not isinstance(value, InvalidValue):
                values.append(f"{name} = {render_value(value)}")
        return ", ".join(values)


def _format_condition(condition: Value) -> str:
    """The condition without ``$( )``."""
    if not isinstance(condition, Expression):
        return "false"
    text = format_expression(condition.root)
    return text[2:-1] if text.startswith("$(") else text.removeprefix("$")
