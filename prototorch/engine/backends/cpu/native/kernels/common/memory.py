"""Copying and clearing contiguous float32 elements."""

from __future__ import annotations

from prototorch.engine.backends.cpu.native.ir_builder import KernelBuilder, Pointer
from prototorch.engine.backends.cpu.native.kernels.common.types import Index

__all__ = ["clear", "copy"]


def copy(k: KernelBuilder, source: Pointer, to: Pointer, count: Index) -> None:
    """Copy ``count`` elements."""
    k.for_each_vector(count, lambda i, mask: to.store(source.load(i, k.lanes, mask), i, mask))


def clear(k: KernelBuilder, to: Pointer, count: Index) -> None:
    """Set ``count`` elements to 0."""
    k.for_each_vector(count, lambda i, mask: to.store(k.zero(k.lanes), i, mask))
