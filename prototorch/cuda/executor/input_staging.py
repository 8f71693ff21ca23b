"""Input staging: a batch is copied to the device while the step before still runs.

All inputs of a plan lie in one block on the device. What comes from the host is copied, on a stream of its own, to a
second block, and from there, when its step starts, to the block that the step reads: a captured step reads fixed
addresses. Arrays in pinned memory of the backend's pool, in which the data loader assembles its batches, are copied as
they are; others are written into pinned memory first: the small ones of a step into one block, so that they are one
copy. Two slots of it are used alternately. The host waits only for the copies of the batch before the last one, which
were finished long ago; until then a slot keeps the arrays alive that it copies from. Arrays that lie on the device
already are copied there.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from prototorch.cuda.device_protocol import CudaDevice
from prototorch.cuda.pinned_pool import PinnedPool
from prototorch.engine.backends.cpu.worker_pool import parallel_for
from prototorch.engine.backends.executor import check_input_shape
from prototorch.spec import Spec

__all__ = ["SMALL_INPUT_BYTES", "STAGING_BUFFERS", "InputStaging"]

STAGING_BUFFERS = 2
SMALL_INPUT_BYTES = 1 << 16  # inputs of at most this size are copied together
PARALLEL_COPY_BYTES = 1 << 21  # what a thread copies at least
_ALIGNMENT = 64  # bytes


class _Slot:
    """Pinned memory of one step's inputs, and the arrays that are being copied."""

    def __init__(self, device: CudaDevice, small_bytes: int, small: Mapping[str, Spec], offsets: Mapping[str, int]):
        self.copy_done = device.create_event()
        self.small_block = device.alloc_pinned(small_bytes)
        self.small = _views(self.small_block, small, offsets)
        self.large: dict[str, np.ndarray] = {}  # made when an input first comes that is not in pinned memory
        self.sources: list[np.ndarray] = []


class InputStaging:
    """The inputs of one plan on a device; ``arrays`` are those that the step reads, by name."""

    def __init__(self, device: CudaDevice, specs: Mapping[str, Spec]):
        self.device, self._specs = device, dict(specs)
        small = {name: spec for name, spec in specs.items() if spec.nbytes <= SMALL_INPUT_BYTES}
        large = {name: spec for name, spec in specs.items() if name not in small}
        offsets, size, small_bytes = {}, 0, 0
        for name, spec in {**small, **large}.items():
            offsets[name] = size
            size += -(-max(spec.nbytes, 1) // _ALIGNMENT) * _ALIGNMENT
            small_bytes = size if name in small else small_bytes
        self.size = size
        self._block, self._arriving = device.alloc(size), device.alloc(size)
        self._small_bytes, self._large = small_bytes, large
        self.arrays = _views(self._block, specs, offsets)
        self._arriving_arrays = _views(self._arriving, specs, offsets)
        self._slots = [_Slot(device, small_bytes, small, offsets) for _ in range(STAGING_BUFFERS)]
        self._consumed = device.create_event()
        self._next = 0

    def __call__(self, inputs: Mapping[str, Any], marks: tuple[Any, Any] | None = None) -> None:
        """Start to copy the inputs of the next step; ``marks`` are events before and after the copy to the device.

        Raises ShapeError for an input that is not of the plan's shape.
        """
        device, slot = self.device, self._slots[self._next]
        for name, spec in self._specs.items():
            check_input_shape(name, inputs[name], spec.shape)
        self._next = (self._next + 1) % STAGING_BUFFERS
        device.synchronize_event(slot.copy_done)
        slot.sources = []
        resident = {name: inputs[name] for name in self._specs if device.owns(inputs[name])}
        for name, target in slot.small.items():
            if name not in resident:
                target[...] = inputs[name]
        large = {name: self._pinned(slot, name, inputs[name]) for name in self._large if name not in resident}
        device.wait_event(device.copy_stream, self._consumed)
        if marks is not None:
            device.record_event(marks[0], device.copy_stream)
        device.copy_from_host(self._arriving[: self._small_bytes], slot.small_block, device.copy_stream)
        for name, source in large.items():
            device.copy_from_host(self._arriving_arrays[name], source, device.copy_stream)
        if marks is not None:
            device.record_event(marks[1], device.copy_stream)
        device.record_event(slot.copy_done, device.copy_stream)
        device.wait_event(device.compute_stream, slot.copy_done)
        if len(large) == len(self._large):
            device.copy_on_device(self._block, self._arriving)
        else:
            device.copy_on_device(self._block[: self._small_bytes], self._arriving[: self._small_bytes])
            for name in large:
                device.copy_on_device(self.arrays[name], self._arriving_arrays[name])
        device.record_event(self._consumed, device.compute_stream)
        for name, source in resident.items():
            self._copy_resident(self.arrays[name], source)

    def release(self) -> None:
        """Wait for the copies that were started, and let go of the arrays that they were made from."""
        for slot in self._slots:
            if slot.sources:
                self.device.synchronize_event(slot.copy_done)
                slot.sources = []

    def _pinned(self, slot: _Slot, name: str, source: Any) -> np.ndarray:
        """A large input in pinned memory, as the step reads it."""
        spec = self._specs[name]
        if PinnedPool.holds(source) and source.flags.c_contiguous and source.dtype.name == spec.dtype:
            slot.sources.append(source)
            return source
        if name not in slot.large:
            slot.large[name] = _views(self.device.alloc_pinned(spec.nbytes), {name: spec}, {name: 0})[name]
        target = slot.large[name]
        _copy_in_parallel(target, np.asarray(source))
        return target

    def _copy_resident(self, target: Any, source: Any) -> None:
        if source.flags.c_contiguous and source.dtype == target.dtype:
            self.device.copy_on_device(target, source)
            return
        with self.device.stream_context():
            self.device.enqueue("input", partial(operator.setitem, target, ..., source))


def _copy_in_parallel(target: np.ndarray, source: np.ndarray) -> None:
    """Copy an array of the host by several threads: one does not reach the memory's rate."""
    rows = max(1, PARALLEL_COPY_BYTES * len(target) // target.nbytes) if target.ndim and target.nbytes else 0
    if not rows or rows >= len(target):
        target[...] = source
        return

    def copy(start: int, stop: int) -> None:
        target[start:stop] = source[start:stop]

    parallel_for(copy, len(target), rows)


def _views(block: Any, specs: Mapping[str, Spec], offsets: Mapping[str, int]) -> dict[str, Any]:
    return {n: block[offsets[n] : offsets[n] + s.nbytes].view(s.dtype).reshape(s.shape) for n, s in specs.items()}
