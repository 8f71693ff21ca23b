"""The forms of a text, see `prototorch.text.call_style` and `prototorch.text.brace_style`: where its statements stand,
and what the words mean there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from prototorch.text.arguments import ArgumentNames, is_layer, layer_arguments
from prototorch.text.call_schema import Path, schema_at
from prototorch.text.included_blocks import read_included
from prototorch.text.name_resolution import TOP_LEVEL_BLOCKS, string_values
from prototorch.text.shipped_blocks import shipped_blocks
from prototorch.text.syntax_tree import (
    BlockDef,
    Body,
    CallBody,
    Document,
    Field,
    If,
    Let,
    Param,
    Repeat,
    Value,
)

__all__ = ["LISTS_OF_LAYERS", "StyleContext", "Styler"]

LISTS_OF_LAYERS = ("preprocess", "augment")


@dataclass(frozen=True)
class StyleContext:
    """Where statements stand. variables: the names of values. outputs: the names that are read by words, filled on the
    way. owner: the path of the body; None where layers stand."""

    variables: frozenset[str]
    outputs: dict[str, None]
    owner: Path | None = None
    indent: int = 0


class Styler(ABC):
    """Writes the statements of a document in another form; a subclass says how a field is written."""

    def __init__(self, document: Document, root: str | None):
        included = read_included(document, root)
        statements = (*(included or ()), *document.statements)
        self.blocks = {s.name: s for s in statements if isinstance(s, BlockDef)}
        self.layer_arguments: dict[str, frozenset[str]] = {}
        for name, block in self.blocks.items():
            self.layer_arguments[name] = layer_arguments(block, self.arguments_of)
        self.has_unknown_names = included is None  # any word may be one that an included file defines
        self.params = frozenset(s.name for s in statements if isinstance(s, Param | Let))

    def document(self, document: Document) -> Document:
        """The document in the form."""
        return replace(document, statements=self.statements(document.statements, StyleContext(frozenset(), {})))

    @abstractmethod
    def field(self, s: Field, context: StyleContext) -> Field:
        """A field in the form."""

    def header_value(self, value: Value) -> Value:
        """A count or a condition in the form."""
        return value

    def statements(self, statements: Sequence[Any], context: StyleContext) -> tuple[Any, ...]:
        names = {s.name for s in statements if isinstance(s, Param | Let)}
        inside = replace(context, variables=context.variables | names)
        return tuple(self.statement(s, inside) for s in statements)

    def statement(self, s: Any, context: StyleContext) -> Any:
        inner = replace(context, indent=context.indent + 1)
        if isinstance(s, Field):
            return self.field(s, context)
        if isinstance(s, Repeat):
            names = inner.variables | set(s.target.names if s.target is not None else ())
            return replace(s, count=self.header_value(s.count), body=self.body(s.body, replace(inner, variables=names)))
        if isinstance(s, If):
            arms = tuple((self.header_value(condition), self.body(body, inner)) for condition, body in s.arms)
            return replace(s, arms=arms, else_body=s.else_body and self.body(s.else_body, inner))
        if isinstance(s, BlockDef):
            names = self.params | {a.name for a in s.arguments}
            return replace(s, body=self.body(s.body, StyleContext(names, {"input": None}, None, 1)))
        return s

    def inside(self, s: Field, body: Body, context: StyleContext) -> Body:
        """The statements in the braces of a field."""
        layers = StyleContext(context.variables, context.outputs, None, context.indent + 1)
        fields = StyleContext(context.variables, {}, (*(context.owner or ()), s.name), context.indent + 1)
        block = self.find_block(s.name) if context.owner is None else None
        if context.owner is None and s.name in LISTS_OF_LAYERS:
            return self.body(body, replace(layers, outputs={}))
        if block is None and (context.owner is not None or s.name in TOP_LEVEL_BLOCKS):
            return self.body(body, fields)
        arguments = {a.name for a in block.arguments} if block is not None else set()
        statements = []
        for f in body.statements:
            bodies = {"branch"} if block is None else arguments
            if isinstance(f, Field) and f.name in bodies and isinstance(f.value, Body):
                deeper = replace(layers, indent=layers.indent + 1)
                statements.append(replace(f, value=self.body(f.value, deeper)))
            elif block is not None and is_layer(f, arguments):
                statements.append(self.statement(f, layers))
            else:
                statements.append(self.statement(f, fields))
        return replace(body, statements=tuple(statements))

    def find_block(self, name: str) -> BlockDef | None:
        """The block of that name, of the text, of a file that it includes, or shipped."""
        if name in self.blocks or name in TOP_LEVEL_BLOCKS or schema_at((name,)) is not None:
            return self.blocks.get(name)
        return shipped_blocks().get(name)

    def arguments_of(self, name: str) -> ArgumentNames | None:
        """See `layer_arguments`; of blocks of the text, those before."""
        if name in self.layer_arguments:
            return [a.name for a in self.blocks[name].arguments], self.layer_arguments[name]
        block = self.find_block(name) if name not in self.blocks else None
        return None if block is None else ([a.name for a in block.arguments], layer_arguments(block, lambda _: None))

    def is_layer(self, name: str) -> bool:
        """Whether a name is that of a layer, which has a field ``top``; the use of a block has none."""
        return name not in (*self.blocks, *TOP_LEVEL_BLOCKS) and schema_at((name,)) is not None

    def body(self, body: Body, context: StyleContext) -> Body:
        return replace(body, statements=self.statements(body.statements, context))

    def note_outputs(self, s: Field, value: Value, context: StyleContext) -> None:
        """Add the names that a layer or a use of a block gives to its outputs."""
        if context.owner is not None or not isinstance(value, Body | CallBody):
            return
        context.outputs.update(dict.fromkeys(word.text for word in s.outputs))
        if s.label is not None:
            context.outputs.update(dict.fromkeys(string_values(s.label)))
        arguments = value.fields if isinstance(value, Body) else value.arguments
        if isinstance(value, CallBody) and value.body is not None:
            arguments = (*arguments, *value.body.fields)
        for f in arguments:
            if f.name in ("name", "top"):
                context.outputs.update(dict.fromkeys(string_values(f.value)))

    def is_variable(self, word: str, context: StyleContext) -> bool:
        return word in context.variables or word in self.params
