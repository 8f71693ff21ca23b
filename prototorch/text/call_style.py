"""Bodies as calls, where the call is shorter: ``Conv2D { filters: 64  kernel_size: 3 }`` as ``Conv2D(64, 3)``.

The text means the same: what a call would read as something else stays in braces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from prototorch.text import expressions as ex
from prototorch.text.brace_style import to_braces
from prototorch.text.call_schema import CallSchema, Path, schema_at
from prototorch.text.name_resolution import TOP_LEVEL_BLOCKS, TOP_LEVEL_FIELDS, string_values
from prototorch.text.output_names import declared_inputs
from prototorch.text.reader import is_name
from prototorch.text.style_walk import StyleContext, Styler
from prototorch.text.syntax_tree import (
    BlockDef,
    Body,
    CallArgument,
    CallBody,
    CallWord,
    Document,
    Expression,
    Field,
    ListValue,
    Scalar,
    TypedBlock,
    Value,
    Word,
)
from prototorch.text.writer import format_document

__all__ = ["CALL_WIDTH", "to_calls"]

CALL_WIDTH = 100  # columns that a call fits in
MAX_POSITIONAL = 3  # values of layers, blocks and inputs that are written by position; of others the first


def to_calls(document: Document, root: str | None = None) -> Document:
    """The document with calls in the place of bodies of plain fields; a call that it has is written anew.

    root: the folder whose files it includes.
    """
    return _CallStyler(document, root).document(to_braces(document, root))


def _needs_name(value: Value, position: int) -> bool:
    """Whether a value is written with its field's name, also where it could stand by position: ``true`` says nothing
    alone, and a word only in the first place (``Activation(relu)``, but ``Dense(64, activation: relu)``)."""
    is_truth = isinstance(value, Scalar) and isinstance(value.value, bool)
    return is_truth or (position > 0 and isinstance(value, Word | TypedBlock))


def _to_header_value(value: Value) -> Value:
    """A count or condition: a name without "$"."""
    if not isinstance(value, Expression) or not isinstance(value.root, ex.Name):
        return value
    name = value.root.name
    return replace(value, is_bare=True) if is_name(name) and name not in ("true", "false") else value


class _NoCallError(Exception):
    """The call would mean something else, or would be no call."""


class _CallStyler(Styler):
    def header_value(self, value: Value) -> Value:
        return _to_header_value(value)

    def field(self, s: Field, context: StyleContext) -> Field:
        value = s.value
        if isinstance(value, Body):
            s, value = self.name_output(s, value, context)
            is_section = s.name in TOP_LEVEL_BLOCKS - {"input", "Input"} and s.name not in self.blocks
            if context.owner is None and is_section:
                return replace(s, value=self.inside(s, value, context))
            new = self.block_field(s, value, context)
            self.note_outputs(s, value, context)
            return new
        self.note_outputs(s, value, context)
        owner = (*(context.owner or ()), s.name)
        return s if context.owner is None else replace(s, value=self.value(value, owner, context))

    def name_output(self, s: Field, body: Body, context: StyleContext) -> tuple[Field, Body]:
        """A layer with its ``top`` written before or behind it, and its body without it."""
        tops = [f for f in body.fields if f.name == "top"]
        if context.owner is not None or s.outputs or len(tops) != 1 or tops[0].trivia is not None:
            return s, body
        value = tops[0].value
        names = string_values(value)
        is_whole = len(names) == (len(value.items) if isinstance(value, ListValue) else 1)
        if not self.is_layer(s.name) or not names or not is_whole or len(names) != len(set(names)):
            return s, body
        if not all(is_name(name) and name not in TOP_LEVEL_FIELDS for name in names):
            return s, body
        rest = replace(body, statements=tuple(f for f in body.statements if f is not tops[0]))
        return replace(s, value=rest, outputs=tuple(map(Word, names))), rest

    def block_field(self, s: Field, body: Body, context: StyleContext) -> Field:
        """``name { ... }``: a layer, the use of a block, a block in a body."""
        path = (*(context.owner or ()), s.name)
        try:
            if s.label is not None or self.is_variable(s.name, context):
                raise _NoCallError
            block = self.find_block(s.name) if context.owner is None else None
            if block is not None:
                names = () if declared_inputs(block) else tuple(a.name for a in block.arguments)
                call = self.call(body, None, names, context, block)
            else:
                schema = schema_at(path)
                if schema is None and (context.owner is not None or not self.has_unknown_names):
                    raise _NoCallError  # else it may be a block of another file
                call = self.call(body, schema, schema.positional if schema is not None else (), context, None)
            new = replace(s, value=call)
            if context.owner is not None and call.is_bare:
                raise _NoCallError
            text = format_document(Document((replace(new, trivia=None),)))
            old = format_document(Document((replace(s, trivia=None),)))
            if text.count("\n") > 1 or len(text) + 2 * context.indent > CALL_WIDTH or len(text) >= len(old):
                raise _NoCallError
        except _NoCallError:
            return replace(s, value=self.inside(s, body, context))
        return new

    # ------------------------------------------------------------------ calls

    def call(
        self, body: Body, schema: CallSchema | None, names: Sequence[str], context: StyleContext, block: BlockDef | None
    ) -> CallBody:
        """The call of a body of plain fields. Raises _NoCallError."""
        if body.opening is not None or body.closing or len(body.fields) != len(body.statements):
            raise _NoCallError
        fields = {f.name: f for f in body.fields}
        if len(fields) != len(body.statements) or any(f.trivia is not None or not f.name for f in body.fields):
            raise _NoCallError
        arguments: list[CallArgument] = []
        reads_inputs = block is not None or (schema is not None and schema.reads_inputs)
        if "bottom" in fields and context.owner is None and reads_inputs:
            is_merging = declared_inputs(block) != () if block is not None else schema is not None and schema.is_merging
            inputs = self.inputs(fields["bottom"].value, schema, names, context, is_merging)
            if inputs:
                arguments += inputs
                del fields["bottom"]
        for position, name in enumerate(names[: MAX_POSITIONAL if context.owner is None else 1]):
            if name not in fields or _needs_name(fields[name].value, position):
                break
            value = self.argument(fields.pop(name).value, schema, name, context, block)
            arguments.append(CallArgument(None, value))
        for name, f in fields.items():
            arguments.append(CallArgument(name, self.argument(f.value, schema, name, context, block)))
        return CallBody(tuple(arguments), None, not arguments)

    def inputs(
        self, value: Value, schema: CallSchema | None, names: Sequence[str], context: StyleContext, is_merging: bool
    ) -> list[CallArgument] | None:
        """The names of ``bottom``, as words where they are read so; None where they cannot stand by position."""
        items = value.items if isinstance(value, ListValue) else (value,)
        first = names[0] if names else ""
        values: list[Value] = []
        for item in items:
            word = item.value if isinstance(item, Scalar) and isinstance(item.value, str) else ""
            is_word = word in context.outputs and is_name(word) and not self.is_variable(word, context)
            if is_word and not (schema is not None and first and schema.takes_word(first, word)):
                values.append(CallWord(word))
            elif is_merging and (word or isinstance(item, Expression)):
                values.append(item)
            else:
                return None
        return [CallArgument(None, value) for value in values]

    def argument(
        self, value: Value, schema: CallSchema | None, field: str, context: StyleContext, block: BlockDef | None
    ) -> Value:
        """A value as a call holds it. Raises _NoCallError where it holds none such."""
        if isinstance(value, Scalar):
            return value
        if isinstance(value, Word):
            is_value = self.is_variable(value.text, context) or self.has_unknown_names
            if is_value or not self.keeps_word(schema, field, block):
                raise _NoCallError
            return CallWord(value.text)
        if isinstance(value, Expression):
            root = value.root
            is_word = isinstance(root, ex.Name) and self.is_variable(root.name, context)
            if is_word and (schema is None or not schema.takes_word(field, root.name)):
                return CallWord(root.name)
            return value
        if isinstance(value, ListValue):
            items = tuple(self.argument(item, schema, field, context, block) for item in value.items)
            if any(isinstance(i, Expression) and isinstance(i.root, ex.Name) for i in items):
                raise _NoCallError
            return ListValue(items)
        if isinstance(value, TypedBlock) and isinstance(value.body, Body):
            inner = schema.value_class(field, value.word) if schema is not None else None
            if inner is None:
                raise _NoCallError
            call = replace(
                self.call(value.body, inner, inner.positional, replace(context, owner=()), None), is_bare=False
            )
            return TypedBlock(value.word, call)  # type: ignore[arg-type]
        raise _NoCallError

    def keeps_word(self, schema: CallSchema | None, field: str, block: BlockDef | None) -> bool:
        """Whether a word that is no variable stays a word in a field."""
        if block is not None:
            argument = next((a for a in block.arguments if a.name == field), None)
            return argument is not None and not isinstance(argument.default, Scalar | ListValue | Expression)
        return schema is not None and (not schema.has_field(field) or schema.is_enumerated(field))

    def value(self, value: Value, path: Path, context: StyleContext) -> Value:
        """A value of a field in braces: typed blocks in it become calls."""
        if isinstance(value, ListValue):
            return replace(value, items=tuple(self.value(item, path, context) for item in value.items))
        if isinstance(value, TypedBlock) and isinstance(value.body, Body) and value.body.statements:
            schema = schema_at((*path, ":" + value.word))
            try:
                if schema is None:
                    raise _NoCallError
                call = self.call(value.body, schema, schema.positional, replace(context, owner=path), None)
            except _NoCallError:
                inner = StyleContext(context.variables, {}, (*path, ":" + value.word), context.indent + 1)
                return replace(value, body=self.body(value.body, inner))
            return TypedBlock(value.word, call)  # type: ignore[arg-type]
        return value
