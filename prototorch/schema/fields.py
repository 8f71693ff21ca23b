"""Declared fields: the declaration of a field, and the field type of an annotation."""

from __future__ import annotations

import types
import typing
from dataclasses import dataclass
from typing import Any

from prototorch.errors import UsageError
from prototorch.schema.family import FamilyMember, FamilyMemberList, NestedBlock, NestedBlockList
from prototorch.schema.types import (
    NO_BOUNDS,
    AnyValue,
    Bool,
    Bounds,
    Choice,
    FieldType,
    Float,
    Int,
    ListOf,
    Optional,
    Str,
    Union,
)


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"

    def __bool__(self) -> bool:
        return False


MISSING: Any = _Missing()


@dataclass(frozen=True, slots=True)
class FieldDeclaration:
    """What `field` declares; the annotation adds the type."""

    default: Any = MISSING
    doc: str = ""
    bounds: Bounds = NO_BOUNDS
    choices: tuple[Any, ...] = ()
    type: FieldType | None = None
    children: bool = False


def field(
    default: Any = MISSING,
    *,
    doc: str = "",
    min: float | None = None,
    max: float | None = None,
    above: float | None = None,
    below: float | None = None,
    choices: typing.Sequence[Any] = (),
    type: FieldType | None = None,
    children: bool = False,
) -> Any:
    """Declare a field of a :class:`Block`.

    default: the value when it is left out; without one the field is required.
    doc: one sentence for the manual page, with the unit where there is one.
    min, max: limits that belong to the range; above, below: limits that do not. For numbers, and the items of lists.
    choices: the values allowed.
    type: a field type in place of the annotation's own, such as ``Ints(2, min=1)``.
    children: the field collects the members of its family that stand in the block itself: ``{ Rescaling { } }``.
    """
    return FieldDeclaration(default, doc, Bounds(min, max, above, below), tuple(choices), type, children)


@dataclass(slots=True)
class FieldSpec:
    """One field of a class, ready for use. ``default`` is canonical, MISSING where the field is required."""

    name: str
    type: FieldType
    default: Any
    doc: str
    owner: str
    children: bool = False

    @property
    def required(self) -> bool:
        return self.default is MISSING


def field_type(annotation: Any, declaration: FieldDeclaration, where: str) -> FieldType:
    """The field type of an annotation; UsageError for one that no text could hold."""
    if declaration.type is not None:
        kind = declaration.type
        return Optional(kind) if _allows_none(annotation) and not isinstance(kind, Optional) else kind
    if declaration.choices:
        kind = Choice(declaration.choices)
        return Optional(kind) if _allows_none(annotation) else kind
    return _resolve_annotation(annotation, declaration.bounds, where)


def _allows_none(annotation: Any) -> bool:
    return types.NoneType in typing.get_args(annotation)


def _resolve_annotation(annotation: Any, bounds: Bounds, where: str) -> FieldType:
    if annotation is int:
        return Int(bounds)
    if annotation is float:
        return Float(bounds)
    simple: dict[Any, FieldType] = {bool: Bool(), str: Str(), Any: AnyValue(), object: AnyValue()}
    if isinstance(annotation, typing.Hashable) and annotation in simple:
        return simple[annotation]
    if isinstance(annotation, FieldType):
        return annotation
    if isinstance(annotation, type) and hasattr(annotation, "family_registry"):
        return FamilyMember(annotation) if annotation.family_registry is not None else NestedBlock(annotation)
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        custom = [extra for extra in args[1:] if isinstance(extra, FieldType)]
        return custom[0] if custom else _resolve_annotation(args[0], bounds, where)
    if origin is typing.Literal:
        return Choice(args)
    if origin in (typing.Union, types.UnionType):
        inner = tuple(_resolve_annotation(a, bounds, where) for a in args if a is not types.NoneType)
        one = inner[0] if len(inner) == 1 else Union(inner)
        return Optional(one) if types.NoneType in args else one
    if origin in (list, tuple):
        return _list_type(origin, args, bounds, where)
    raise UsageError(f"{where}: a field cannot be declared as {annotation!r}")


def _list_type(origin: Any, args: tuple[Any, ...], bounds: Bounds, where: str) -> FieldType:
    inner = _resolve_annotation(args[0], bounds, where)
    if isinstance(inner, FamilyMember):
        return FamilyMemberList(inner)
    has_length = origin is tuple and Ellipsis not in args
    if isinstance(inner, NestedBlock):
        return NestedBlockList(inner, len(args) if has_length else None)
    return ListOf(inner, len(args) if has_length else None)
