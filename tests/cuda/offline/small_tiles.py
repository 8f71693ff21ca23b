"""Tiles of products and convolutions that few threads make, where the CPU plays a block's threads as real ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prototorch.cuda.kernels import conv, matmul

__all__ = ["shrink_tiles"]

_SIZES = ((matmul, {"TILE": 8, "THREAD_TILE": 4}), (conv, {"SIDE": 2, "MAX_WORK": 4, "DEPTH": 4}))


def shrink_tiles(assign: Callable[[Any, str, int], None] = setattr) -> None:
    """Set the sizes; assign: how (default: for the rest of the process)."""
    for module, sizes in _SIZES:
        for name, value in sizes.items():
            assign(module, name, value)
