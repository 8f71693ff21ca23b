"""Kernels as the executor enqueues them: with the layer they belong to, and the flag that an update depends on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from prototorch.cuda.device_protocol import CudaDevice
from prototorch.engine.backends.registry import KernelFn

__all__ = ["BoundStreamKernel", "StreamKernel"]

VECTOR_BYTES = 16  # of the widest load and store of a kernel, and so the alignment of its arrays


class StreamKernel:
    """A kernel that is enqueued on the device's compute stream.

    A prepared kernel may have an attribute ``not_capturable_reason`` (why a step with it cannot be captured; absent or
    "": it can) and a method ``make_conditional(flag)``, which returns a kernel that leaves its outputs as they are
    where ``flag`` (int32[1] on the device) is 0. A kernel without this method is made conditional by a copy.

    Attributes:
        op: the op's name.
        scope, phase: the layer and the part of the step that it belongs to.
        condition: the flag of the step's check that it depends on: "all_finite", "apply_updates", "write_states", or ""
            for none.
    """

    def __init__(self, device: CudaDevice, op: str, kernel: KernelFn, scope: str = "", phase: str = ""):
        self.device, self.op, self.kernel, self.scope, self.phase = device, op, kernel, scope, phase
        self.condition = ""
        self._buffers: dict[tuple[str, int], Any] = {}  # in the place of arrays that are not aligned
        self.not_capturable_reason = getattr(kernel, "not_capturable_reason", "")
        self.family = getattr(kernel, "family", "")

    def __call__(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Enqueue it. Arrays whose addresses are no multiples of 16, which slices of others may be, are copied to
        memory that is: kernels load and store vectors."""
        pointer = self.device.pointer
        if any(pointer(array) % VECTOR_BYTES and array.size for array in (*inputs, *outputs)):
            self.device.enqueue(self.op, self._with_aligned_copies(inputs, outputs))
        else:
            self.device.enqueue(self.op, lambda: self.kernel(inputs, outputs))

    def _with_aligned_copies(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> Callable[[], None]:
        """The work on copies of the arrays that are not aligned. An output's copy begins with its elements: a kernel
        may leave some as they are, one that depends on a flag all of them."""
        sources = [self._aligned_buffer(("input", k), array) for k, array in enumerate(inputs)]
        targets = [self._aligned_buffer(("output", k), array) for k, array in enumerate(outputs)]

        def run() -> None:
            for buffer, array in zip((*sources, *targets), (*inputs, *outputs), strict=True):
                if buffer is not array:
                    buffer[...] = array
            self.kernel(sources, targets)
            for buffer, array in zip(targets, outputs, strict=True):
                if buffer is not array:
                    array[...] = buffer

        return run

    def _aligned_buffer(self, key: tuple[str, int], array: Any) -> Any:
        """The array where it is aligned, else memory for a copy that lies as the array does. It is kept: a capture of a
        step, which must not allocate, finds the memory of the runs before."""
        if self.device.pointer(array) % VECTOR_BYTES == 0 or not array.size:
            return array
        buffer = self._buffers.get(key)
        if buffer is None or buffer.shape != array.shape or buffer.strides != _dense_strides(array):
            order = _memory_order(array)
            memory = self.device.empty_pooled(tuple(array.shape[k] for k in order), array.dtype.name)
            buffer = memory.transpose([order.index(k) for k in range(array.ndim)])
            self._buffers[key] = buffer
        return buffer

    def make_conditional(self, flag: Any) -> StreamKernel:
        """The same kernel, which does nothing where the flag is 0."""
        method = getattr(self.kernel, "make_conditional", None)
        kernel = method(flag) if method is not None else _copy_where(self.device.xp, self.kernel, flag)
        return StreamKernel(self.device, self.op, kernel, self.scope, self.phase)


def _memory_order(array: Any) -> list[int]:
    """The axes of an array, that of the largest stride first."""
    return sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))


def _dense_strides(array: Any) -> tuple[int, ...]:
    """The strides in bytes of an array without gaps whose axes have this order in memory."""
    strides, stride = [0] * array.ndim, array.dtype.itemsize
    for axis in reversed(_memory_order(array)):
        strides[axis] = stride
        stride *= array.shape[axis]
    return tuple(strides)


#: a kernel with its input arrays and its output arrays
BoundStreamKernel = tuple[StreamKernel, Sequence[Any], Sequence[Any]]


def _copy_where(xp: Any, kernel: KernelFn, flag: Any) -> KernelFn:
    """A kernel that computes new arrays, which are copied into the outputs where the flag is not 0.

    An output may share memory with an input (an update in place): all results are computed before any is copied.
    """

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        results = [xp.empty(o.shape, dtype=o.dtype) for o in outputs]
        kernel(inputs, results)
        for target, source in zip(outputs, results, strict=True):
            xp.copyto(target, source, where=flag.astype(bool)[0])

    return run
