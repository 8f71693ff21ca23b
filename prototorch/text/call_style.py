"""Bodies as calls, where the call is shorter: ``Conv2D { filters: 64  kernel_size: 3 }`` as ``Conv2D(64, 3)``.

The text means the same: what a call would read as something else stays in braces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from prototorch.text import expressions as ex
from prototorch.text.arguments import ArgumentNames, layer_arguments
from prototorch.text.call_schema import CallSchema, Path, schema_at
from prototorch.text.name_resolution import TOP_LEVEL_BLOCKS, TOP_LEVEL_FIELDS, string_values
from prototorch.text.reader import is_name
from prototorch.text.shipped_blocks import shipped_blocks
from prototorch.text.syntax_tree import (
    BlockDef,
    Body,
    CallArgument,
    CallBody,
    CallWord,
    Document,
    Expression,
    Field,
    If,
    Include,
    Let,
    ListValue,
    Param,
    Repeat,
    Scalar,
    TypedBlock,
    Value,
    Word,
)
from prototorch.text.writer import format_document

__all__ = ["CALL_WIDTH", "to_calls"]

CALL_WIDTH = 100  # columns that a call fits in
MAX_POSITIONAL = 3  # values that are written by position
_LISTS_OF_LAYERS = ("preprocess", "augment")


def to_calls(document: Document) -> Document:
    """The document with calls in the place of bodies of plain fields."""
    styler = _Styler(document)
    return replace(document, statements=styler.statements(document.statements, _Context(frozenset(), {})))


@dataclass(frozen=True)
class _Context:
    """Where statements stand. variables: the names of values. outputs: the names that are read by words, filled on the
    way. owner: the path of the body; None where layers stand."""

    variables: frozenset[str]
    outputs: dict[str, None]
    owner: Path | None = None
    indent: int = 0


def _says_nothing_alone(value: Value) -> bool:
    """Whether a value is written with its field's name, also where it could stand by position."""
    return isinstance(value, Scalar) and isinstance(value.value, bool)


def _to_header_value(value: Value) -> Value:
    """A count or condition: a name without "$"."""
    if not isinstance(value, Expression) or not isinstance(value.root, ex.Name):
        return value
    name = value.root.name
    return replace(value, is_bare=True) if is_name(name) and name not in ("true", "false") else value


class _NoCallError(Exception):
    """The call would mean something else, or would be no call."""


