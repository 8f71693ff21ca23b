"""Copying and clearing contiguous float32 elements."""

from __future__ import annotations

from typing import Any

from prototorch.backends.cpu.native.ir_builder import KernelBuilder, Pointer

__all__ = ["clear", "copy"]


def copy(k: KernelBuilder, source: Pointer, to: Pointer, count: Any) -> None:
    """Copy ``count`` elements."""
    k.for_each_vector(count, lambda i, mask: to.store(source.load(i, k.lanes, mask), i, mask))


def clear(k: KernelBuilder, to: Pointer, count: Any) -> None:
    """Set ``count`` elements to 0."""
    k.for_each_vector(count, lambda i, mask: to.store(k.zero(k.lanes), i, mask))
