"""What a call needs to know of the class that it names: the order of its fields, and which words they take.

The classes are declared above this package (layers, ``compile``, optimizers, ...): those that stand at the top level of
a text are found by the index of the package, each as a `SchemaSource`; the classes in their fields by them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from prototorch.base.index import Extension, entries

__all__ = ["LAYER_SOURCE", "CallSchema", "Path", "SchemaSource", "schema_at"]

#: Where a block stands: the names of the blocks around it, outermost first; ``:word`` is the word of a value.
Path = tuple[str, ...]
LAYER_SOURCE = "layer"  # the source of the classes that bear any other name at the top level


class CallSchema(ABC):
    """A declared class, as its calls see it."""

    name: str
    positional: tuple[str, ...]  # the fields that are given by position, in their order
    reads_inputs: bool  # whether it is a layer that reads outputs of others
    is_merging: bool  # whether it reads several, so that all that is given by position is an input

    @abstractmethod
    def has_field(self, field: str) -> bool:
        """Whether it has a field of that name."""

    @abstractmethod
    def takes_word(self, field: str, word: str) -> bool:
        """Whether the word is one of those that a field is made of (``relu``, ``same``, ``none``)."""

    @abstractmethod
    def is_enumerated(self, field: str) -> bool:
        """Whether a field is made of words, so that another one is a mistake in it, and no value that is missing."""

    @abstractmethod
    def takes_strings(self, field: str) -> bool:
        """Whether a field takes any string."""

    @abstractmethod
    def value_class(self, field: str, word: str) -> CallSchema | None:
        """The class of ``field: word(...)``; None where it is not known."""

    @abstractmethod
    def block_class(self, name: str) -> CallSchema | None:
        """The class of ``name(...)`` where a field of this one stands; None where it is not known."""


@dataclass(frozen=True)
class SchemaSource(Extension):
    """Where the class of a name at the top level of a text is known.

    name: that name, or `LAYER_SOURCE`. find: the class of a name; None where there is none.
    """

    name: str
    find: Callable[[str], CallSchema | None]


@cache
def schema_at(path: Path) -> CallSchema | None:
    """The class of the block at a path, such as ``("compile", "optimizer", ":Adam")``; None where it is not known."""
    if not path:
        return None
    schema = _find_at_top(path[0])
    at = 1
    while schema is not None and at < len(path):
        if at + 1 < len(path) and path[at + 1].startswith(":"):
            schema = schema.value_class(path[at], path[at + 1][1:])
            at += 2
        else:
            schema = schema.block_class(path[at])
            at += 1
    return schema


def _find_at_top(name: str) -> CallSchema | None:
    source = name if name in _sources() else LAYER_SOURCE
    return _source(source).find(name)


@cache
def _sources() -> dict[str, object]:
    return {entry.facts["name"]: entry for entry in entries(SchemaSource.__name__)}


def _source(name: str) -> SchemaSource:
    source: SchemaSource = _sources()[name].load()  # type: ignore[attr-defined]
    return source
