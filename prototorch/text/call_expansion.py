"""Calls where they stand in an expansion: what their words mean there, see `prototorch.text.call_binding`."""

from __future__ import annotations

from collections import ChainMap
from dataclasses import replace
from typing import Any

from prototorch.text.call_binding import CallBinder
from prototorch.text.call_schema import schema_at
from prototorch.text.expansion_state import NET, ExpansionState, Names, Scope
from prototorch.text.operands import render_value
from prototorch.text.source import Span
from prototorch.text.syntax_tree import Body, CallBody, CallWord, Field, InvalidValue, Scalar, TypedBlock, Value

__all__ = ["CallInScope"]

_NO_VALUE = object()


class CallInScope(CallBinder):
    """Binds the calls of one scope of an expansion."""

    def __init__(self, state: ExpansionState, names: Names, scope: Scope):
        super().__init__()
        self.state = state
        self.names = names
        self.scope = scope

    def bind_statement(self, statement: Field) -> Field:
        """``Name(...)`` as ``Name { ... }``."""
        call: CallBody = statement.value
        block = self.state.blocks.get(statement.name)
        if block is not None and block[0] < self.scope.visible:
            body = self.bind_block(block[1], call)
        elif block is not None or (statement.name in self.state.blocks_to_come and self.scope.kind == NET):
            body = Body((), call.span)  # it is used too early, which is reported
        else:
            schema = schema_at((*self.scope.owner, statement.name))
            body = self.bind_class(statement.name, call, schema, statement.name_span)
        return replace(statement, value=body)

    def bind_typed(self, value: TypedBlock) -> TypedBlock:
        """``word(...)``, the value of a field, as ``word { ... }``; the scope is that of the field."""
        schema = schema_at((*self.scope.owner, ":" + value.word))
        body = self.bind_class(value.word, value.body, schema, value.word_span)  # type: ignore[arg-type]
        return TypedBlock(value.word, body, value.span, value.word_span)

    def describe_variable(self, word: str) -> str | None:
        value: Any = _NO_VALUE
        for scope in self.names.maps if isinstance(self.names, ChainMap) else (self.names,):
            if word in scope:
                value = scope[word]
                break
        if value is _NO_VALUE:
            return None
        param = self.state.params.get(word) if scope is self.state.global_names else None
        place = f" of line {param.span.line}" if param is not None and param.span is not None else ""
        kind = "param" if param is not None else "value"
        return f"the {kind} {word}{place}" + ("" if isinstance(value, InvalidValue) else f" ({render_value(value)})")

    def describe_output(self, word: str) -> str | None:
        resolver, full = self.state.name_resolver, self.scope.prefix + word
        if self.scope.kind != NET or (full not in resolver.defined and full not in resolver.aliases):
            return None
        return f"the output {word!r}"

    def output_to_come(self, word: CallWord) -> Span | None:
        spans, at = self.state.output_spans.get(word.text, ()), word.span
        below = [s for s in spans if at is not None and s.source is at.source and s.start > at.start]
        return min(below, key=lambda s: s.start) if below and self.scope.kind == NET else None

    def output_value(self, word: str, span: Span | None) -> Value:
        return Scalar(word, span)

    def report_call(self, message: str, span: Span | None, is_provisional: bool = False) -> None:
        self.state.complete = self.state.complete and is_provisional
        self.state.report.add(message, span, self.scope.chain, is_provisional)
