"""Inputs that a block names and never reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prototorch.text import expressions as ex
from prototorch.text.name_resolution import is_string_literal
from prototorch.text.output_names import declared_inputs, input_name
from prototorch.text.syntax_tree import (
    BlockDef,
    Body,
    CallBody,
    CallWord,
    Expression,
    Field,
    If,
    ListValue,
    Repeat,
    Scalar,
    TypedBlock,
    Word,
)

__all__ = ["unread_inputs"]


def unread_inputs(block: BlockDef) -> list[Word]:
    """The names that ``x = input`` and ``input "x"`` give, and that stand nowhere else in the block. What the first
    layer reads needs none, so that of one ``input "x"`` alone nothing is said."""
    inputs = [s.outputs[0] for s in block.body.fields if s.name == "input" and len(s.outputs) == 1]
    declared = declared_inputs(block)
    if len(declared) > 1:
        names = [input_name(s) for s in declared]
        inputs += [Word(str(name.value), name.span) for name in names if name is not None and is_string_literal(name)]
    if not inputs:
        return []
    read = set(_names_in(block.body))
    return [] if "" in read else [word for word in inputs if word.text not in read]


def _names_in(root: Any) -> Iterator[str]:
    """The words and strings among the statements and values; "" for a value that is computed, which may be any name."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Body):
            waiting.extend(s for s in node.statements if input_name(s) is None)
        elif isinstance(node, Repeat):
            waiting.append(node.body)
        elif isinstance(node, If):
            waiting += [body for _, body in node.arms] + ([node.else_body] if node.else_body is not None else [])
        elif isinstance(node, Field):
            yield node.name
            waiting.append(node.value)
        elif isinstance(node, CallBody):
            waiting += [a.value for a in node.arguments] + ([node.body] if node.body is not None else [])
        elif isinstance(node, TypedBlock):
            waiting.append(node.body)
        elif isinstance(node, ListValue):
            waiting += node.items
        elif isinstance(node, Expression):
            yield from ex.names_in(node.root)
            if isinstance(node.root, ex.TemplateString | ex.Conditional | ex.Subscript):
                yield ""
        elif isinstance(node, CallWord | Word):
            yield node.text
        elif isinstance(node, Scalar) and isinstance(node.value, str):
            yield node.value.split("/")[0]
