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

from prototorch.backends.cuda.device import CudaDevice
from prototorch.errors import ShapeError
from prototorch.graph.memory_planner import align_up
from prototorch.spec import Spec

STAGING_BUFFERS = 2


class InputStaging:
    """The inputs of one plan on a device; ``arrays`` are where the step reads them, by name."""

    def __init__(self, device: CudaDevice, specs: Mapping[str, Spec]):
        self.device = device
        places, size = {}, 0
        for name, spec in specs.items():
            places[name] = size
            size += align_up(spec.nbytes)
        self.size = size
        self._block, self._waiting = device.alloc(size), device.alloc(size)
        self.arrays = _views(self._block, specs, places)
        pinned = [device.alloc_pinned(size) for _ in range(STAGING_BUFFERS)]
        self._slots = [_views(block, specs, places) for block in pinned]
        self._pinned = list(zip(pinned, [device.create_event() for _ in range(STAGING_BUFFERS)], strict=True))
        self._taken = device.create_event()
        self._turn = 0

    def __call__(self, inputs: Mapping[str, Any], marks: tuple[Any, Any] | None = None) -> None:
        """Begin to bring the inputs of the next step; ``marks`` are events before and after the copy to the device.

        Raises ShapeError for an input that is not of the plan's shape.
        """
        device, slot = self.device, self._turn
        self._turn = (slot + 1) % STAGING_BUFFERS
        block, copied = self._pinned[slot]
        device.synchronize_event(copied)
        for name, target in self._slots[slot].items():
            source = inputs[name]
            if tuple(np.shape(source)) != target.shape:
                raise ShapeError(
                    f"input {name!r} has shape {list(np.shape(source))}, the plan wants {list(target.shape)}"
                )
            target[...] = source
        device.wait_event(device.copy_stream, self._taken)
        if marks is not None:
            device.record_event(marks[0], device.copy_stream)
        device.copy_from_host(self._waiting, block, device.copy_stream)
        if marks is not None:
            device.record_event(marks[1], device.copy_stream)
        device.record_event(copied, device.copy_stream)
        device.wait_event(device.compute_stream, copied)
        device.copy_on_device(self._block, self._waiting)
        device.record_event(self._taken, device.compute_stream)


def _views(block: Any, specs: Mapping[str, Spec], places: Mapping[str, int]) -> dict[str, Any]:
    return {n: block[places[n] : places[n] + s.nbytes].view(s.dtype).reshape(s.shape) for n, s in specs.items()}
