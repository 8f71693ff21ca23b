"""Input staging: a batch is copied to the device while the step before still runs.

All inputs of a plan lie in one block. A batch is written into pinned memory, copied from there on a stream of its own
to a second block on the device, and from there, when its step starts, to the block that the step reads: a captured step
reads fixed addresses. Two pinned blocks are used alternately. The host waits only for the copy of the batch before the
last one, which was finished long ago.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prototorch.backends.cuda.device import CudaDevice
from prototorch.backends.executor import check_input_shape
from prototorch.spec import Spec

__all__ = ["STAGING_BUFFERS", "InputStaging"]

STAGING_BUFFERS = 2
_ALIGNMENT = 64  # bytes


class InputStaging:
    """The inputs of one plan on a device; ``arrays`` are those that the step reads, by name."""

    def __init__(self, device: CudaDevice, specs: Mapping[str, Spec]):
        self.device = device
        offsets, size = {}, 0
        for name, spec in specs.items():
            offsets[name] = size
            size += -(-max(spec.nbytes, 1) // _ALIGNMENT) * _ALIGNMENT
        self.size = size
        self._block, self._arriving = device.alloc(size), device.alloc(size)
        self.arrays = _views(self._block, specs, offsets)
        pinned = [device.alloc_pinned(size) for _ in range(STAGING_BUFFERS)]
        self._pinned_arrays = [_views(block, specs, offsets) for block in pinned]
        self._pinned = list(zip(pinned, [device.create_event() for _ in range(STAGING_BUFFERS)], strict=True))
        self._consumed = device.create_event()
        self._next = 0

    def __call__(self, inputs: Mapping[str, Any], marks: tuple[Any, Any] | None = None) -> None:
        """Start to copy the inputs of the next step; ``marks`` are events before and after the copy to the device.

        Raises ShapeError for an input that is not of the plan's shape.
        """
        device, slot = self.device, self._next
        self._next = (slot + 1) % STAGING_BUFFERS
        block, copied = self._pinned[slot]
        device.synchronize_event(copied)
        for name, target in self._pinned_arrays[slot].items():
            source = inputs[name]
            check_input_shape(name, source, target.shape)
            target[...] = source
        device.wait_event(device.copy_stream, self._consumed)
        if marks is not None:
            device.record_event(marks[0], device.copy_stream)
        device.copy_from_host(self._arriving, block, device.copy_stream)
        if marks is not None:
            device.record_event(marks[1], device.copy_stream)
        device.record_event(copied, device.copy_stream)
        device.wait_event(device.compute_stream, copied)
        device.copy_on_device(self._block, self._arriving)
        device.record_event(self._consumed, device.compute_stream)


def _views(block: Any, specs: Mapping[str, Spec], offsets: Mapping[str, int]) -> dict[str, Any]:
    return {n: block[offsets[n] : offsets[n] + s.nbytes].view(s.dtype).reshape(s.shape) for n, s in specs.items()}
