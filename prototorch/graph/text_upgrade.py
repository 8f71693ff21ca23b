"""Texts of format 1, as texts of today: what their layers meant is written out.

Format 1 is that of saved models, snapshots and static graphs in which the channels were axis 1 everywhere. Since
format 2 they are the last axis of tables and sequences, unless ``data_format`` or ``axis`` says otherwise. The change
is one of trees before expansion: blocks, branches, repeats and layers inside layers are changed as well, comments stay.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from prototorch.errors import UsageError
from prototorch.layers.base import Layer
from prototorch.layers.channels import ChannelAxisLayer
from prototorch.text.reader import parse
from prototorch.text.syntax_tree import (
    BlockDef,
    Body,
    Document,
    Field,
    If,
    ListValue,
    Repeat,
    TypedBlock,
    Word,
    to_value_node,
)
from prototorch.text.writer import format_document

__all__ = ["TEXT_FORMAT", "current_text", "upgrade_document"]

TEXT_FORMAT = 2


def current_text(text: str, version: int) -> str:
    """The text of a file of this format version, as today's texts say the same."""
    if version >= TEXT_FORMAT:
        return text
    old = parse(text, None)
    new = upgrade_document(old)
    return text if new == old else format_document(new)


def upgrade_document(document: Document) -> Document:
    """A parsed text of format 1 with what its layers meant. A text that has a line ``data_format`` is one of today."""
    if any(f.name == "data_format" for f in document.fields):
        return document
    blocks = frozenset(s.name for s in document.statements if isinstance(s, BlockDef))
    return replace(document, statements=tuple(_upgraded(s, blocks) for s in document.statements))


def _upgraded(node: Any, blocks: Collection[str]) -> Any:
    """A statement or a value, changed."""
    if isinstance(node, Field):
        if isinstance(node.value, Body):
            return replace(node, value=_body(node.name, node.value, blocks))
        return replace(node, value=_upgraded(node.value, blocks))
    if isinstance(node, TypedBlock) and isinstance(node.body, Body):  # calls are of today
        return replace(node, body=_body(node.word, node.body, blocks))
    if isinstance(node, Word):
        added = _added_fields(node.text, Body(()), blocks) if node.text[:1].isupper() else ()
        return TypedBlock(node.text, Body(added), node.span, node.span) if added else node
    if isinstance(node, ListValue):
        return replace(node, items=tuple(_upgraded(item, blocks) for item in node.items))
    if isinstance(node, Body):
        return replace(node, statements=tuple(_upgraded(s, blocks) for s in node.statements))
    if isinstance(node, BlockDef | Repeat):
        return replace(node, body=_upgraded(node.body, blocks))
    if isinstance(node, If):
        arms = tuple((condition, _upgraded(body, blocks)) for condition, body in node.arms)
        return replace(node, arms=arms, else_body=None if node.else_body is None else _upgraded(node.else_body, blocks))
    return node


def _body(name: str, body: Body, blocks: Collection[str]) -> Body:
    new: Body = _upgraded(body, blocks)
    return replace(new, statements=(*new.statements, *_added_fields(name, body, blocks)))


def _added_fields(name: str, body: Body, blocks: Collection[str]) -> tuple[Field, ...]:
    """What is added to the fields of a layer of this name; nothing for what is no layer of the package."""
    family = Layer.family_registry
    if name in blocks or family is None or not family.has(name, ChannelAxisLayer):
        return ()
    try:
        cls = ChannelAxisLayer.lookup(name)
    except UsageError:  # two classes of this name
        return ()
    if any(f.name in ("axis", "data_format") for f in body.fields):
        return ()
    added = cls.format_1_fields(body.fields)
    return tuple(Field(key, Word(v) if isinstance(v, str) else to_value_node(v)) for key, v in added.items())
