"""Declared blocks: a class is its own schema. Reads, checks, writes and documents itself."""

from .block import Block
from .examples import Example, example
from .family import Family
from .fields import MISSING, FieldSpec, field
from .shapes import Dims, Ints, Padding
from .types import Anything, Bool, Bounds, Choice, FieldType, Float, Int, ListOf, Optional, Str, Union

__all__ = [
    "MISSING",
    "Anything",
    "Block",
    "Bool",
    "Bounds",
    "Choice",
    "Dims",
    "Example",
    "Family",
    "FieldSpec",
    "FieldType",
    "Float",
    "Int",
    "Ints",
    "ListOf",
    "Optional",
    "Padding",
    "Str",
    "Union",
    "example",
    "field",
]
