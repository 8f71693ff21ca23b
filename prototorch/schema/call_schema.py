"""Declared classes as the calls of a text see them, see `prototorch.text.call_schema`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from prototorch.errors import UsageError
from prototorch.schema.neutral_arguments import positional_names
from prototorch.schema.types import FieldType, python_name, text_name
from prototorch.schema.validation import ReportedError, ValidationError
from prototorch.text.call_schema import CallSchema
from prototorch.text.diagnostics import Report
from prototorch.text.syntax_tree import Scalar, Word

__all__ = ["ClassSchema", "class_schema", "classes_in", "member_schema"]

_NO_WORD = "no_word_of_any_field"


class ClassSchema(CallSchema):
    """A `Block` class. A layer also has an ``input_range``."""

    def __init__(self, cls: Any):
        self.cls = cls
        self.name = vars(cls).get("display_name") or cls.__name__
        least, most = cls.input_range() if hasattr(cls, "input_range") else (0, 0)
        self.reads_inputs = most != 0
        holds_others = any(spec.children for spec in cls.specs().values())  # as Bidirectional does
        self.is_merging = bool(getattr(cls, "accepts_branches", False)) or (least == 1 and most is None)
        self.is_merging = self.is_merging and not holds_others
        self.positional = () if self.is_merging else tuple(map(text_name, positional_names(cls)))
        self._words: dict[tuple[str, str], bool] = {}

    def has_field(self, field: str) -> bool:
        return python_name(field) in self.cls.specs()

    def takes_word(self, field: str, word: str) -> bool:
        key = (field, word)
        if key not in self._words:
            kind = self._type(field)
            self._words[key] = kind is not None and _reads(kind, word) is True and _reads(kind, _NO_WORD) is not True
        return self._words[key]

    def is_enumerated(self, field: str) -> bool:
        kind = self._type(field)
        return kind is None or _reads(kind, _NO_WORD) is not False

    def takes_strings(self, field: str) -> bool:
        kind = self._type(field)
        return kind is not None and _reads_node(kind, Scalar(_NO_WORD)) is True

    def value_class(self, field: str, word: str) -> CallSchema | None:
        kind = self._type(field)
        if kind is None:
            block = self.cls.undeclared_values.get(word)
            return None if block is None else class_schema(block)
        return _member_of(kind, word)

    def block_class(self, name: str) -> CallSchema | None:
        kind = self._type(name)
        if kind is not None:
            block = next((cls for cls in classes_in(kind) if cls.family_registry is None), None)
            return None if block is None else class_schema(block)
        collector = next((spec for spec in self.cls.specs().values() if spec.children), None)
        return None if collector is None else _member_of(collector.type, name)

    def _type(self, field: str) -> FieldType | None:
        spec = self.cls.specs().get(python_name(field))
        return None if spec is None else spec.type


@cache
def class_schema(cls: Any) -> ClassSchema:
    """The schema of a `Block` class."""
    return ClassSchema(cls)


def member_schema(root: Any, name: str) -> ClassSchema | None:
    """The schema of the class below ``root`` that a name means; None where there is none, or more than one."""
    for family_root in (root, root.adopted_root):
        if family_root is None:
            continue
        try:
            if family_root.family_registry.has(name, family_root):
                return class_schema(family_root.family_registry.lookup(name, (), family_root))
        except UsageError:
            return None
    return None


def _member_of(kind: FieldType, word: str) -> ClassSchema | None:
    schemas = (member_schema(root, word) for root in classes_in(kind) if root.family_registry is not None)
    return next((schema for schema in schemas if schema is not None), None)


def classes_in(kind: Any) -> Iterator[Any]:
    """The `Block` classes that the values of a type may have: roots of families, and classes of nested blocks, whose
    ``type`` may stand in their place."""
    for part in _parts(kind):
        if isinstance(part, FieldType):
            yield from classes_in(part)
        elif isinstance(part, type) and hasattr(part, "family_registry"):
            yield part
            if part.family_registry is None and "type" in part.specs():  # type: ignore[attr-defined]
                yield from classes_in(part.specs()["type"].type)  # type: ignore[attr-defined]


def _parts(kind: Any) -> Iterator[Any]:
    for value in vars(kind).values():
        yield from value if isinstance(value, tuple) else (value,)


def _reads(kind: FieldType, word: str) -> bool | None:
    """Whether a type takes a word: None where it does not, but is made of words."""
    return _reads_node(kind, Word(word))


def _reads_node(kind: FieldType, node: Any) -> bool | None:
    try:
        kind.read(node, Report())
    except ReportedError:
        return True  # its fields are missing
    except ValidationError as wrong:
        return None if wrong.right_kind else False
    except UsageError:
        return None
    return True
