"""How a batch reaches a GPU while the step before is still running.

All inputs of a plan lie in one block. A batch is written into pinned memory, copied from there on a stream of its own
to where the next step's inputs wait, and from there, when its step begins, to where the step reads them: the graph of
a step reads fixed addresses. There are two pinned blocks in turn. The host waits only for the copy of the last batch
but one, which has long been made.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from prototorch.backends.cuda.device import Device
from prototorch.errors import ShapeError
from prototorch.graph.memory import aligned
from prototorch.spec import Spec

SLOTS = 2


class Feeding:
    """The inputs of one plan on a device; ``arrays`` are where the step reads them, by name."""

    def __init__(self, device: Device, specs: Mapping[str, Spec]):
        self.device = device
        places, size = {}, 0
        for name, spec in specs.items():
            places[name] = size
            size += aligned(spec.nbytes)
        self.size = size
        self._block, self._waiting = device.alloc(size), device.alloc(size)
        self.arrays = _views(self._block, specs, places)
        pinned = [device.pinned(size) for _ in range(SLOTS)]
        self._slots = [_views(block, specs, places) for block in pinned]
        self._pinned = list(zip(pinned, [device.event() for _ in range(SLOTS)], strict=True))
        self._taken = device.event()
        self._turn = 0

    def __call__(self, inputs: Mapping[str, Any], marks: tuple[Any, Any] | None = None) -> None:
        """Begin to bring the inputs of the next step; ``marks`` are events before and after the copy to the device.

        Raises ShapeError for an input that is not of the plan's shape.
        """
        device, slot = self.device, self._turn
        self._turn = (slot + 1) % SLOTS
        block, copied = self._pinned[slot]
        device.wait_host(copied)
        for name, target in self._slots[slot].items():
            source = inputs[name]
            if tuple(np.shape(source)) != target.shape:
                raise ShapeError(
                    f"input {name!r} has shape {list(np.shape(source))}, the plan wants {list(target.shape)}"
                )
            target[...] = source
        device.wait(device.copies, self._taken)
        if marks is not None:
            device.record(marks[0], device.copies)
        device.copy_in(self._waiting, block, device.copies)
        if marks is not None:
            device.record(marks[1], device.copies)
        device.record(copied, device.copies)
        device.wait(device.main, copied)
        device.copy(self._block, self._waiting)
        device.record(self._taken, device.main)


def _views(block: Any, specs: Mapping[str, Spec], places: Mapping[str, int]) -> dict[str, Any]:
    return {n: block[places[n] : places[n] + s.nbytes].view(s.dtype).reshape(s.shape) for n, s in specs.items()}
