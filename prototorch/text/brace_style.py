"""Calls as bodies: ``Conv2D(64, 3)`` as ``Conv2D { filters: 64  kernel_size: 3 }``, as texts were written before calls.

The words of a call are bound as an expansion binds them, by the same code; what only an expansion can know (the fields
of a block of another file that are given by position) stays a call.
"""

from __future__ import annotations

from dataclasses import replace

from prototorch.text.call_binding import CallBinder
from prototorch.text.call_schema import Path, schema_at
from prototorch.text.output_names import declared_inputs
from prototorch.text.source import Span
from prototorch.text.style_walk import StyleContext, Styler
from prototorch.text.syntax_tree import (
    Body,
    CallBody,
    CallWord,
    Document,
    Expression,
    Field,
    ListValue,
    Scalar,
    TypedBlock,
    Value,
)

__all__ = ["to_braces"]


def to_braces(document: Document, root: str | None = None) -> Document:
    """The document with bodies in the place of calls; root: the folder whose files it includes."""
    return _BraceStyler(document, root).document(document)


class _UnknownCallError(Exception):
    """What the values of a call mean is not known here."""


class _StaticBinder(CallBinder):
    """Binds the calls of a place in a text that is not expanded."""

    def __init__(self, styler: Styler, context: StyleContext):
        super().__init__()
        self.styler = styler
        self.context = context

    def describe_variable(self, word: str) -> str | None:
        return word if self.styler.is_variable(word, self.context) else None

    def describe_output(self, word: str) -> str | None:
        return word if self.context.owner is None and word in self.context.outputs else None

    def output_to_come(self, word: CallWord) -> Span | None:
        return None

    def is_complete(self) -> bool:
        return True

    def explain_outer_output(self, word: CallWord) -> str:
        return ""

    def is_block(self, name: str) -> bool:
        return self.styler.find_block(name) is not None

    def output_value(self, word: str, span: Span | None) -> Value:
        return Scalar(word, span)

    def report_call(self, message: str, span: Span | None, is_provisional: bool = False) -> None:
        raise _UnknownCallError


class _BraceStyler(Styler):
    def header_value(self, value: Value) -> Value:
        return replace(value, is_bare=False) if isinstance(value, Expression) else value

    def field(self, s: Field, context: StyleContext) -> Field:
        path: Path = (*(context.owner or ()), s.name)
        if isinstance(s.value, CallBody):
            s = self.bind(s, s.value, path, context)
        if s.outputs and isinstance(s.value, Body) and self.is_layer(s.name):
            names = tuple(Scalar(word.text, word.span) for word in s.outputs)
            top = Field("top", names[0] if len(names) == 1 else ListValue(names))
            s = replace(s, value=replace(s.value, statements=(*s.value.statements, top)), outputs=())
        self.note_outputs(s, s.value, context)
        if isinstance(s.value, Body):
            return replace(s, value=self.inside(s, s.value, context))
        return replace(s, value=self.value(s.value, path, context)) if context.owner is not None else s

    def bind(self, s: Field, call: CallBody, path: Path, context: StyleContext) -> Field:
        """A call as a body; as it is where what it means is not known."""
        if context.owner is None and ((s.name == "input" and call.is_bare) or self.is_variable(s.name, context)):
            return s
        binder = _StaticBinder(self, context)
        block = self.find_block(s.name) if context.owner is None else None
        try:
            if block is not None:
                _, layers = self.arguments_of(s.name) or ((), ())
                body = binder.bind_block(block, call, len(declared_inputs(block)) or None, layers)
            else:
                body = binder.bind_class(s.name, call, schema_at(path), s.name_span)
        except _UnknownCallError:
            return s
        if call.body is not None:
            body = replace(body, opening=call.body.opening, closing=call.body.closing)
        return replace(s, value=body)

    def value(self, value: Value, path: Path, context: StyleContext) -> Value:
        """A value of a field, the calls in it as bodies."""
        if isinstance(value, ListValue):
            return replace(value, items=tuple(self.value(item, path, context) for item in value.items))
        if not isinstance(value, TypedBlock):
            return value
        inside = (*path, ":" + value.word)
        body = value.body
        if isinstance(body, CallBody):
            try:
                binder = _StaticBinder(self, replace(context, owner=path))
                body = binder.bind_class(value.word, body, schema_at(inside), value.word_span)
            except _UnknownCallError:
                return value
        inner = StyleContext(context.variables, {}, inside, context.indent + 1)
        return replace(value, body=self.body(body, inner))
