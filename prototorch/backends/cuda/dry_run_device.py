"""A device that is only asked: kernels are prepared for it as for the one it stands for, but it takes no memory.

It counts what they would take, so that a plan's memory is known before any of it is taken.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from prototorch.backends.cuda.kernels.launch import ITEM_BYTES, KernelDevice


class DryRunDevice:
    """Stands for a device while kernels say whether they take a step, and what they need.

    Attributes:
        workspace_bytes: the largest workspace that was asked for, lent to each kernel in turn.
        own_bytes: what kernels asked to hold for themselves as long as they live.
    """

    def __init__(self, device: KernelDevice):
        self.target = device
        self.workspace_bytes = self.persistent_bytes = 0

    @property
    def precision(self) -> str:
        """See `KernelDevice.precision`."""
        return self.target.precision

    @property
    def deterministic(self) -> bool:
        """See `KernelDevice.deterministic`."""
        return self.target.deterministic

    def load_module(self, source: str) -> Any:
        """See `KernelDevice.load_module`."""
        return self.target.load_module(source)

    def launch(self, *_: Any) -> None:
        """Nothing runs here."""
        raise AssertionError("a runner that was prepared to be asked is not run")

    def pointer(self, array: Any) -> int:
        """See `KernelDevice.pointer`."""
        return 0

    def upload(self, array: np.ndarray) -> Any:
        """See `KernelDevice.upload`: counted."""
        self.persistent_bytes += array.nbytes
        return array

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        """See `KernelDevice.empty`: counted; an array of this shape, of one element."""
        self.persistent_bytes += int(np.prod(shape, dtype=np.int64)) * ITEM_BYTES[dtype]
        return np.broadcast_to(np.zeros((), "uint16" if dtype == "bfloat16" else dtype), shape)

    def reserve(self, nbytes: int) -> None:
        """See `KernelDevice.reserve`: counted."""
        self.workspace_bytes = max(self.workspace_bytes, nbytes)

    def workspace(self) -> Any:
        """Nothing runs here."""
        raise AssertionError("a runner that was prepared to be asked is not run")
