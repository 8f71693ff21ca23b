"""``column "age" { ... }``: the string is the ``name`` of what is declared."""

from __future__ import annotations

from dataclasses import replace

from prototorch.text.call_schema import schema_at
from prototorch.text.expansion_state import NET, ExpansionState, Scope
from prototorch.text.name_resolution import TOP_LEVEL_FIELDS
from prototorch.text.string_literals import quote
from prototorch.text.syntax_tree import Body, Field, InvalidValue, Scalar

__all__ = ["bind_label"]

LABEL_FIELD = "name"


def bind_label(state: ExpansionState, statement: Field, scope: Scope) -> Field:
    """The statement with its string as a field; a field without its ':' is reported, and has no value."""
    label, body = statement.label, statement.value
    assert label is not None
    assert isinstance(body, Body)
    problem = _describe_problem(state, statement, scope)
    if problem is None:
        second = next((f for f in body.fields if f.name == LABEL_FIELD), None)
        if second is None:
            name = Field(LABEL_FIELD, label, label.span, label.span)
            return replace(statement, label=None, value=replace(body, statements=(name, *body.statements)))
        at = f" (first at line {label.span.line})" if label.span is not None else ""
        state.report_skipped(f"{statement.name}.{LABEL_FIELD} is given twice{at}.", second.name_span, scope)
        return replace(statement, label=None)
    state.report_skipped(problem, statement.name_span, scope)
    return Field("", InvalidValue(statement.span), statement.span, statement.name_span)


def _describe_problem(state: ExpansionState, statement: Field, scope: Scope) -> str | None:
    """Why the string cannot be a name: it is the value of a field, or of a class that has none."""
    name, body = statement.name, statement.value
    if name in state.blocks or (name in state.blocks_to_come and scope.kind == NET):
        return None
    schema = schema_at((*scope.owner, name))
    if schema is not None:
        if schema.has_field(LABEL_FIELD):
            return None
        return f"{schema.name} has no name: write {schema.name} {{ field: value }}."
    is_field = name in TOP_LEVEL_FIELDS if scope.kind == NET else bool(scope.owner and schema_at(scope.owner))
    if not is_field:
        return None
    if scope.kind == NET and name == "import" and not body.statements:
        return f"Another file is included by: include {_show(statement)}"
    return f"A ':' is missing between {name} and {_show(statement)}."


def _show(statement: Field) -> str:
    label = statement.label
    text = str(label.value) if isinstance(label, Scalar) else "${...}"
    return quote(text if len(text) <= 40 else text[:37] + "...")
