"""Loops over vectors, and the masks of their ends."""

from __future__ import annotations

from collections.abc import Callable

from prototorch.engine.backends.cpu.native.ir_builder import Int64, KernelBuilder, Num

__all__ = ["for_each_channel_vector", "unit_mask"]


def for_each_channel_vector(k: KernelBuilder, channels: int, body: Callable[[Int64, int, Num | None], None]) -> None:
    """Emit ``body(channel, lanes, mask)`` over all channels in vectors that are no wider than needed."""
    lanes = k.lanes
    while lanes > 1 and lanes // 2 >= channels:
        lanes //= 2
    k.for_each_vector(channels, lambda c, mask: body(c, lanes, mask), lanes)


def unit_mask(k: KernelBuilder, first: Int64, units: int, vectors: int = 1) -> Num | None:
    """Return which lanes of a vector of units exist; None for all."""
    if units % (vectors * k.lanes) == 0:
        return None
    return k.mask((units - first).maximum(0).minimum(k.lanes), k.lanes)
