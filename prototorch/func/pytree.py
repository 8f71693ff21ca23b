"""Nested tuples, lists and dicts of tensors as flat lists, and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from prototorch.eager.tensor import Tensor
from prototorch.errors import UsageError

__all__ = ["flatten", "map_tree"]


def map_tree(value: Any, change: Callable[[Any], Any]) -> Any:
    """The same tuples, lists and dicts with ``change(leaf)`` in the place of each leaf."""
    if isinstance(value, dict):
        return type(value)((k, map_tree(v, change)) for k, v in value.items())
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(map_tree(v, change) for v in value))
    if isinstance(value, tuple | list):
        return type(value)(map_tree(v, change) for v in value)
    return change(value)


def flatten(name: str, value: Any, what: str) -> tuple[list[Tensor], Callable[[Sequence[Any]], Any]]:
    """The tensors of a tree, and a function that makes a tree of that form of as many other things.

    Raises UsageError for a leaf that is no tensor; ``name`` and ``what`` are for its message.
    """
    leaves: list[Tensor] = []

    def take(leaf: Any) -> int:
        if not isinstance(leaf, Tensor):
            raise UsageError(
                f"{name}: expected {what} that are tensors, or tuples, lists and dicts of them, got a "
                f"{type(leaf).__name__}"
            )
        leaves.append(leaf)
        return len(leaves) - 1

    numbers = map_tree(value, take)
    return leaves, lambda things: map_tree(numbers, lambda number: things[number])
