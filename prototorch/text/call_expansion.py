"""Calls where they stand in an expansion: what their words mean there, see `prototorch.text.call_binding`."""

from __future__ import annotations

from collections import ChainMap
from dataclasses import replace

from prototorch.text.call_binding import CallBinder
from prototorch.text.call_schema import schema_at
from prototorch.text.expansion_state import NET, NO_VALUE, ExpansionState, Names, Scope, find_variable
from prototorch.text.operands import render_value
from prototorch.text.output_names import declared_inputs
from prototorch.text.shipped_blocks import shipped_blocks
from prototorch.text.source import Span
from prototorch.text.syntax_tree import (
    BlockDef,
    Body,
    CallBody,
    CallWord,
    Field,
    InvalidValue,
    Scalar,
    TypedBlock,
    Value,
)

__all__ = ["CallInScope"]


class CallInScope(CallBinder):
    """Binds the calls of one scope of an expansion."""

    def __init__(self, state: ExpansionState, names: Names, scope: Scope):
        super().__init__()
        self.state = state
        self.names = names
        self.scope = scope

    def bind_statement(self, statement: Field, used: BlockDef | None = None) -> Field:
        """``Name(...)`` as ``Name { ... }``. used: the block that it means, where its name does not say it."""
        call: CallBody = statement.value
        block = self.state.blocks.get(statement.name)
        if used is None and block is not None and block[0] < self.scope.visible:
            used = block[1]
        if used is not None:
            layers = self.state.layer_arguments.get(used.name, ())
            body = self.bind_block(used, call, len(declared_inputs(used)) or None, layers)
        elif block is not None or (statement.name in self.state.blocks_to_come and self.scope.kind == NET):
            body = Body((), call.span)  # it is used too early, which is reported
        else:
            schema = schema_at((*self.scope.owner, statement.name))
            body = self.bind_class(statement.name, call, schema, statement.name_span)
        return replace(statement, value=body)

    def bind_typed(self, value: TypedBlock) -> TypedBlock:
        """``word(...)``, the value of a field, as ``word { ... }``; the scope is that of the field."""
        schema = schema_at((*self.scope.owner, ":" + value.word))
        if schema is None and not self.scope.owner:
            schema = schema_at((value.word,))  # a layer, as the value of a param or an argument
        body = self.bind_class(value.word, value.body, schema, value.word_span)  # type: ignore[arg-type]
        return TypedBlock(value.word, body, value.span, value.word_span)

    def is_block(self, name: str) -> bool:
        block = self.state.blocks.get(name)
        return block[0] < self.scope.visible if block is not None else name in shipped_blocks()

    def describe_variable(self, word: str) -> str | None:
        value = find_variable(self.names, word)
        if value is NO_VALUE:
            return None
        own = self.names.maps[:-1] if isinstance(self.names, ChainMap) else ()
        param = None if any(word in scope for scope in own) else self.state.params.get(word)
        place = f" of line {param.span.line}" if param is not None and param.span is not None else ""
        kind = "param" if param is not None else "value"
        return f"the {kind} {word}{place}" + ("" if isinstance(value, InvalidValue) else f" ({render_value(value)})")

    def describe_output(self, word: str) -> str | None:
        if self.scope.kind != NET or not self.state.name_resolver.is_readable(word, self.scope.prefix):
            return None
        return f"the output {word!r}"

    def output_to_come(self, word: CallWord) -> Span | None:
        spans, at = self.state.output_spans.get(word.text, ()), word.span
        if at is None or self.scope.kind != NET:
            return None
        block = self._block_around(at)
        below = [s for s in spans if s.source is at.source and s.start > at.start and self._block_around(s) is block]
        return min(below, key=lambda s: s.start) if below else None

    def is_complete(self) -> bool:
        return self.state.complete

    def _block_around(self, at: Span) -> BlockDef | None:
        """The block whose definition this part of the text is in."""
        definitions = [definition for _, definition in self.state.blocks.values()]
        for block in (*definitions, *self.state.blocks_to_come.values()):
            span = block.span
            if span is not None and span.source is at.source and span.start <= at.start < span.end:
                return block
        return None

    def explain_outer_output(self, word: CallWord) -> str:
        resolver, prefix = self.state.name_resolver, self.scope.prefix
        if self.scope.kind == NET and (message := resolver.explain_closed_name(word.text, prefix)):
            return message
        block = self._block_around(word.span) if word.span is not None else None
        if block is None or self.scope.kind != NET or resolver.resolve(word.text, prefix) not in resolver.defined:
            return ""
        name = word.text
        example = f'input "{name}" in its braces, and {block.name}({name})'
        return f"{name!r} is an output outside of the block {block.name}: give it to the block, by {example}."

    def output_value(self, word: str, span: Span | None) -> Value:
        return Scalar(word, span)

    def report_call(self, message: str, span: Span | None, is_provisional: bool = False) -> None:
        self.state.complete = self.state.complete and is_provisional
        self.state.report.add(message, span, self.scope.chain, is_provisional)
