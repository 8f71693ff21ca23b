"""Shapes as PyTorch prints them."""

from __future__ import annotations

from math import prod
from typing import Any

__all__ = ["Size"]


class Size(tuple[int, ...]):
    """A shape: a tuple of integers."""

    __slots__ = ()

    def numel(self) -> int:
        """The number of elements."""
        return prod(self)

    def __repr__(self) -> str:
        return f"Size({list(self)})"

    def __getitem__(self, key: Any) -> Any:
        item = tuple.__getitem__(self, key)
        return Size(item) if isinstance(key, slice) else item
