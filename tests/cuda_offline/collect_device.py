"""A device that only collects the sources it is given."""

from __future__ import annotations

import numpy as np


class CollectDevice:
    """Modules are numbers; nothing runs."""

    precision = "fp32"
    deterministic = True

    def __init__(self) -> None:
        self.sources: dict[str, None] = {}

    def load_module(self, source: str) -> str:
        self.sources[source] = None
        return source

    def launch(self, module, name, grid, block, args) -> None:
        raise AssertionError("nothing runs on this device")

    def pointer(self, array) -> int:
        return 0

    def upload(self, array):
        return array

    def empty(self, shape, dtype):
        return np.zeros(shape, "uint16" if dtype == "bfloat16" else dtype)

    def reserve(self, nbytes: int) -> None:
        pass

    def workspace(self):
        raise AssertionError("nothing runs on this device")
