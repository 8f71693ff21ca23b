"""Layers, optimizers and losses of a static graph as text, and back."""

from __future__ import annotations

from typing import Any

from prototorch.errors import UsageError
from prototorch.schema import Block
from prototorch.schema.python_function import PythonFunction
from prototorch.text.diagnostics import Report
from prototorch.text.reader import parse
from prototorch.text.syntax_tree import Body, Field
from prototorch.text.writer import format_fields

__all__ = ["block_of_text", "block_text"]


def block_text(block: Block) -> str:
    """A block as text. Raises UsageError for a class that is not the package's, and for a field with a Python
    function."""
    if not type(block).__module__.startswith("prototorch."):
        raise UsageError(f"{block!r:.60} is defined in Python, in {type(block).__module__}: no file can hold it")
    for name in block.specs():
        if isinstance(getattr(block, name), PythonFunction):
            raise UsageError(f"{type(block).__name__} holds the Python function {getattr(block, name)}: no file can")
    return format_fields([Field(type(block).__name__, Body(tuple(block.to_fields())))])


def block_of_text(family: Any, text: str) -> Any:
    """The block of a text. Raises ValueError where it is not one block, TextError for a mistake in it."""
    fields = parse(text, "graph").fields
    if len(fields) != 1 or not isinstance(fields[0].value, Body):
        raise ValueError(f"expected one block, got {text!r:.60}")
    report = Report()
    block = family.lookup(fields[0].name).from_fields(fields[0].value.fields, report, fields[0].name_span)
    report.raise_if_any()
    return block
