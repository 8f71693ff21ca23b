"""Declared blocks: a class is its own schema. Reads, checks, writes and documents itself."""

from prototorch.schema.block import Block
from prototorch.schema.examples import Example, example
from prototorch.schema.family import Family
from prototorch.schema.fields import MISSING, FieldSpec, field
from prototorch.schema.names import Identifier, find_name_error, to_name
from prototorch.schema.shapes import Dims, Ints, Padding
from prototorch.schema.types import AnyValue, Bool, Bounds, Choice, FieldType, Float, Int, ListOf, Optional, Str, Union

__all__ = [
    "MISSING",
    "AnyValue",
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
    "Identifier",
    "Int",
    "Ints",
    "ListOf",
    "Optional",
    "Padding",
    "Str",
    "Union",
    "example",
    "field",
    "find_name_error",
    "to_name",
]
