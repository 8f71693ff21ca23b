"""Small arrays of the host, written to the device in the order of its work while the host goes on."""

from __future__ import annotations

from typing import Any

import numpy as np

from prototorch.cuda.device_protocol import CudaDevice

__all__ = ["HostWriter"]

SLOTS = 4  # writes that may wait: the host waits for the one before these


class HostWriter:
    """Overwrites an array of the device with arrays of the host of its shape and dtype.

    Each write takes the next of a few pieces of pinned memory, from which it is copied on the compute stream.
    """

    def __init__(self, device: CudaDevice, target: Any):
        self.device, self.target = device, target
        nbytes = int(target.nbytes)
        self._slots = [(device.alloc_pinned(nbytes), device.create_event()) for _ in range(SLOTS)]
        self._next = 0

    def __call__(self, array: np.ndarray) -> None:
        memory, copy_done = self._slots[self._next]
        self._next = (self._next + 1) % SLOTS
        self.device.synchronize_event(copy_done)
        source = memory.view(array.dtype).reshape(array.shape)
        source[...] = array
        self.device.copy_from_host(self.target, source, self.device.compute_stream)
        self.device.record_event(copy_done, self.device.compute_stream)
