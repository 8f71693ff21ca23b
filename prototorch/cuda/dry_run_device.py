"""A dry run of kernel preparation: kernels are prepared as for a device, but no memory is allocated.

The bytes that they would allocate are counted, so that the memory of a plan is known before any of it is taken.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from prototorch.cuda.kernels.launch import ITEM_BYTES, KernelDevice

__all__ = ["DryRunDevice"]


class DryRunDevice:
    """Takes the place of a device while kernels are selected.

    Attributes:
        is_dry_run: true; other devices need not have it. Whoever prepares a kernel measures nothing on such a device.
        target: the device that it takes the place of.
        workspace_bytes: the largest workspace that was requested; all kernels share it.
        persistent_bytes: what kernels allocate for as long as they live.
    """

    is_dry_run = True

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

    def launch(self, *_: Any) -> NoReturn:
        """Raises AssertionError: kernels of a dry run are not launched."""
        raise AssertionError("a kernel that was prepared in a dry run must not be launched")

    def pointer(self, array: Any) -> int:
        """See `KernelDevice.pointer`."""
        return 0

    def upload(self, array: np.ndarray) -> Any:
        """See `KernelDevice.upload`: counted."""
        self.persistent_bytes += array.nbytes
        return array

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        """See `KernelDevice.empty`: counted; an array of this shape over one element."""
        self.persistent_bytes += int(np.prod(shape, dtype=np.int64)) * ITEM_BYTES[dtype]
        return np.broadcast_to(np.zeros((), "uint16" if dtype == "bfloat16" else dtype), shape)

    def reserve(self, nbytes: int) -> None:
        """See `KernelDevice.reserve`: counted."""
        self.workspace_bytes = max(self.workspace_bytes, nbytes)

    def workspace(self) -> NoReturn:
        """Raises AssertionError: kernels of a dry run are not launched."""
        raise AssertionError("a kernel that was prepared in a dry run must not be launched")
