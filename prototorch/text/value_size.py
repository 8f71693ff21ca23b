"""The size of a value: what it takes to copy, compare or read it, whatever it shares with other values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from prototorch.text import limits
from prototorch.text.syntax_tree import Body, Field, ListValue, Scalar, TypedBlock

STRING_UNIT = 64  # characters of a string that count as one value


def measure_value(value: Any, limit: int) -> tuple[int, int]:
    """The number of values that a value consists of (elements of nested lists, fields of nested blocks; a string counts
    once more for each 64 characters), and how deep lists are nested in it. An operand of expressions or a node of the
    syntax tree. Counting stops above the limit, and below the limit on nesting."""
    size = deepest = 0
    pending: list[tuple[Iterable[Any], int]] = [((value,), 0)]
    while pending and size <= limit and deepest <= limits.MAX_NESTING:
        values, depth = pending.pop()
        deepest = max(deepest, depth)
        for item in values:
            if type(item) is Scalar:
                item = item.value
            if isinstance(item, str):
                size += len(item) // STRING_UNIT
            elif isinstance(item, list) and item:
                pending.append((item, depth + 1))
                continue
            elif isinstance(item, ListValue) and item.items:
                pending.append((item.items, depth + 1))
                continue
            elif isinstance(item, TypedBlock | Body):
                body = item.body if isinstance(item, TypedBlock) else item
                pending.append((body.statements, depth))
            elif isinstance(item, Field):
                pending.append(((item.value,), depth))
                continue
            size += 1
    return size, deepest
