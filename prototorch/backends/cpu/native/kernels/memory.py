"""Runs of neighbouring float32 elements, copied or cleared."""

from __future__ import annotations

from typing import Any

from prototorch.backends.cpu.native.emit import Kernel, Pointer


def copy(k: Kernel, source: Pointer, to: Pointer, count: Any) -> None:
    """Copy ``count`` elements."""
    k.vectors(count, lambda i, mask: to.store(source.load(i, k.lanes, mask), i, mask))


def clear(k: Kernel, to: Pointer, count: Any) -> None:
    """Set ``count`` elements to 0."""
    k.vectors(count, lambda i, mask: to.store(k.zero(k.lanes), i, mask))