class _Styler:
    def __init__(self, document: Document):
        self.blocks = {s.name: s for s in document.statements if isinstance(s, BlockDef)}
        self.layer_arguments: dict[str, frozenset[str]] = {}
        for name, block in self.blocks.items():
            self.layer_arguments[name] = layer_arguments(block, self.arguments_of)
        self.has_includes = any(isinstance(s, Include) for s in document.statements)
        self.params = frozenset(s.name for s in document.statements if isinstance(s, Param | Let))

    def statements(self, statements: Sequence[Any], context: _Context) -> tuple[Any, ...]:
        names = {s.name for s in statements if isinstance(s, Param | Let)}
        inside = replace(context, variables=context.variables | names)
        return tuple(self.statement(s, inside) for s in statements)

    def statement(self, s: Any, context: _Context) -> Any:
        inner = replace(context, indent=context.indent + 1)
        if isinstance(s, Field):
            return self.field(s, context)
        if isinstance(s, Repeat):
            names = inner.variables | set(s.target.names if s.target is not None else ())
            return replace(s, count=_to_header_value(s.count), body=self.body(s.body, replace(inner, variables=names)))
        if isinstance(s, If):
            arms = tuple((_to_header_value(condition), self.body(body, inner)) for condition, body in s.arms)
            return replace(s, arms=arms, else_body=s.else_body and self.body(s.else_body, inner))
        if isinstance(s, BlockDef):
            names = self.params | {a.name for a in s.arguments}
            return replace(s, body=self.body(s.body, _Context(names, {}, None, 1)))
        return s

    def body(self, body: Body, context: _Context) -> Body:
        return replace(body, statements=self.statements(body.statements, context))

    def field(self, s: Field, context: _Context) -> Field:
        value = s.value
        if isinstance(value, Body):
            s, value = self.name_output(s, value, context)
            if context.owner is None and s.name in TOP_LEVEL_BLOCKS - {"input", "Input"}:
                owner: Path = (s.name,)
                stand = None if s.name in _LISTS_OF_LAYERS else owner
                return replace(s, value=self.body(value, _Context(context.variables, {}, stand, context.indent + 1)))
            new = self.block_field(s, value, context)
            self.note_outputs(s, value, context)
            return new
        owner = (*(context.owner or ()), s.name)
        return s if context.owner is None else replace(s, value=self.value(value, owner, context))

    def name_output(self, s: Field, body: Body, context: _Context) -> tuple[Field, Body]:
        """A layer with its ``top`` written before it, or several behind it, and its body without it."""
        tops = [f for f in body.fields if f.name == "top"]
        if context.owner is not None or s.outputs or len(tops) != 1 or tops[0].trivia is not None:
            return s, body
        names = string_values(tops[0].value)
        is_list = isinstance(tops[0].value, ListValue)
        is_layer = s.name not in (*self.blocks, *TOP_LEVEL_BLOCKS) and schema_at((s.name,)) is not None
        if not is_layer or len(names) != (len(tops[0].value.items) if is_list else 1) or len({*names}) != len(names):
            return s, body
        if not names or not all(map(is_name, names)) or any(name in TOP_LEVEL_FIELDS for name in names):
            return s, body
        rest = replace(body, statements=tuple(f for f in body.statements if f is not tops[0]))
        return replace(s, value=rest, outputs=tuple(map(Word, names))), rest

    def note_outputs(self, s: Field, body: Body, context: _Context) -> None:
        if context.owner is None:
            context.outputs.update(dict.fromkeys(word.text for word in s.outputs))
            if s.label is not None:
                context.outputs.update(dict.fromkeys(string_values(s.label)))
            for f in body.fields:
                if f.name in ("name", "top"):
                    context.outputs.update(dict.fromkeys(string_values(f.value)))

    def block_field(self, s: Field, body: Body, context: _Context) -> Field:
        """``name { ... }``: a layer, the use of a block, a block in a body."""
        path = (*(context.owner or ()), s.name)
        try:
            if s.label is not None:
                raise _NoCallError
            block = self.blocks.get(s.name)
            if block is not None:
                names: Sequence[str] = tuple(a.name for a in block.arguments)
                call = self.call(body, None, names, context, block)
            else:
                schema = schema_at(path)
                if schema is None and (context.owner is not None or not self.has_includes):
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
            if context.owner is None and (s.name in self.blocks or schema_at((s.name,)) is None):
                return replace(s, value=self.braces_of_use(s, body, context))
            layers = context.owner is None and s.name == "branch"
            owner = context.owner if layers else path
            outputs = context.outputs if layers else {}
            inner = _Context(context.variables, outputs, None if layers else owner, context.indent + 1)
            fields = []
            for f in body.statements:  # a branch of a layer is a part of the net again
                is_branch = isinstance(f, Field) and f.name == "branch" and isinstance(f.value, Body)
                if is_branch and context.owner is None:
                    branch = _Context(context.variables, context.outputs, None, context.indent + 2)
                    fields.append(replace(f, value=self.body(f.value, branch)))
                else:
                    fields.append(self.statement(f, inner))
            return replace(s, value=replace(body, statements=tuple(fields)))
        return new

    def braces_of_use(self, s: Field, body: Body, context: _Context) -> Body:
        """The braces of a block's use with the layers in them as calls; a block of another file has any arguments."""
        block = self.blocks.get(s.name) or shipped_blocks().get(s.name)
        names = {a.name for a in block.arguments} if block is not None else set()
        bodies = (self.arguments_of(s.name) or ((), ()))[1]
        inside = _Context(context.variables, dict(context.outputs), None, context.indent + 1)
        fields = _Context(context.variables, {}, (s.name,), context.indent + 1)
        statements = []
        for f in body.statements:
            has_braces = isinstance(f, Field) and isinstance(f.value, Body)
            if has_braces and f.name in bodies:
                layers = replace(inside, outputs=dict(inside.outputs), indent=inside.indent + 1)
                statements.append(replace(f, value=self.body(f.value, layers)))
            elif has_braces and f.name not in names:
                is_layer = block is not None or schema_at((f.name,)) is not None
                statements.append(self.field(f, inside) if is_layer else f)
            else:
                statements.append(
                    self.statement(f, inside if not isinstance(f, Field) and block is not None else fields)
                )
        return replace(body, statements=tuple(statements))

    def arguments_of(self, name: str) -> ArgumentNames | None:
        """See `layer_arguments`; of blocks of the text, those before."""
        if name in self.layer_arguments:
            return [a.name for a in self.blocks[name].arguments], self.layer_arguments[name]
        block = shipped_blocks().get(name) if name not in self.blocks else None
        return None if block is None else ([a.name for a in block.arguments], layer_arguments(block, lambda _: None))

    # ------------------------------------------------------------------ calls

    def call(
        self, body: Body, schema: CallSchema | None, names: Sequence[str], context: _Context, block: BlockDef | None
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
            inputs = self.inputs(fields["bottom"].value, schema, names, context)
            if inputs:
                arguments += inputs
                del fields["bottom"]
        for name in names[:MAX_POSITIONAL]:
            if name not in fields or _says_nothing_alone(fields[name].value):
                break
            value = self.argument(fields.pop(name).value, schema, name, context, block)
            arguments.append(CallArgument(None, value))
        for name, f in fields.items():
            arguments.append(CallArgument(name, self.argument(f.value, schema, name, context, block)))
        return CallBody(tuple(arguments), None, not arguments)

    def inputs(
        self, value: Value, schema: CallSchema | None, names: Sequence[str], context: _Context
    ) -> list[CallArgument] | None:
        """The names of ``bottom`` as words; None where one is not read as a word."""
        items = value.items if isinstance(value, ListValue) else (value,)
        if len(string_values(value)) != len(items):
            return None
        words = [str(item.value) for item in items]
        first = names[0] if names else ""
        for word in words:
            if word not in context.outputs or not is_name(word) or self.is_variable(word, context):
                return None
            if schema is not None and first and schema.takes_word(first, word):
                return None
        return [CallArgument(None, CallWord(word)) for word in words]

    def argument(
        self, value: Value, schema: CallSchema | None, field: str, context: _Context, block: BlockDef | None
    ) -> Value:
        """A value as a call holds it. Raises _NoCallError where it holds none such."""
        if isinstance(value, Scalar):
            return value
        if isinstance(value, Word):
            if self.is_variable(value.text, context) or self.has_includes or not self.keeps_word(schema, field, block):
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
            return argument is not None and (argument.default is None or isinstance(argument.default, Word))
        return schema is not None and (not schema.has_field(field) or schema.is_enumerated(field))

    def is_variable(self, word: str, context: _Context) -> bool:
        return word in context.variables or word in self.params

    def value(self, value: Value, path: Path, context: _Context) -> Value:
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
                inner = _Context(context.variables, {}, (*path, ":" + value.word), context.indent + 1)
                return replace(value, body=self.body(value.body, inner))
            return TypedBlock(value.word, call)  # type: ignore[arg-type]
        return value
