"""A device that is only asked: kernels are prepared for it as for the one it stands for, but it takes no memory.

It counts what they would take, so that a plan's memory is known before any of it is taken.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from prototorch.backends.cuda.kernels.launch import ITEM_BYTES, Device


class Asked:
    """Stands for a device while kernels say whether they take a step, and what they need.

    Attributes:
        workspace_bytes: the largest workspace that was asked for, lent to each kernel in turn.
        own_bytes: what kernels asked to hold for themselves as long as they live.
    """

    def __init__(self, device: Device):
        self.stands_for = device
        self.workspace_bytes = self.own_bytes = 0

    @property
    def precision(self) -> str:
        """See `Device.precision`."""
        return self.stands_for.precision

    @property
    def deterministic(self) -> bool:
        """See `Device.deterministic`."""
        return self.stands_for.deterministic

    def load_module(self, source: str) -> Any:
        """See `Device.load_module`."""
        return self.stands_for.load_module(source)

    def launch(self, *_: Any) -> None:
        """Nothing runs here."""
        raise AssertionError("a runner that was prepared to be asked is not run")

    def pointer(self, array: Any) -> int:
        """See `Device.pointer`."""
        return 0

    def upload(self, array: np.ndarray) -> Any:
        """See `Device.upload`: counted."""
        self.own_bytes += array.nbytes
        return array

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        """See `Device.empty`: counted; an array of this shape, of one element."""
        self.own_bytes += int(np.prod(shape, dtype=np.int64)) * ITEM_BYTES[dtype]
        return np.broadcast_to(np.zeros((), "uint16" if dtype == "bfloat16" else dtype), shape)

    def reserve(self, nbytes: int) -> None:
        """See `Device.reserve`: counted."""
        self.workspace_bytes = max(self.workspace_bytes, nbytes)

    def workspace(self) -> Any:
        """Nothing runs here."""
        raise AssertionError("a runner that was prepared to be asked is not run")
