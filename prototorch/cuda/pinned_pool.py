"""Pinned memory of the host that is lent as arrays: batches are assembled where the GPU copies them from.

A block is lent until the last array (or view) that lies in it is gone; then it serves the next batch. Whoever starts an
asynchronous copy from such an array keeps a reference to it until the copy is done.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from prototorch.cuda.device_protocol import format_bytes
from prototorch.engine.backends import host_memory
from prototorch.errors import ResourceError

__all__ = ["PinnedPool"]

MAX_SHARE = 4  # at most the free memory of the host, divided by this, is pinned
MAX_WASTE = 2  # a free block is lent for what needs at least its size divided by this
DEFAULT_LIMIT = 1 << 32  # bytes, where the free memory of the host is not known
_GRANULE = 1 << 16  # bytes: sizes of blocks are multiples of it, so that batches of nearly one size share them


class PinnedBlock:
    """The owner of the memory of lent arrays: when the last of them is gone, the memory returns to the pool."""

    def __init__(self, memory: np.ndarray, give_back: Callable[[np.ndarray], None]):
        self._memory, self._give_back = memory, give_back

    @property
    def __array_interface__(self) -> dict[str, Any]:
        interface: dict[str, Any] = self._memory.__array_interface__
        return interface

    def __del__(self) -> None:
        self._give_back(self._memory)


class PinnedPool:
    """Lends arrays in pinned memory; threads may call it at once.

    allocate: gives pinned memory of so many bytes, as an array of uint8. lock: held while it is called. limit: the most
    bytes that are pinned (default: a quarter of the host's memory that is free at the first call).
    """

    def __init__(self, allocate: Callable[[int], np.ndarray], lock: Any, limit: int | None = None):
        self._allocate, self._device_lock, self._limit = allocate, lock, limit
        self._lock = threading.RLock()  # a garbage collection inside of it may give blocks back
        self._free: list[np.ndarray] = []
        self.allocated_bytes = 0
        self._has_warned = False

    def empty(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray | None:
        """An array with undefined elements; None, with one warning, where no more memory may be pinned."""
        kind = np.dtype(dtype)
        count = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
        memory = self._take(max(-(-count // _GRANULE) * _GRANULE, _GRANULE))
        if memory is None:
            return None
        return np.asarray(PinnedBlock(memory, self._give_back))[:count].view(kind).reshape(shape)

    @staticmethod
    def holds(array: Any) -> bool:
        """Whether an array lies in memory that a pool has lent."""
        while isinstance(array, np.ndarray):
            array = array.base
        return isinstance(array, PinnedBlock)

    def _take(self, size: int) -> np.ndarray | None:
        with self._lock:
            fitting = [k for k, block in enumerate(self._free) if size <= block.nbytes <= size * MAX_WASTE]
            if fitting:
                return self._free.pop(min(fitting, key=lambda k: self._free[k].nbytes))
            limit = self._limit = self._find_limit()
            if self.allocated_bytes + size > limit:  # blocks of other sizes, which no batch uses now
                unused, self._free = self._free, []
                self.allocated_bytes -= sum(block.nbytes for block in unused)
            if self.allocated_bytes + size > limit:
                self._warn(f"{format_bytes(self.allocated_bytes)} are pinned already, of at most {format_bytes(limit)}")
                return None
            self.allocated_bytes += size
        try:
            with self._device_lock:
                return self._allocate(size)
        except ResourceError as error:
            with self._lock:
                self.allocated_bytes -= size
            self._warn(str(error))
            return None

    def _find_limit(self) -> int:
        if self._limit is not None:
            return self._limit
        free = host_memory.free_bytes()
        return DEFAULT_LIMIT if free is None else free // MAX_SHARE

    def _warn(self, reason: str) -> None:
        if not self._has_warned:
            self._has_warned = True
            warnings.warn(
                f"some batches are not read into pinned memory, and take one copy more: {reason}. A smaller batch, "
                "fewer threads of the loader or a smaller prefetch needs less",
                RuntimeWarning,
                stacklevel=4,
            )

    def _give_back(self, memory: np.ndarray) -> None:
        with self._lock:
            self._free.append(memory)
