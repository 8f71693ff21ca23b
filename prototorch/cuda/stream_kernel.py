"""Kernels as the executor enqueues them: with the layer they belong to, and the flag that an update depends on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prototorch.cuda.device_protocol import CudaDevice
from prototorch.engine.backends.registry import KernelFn

__all__ = ["BoundStreamKernel", "StreamKernel"]


class StreamKernel:
    """A kernel that is enqueued on the device's compute stream.

    A prepared kernel may have an attribute ``not_capturable_reason`` (why a step with it cannot be captured; absent or
    "": it can) and a method ``make_conditional(flag)``, which returns a kernel that leaves its outputs as they are
    where ``flag`` (int32[1] on the device) is 0. A kernel without this method is made conditional by a copy.

    Attributes:
        op: the op's name.
        scope, phase: the layer and the part of the step that it belongs to.
        condition: the flag of the loss check that it depends on: "all_finite", "apply_updates", or "" for none.
    """

    def __init__(self, device: CudaDevice, op: str, kernel: KernelFn, scope: str = "", phase: str = ""):
        self.device, self.op, self.kernel, self.scope, self.phase = device, op, kernel, scope, phase
        self.condition = ""
        self.not_capturable_reason = getattr(kernel, "not_capturable_reason", "")
        self.family = getattr(kernel, "family", "")

    def __call__(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Enqueue it."""
        self.device.enqueue(self.op, lambda: self.kernel(inputs, outputs))

    def make_conditional(self, flag: Any) -> StreamKernel:
        """The same kernel, which does nothing where the flag is 0."""
        method = getattr(self.kernel, "make_conditional", None)
        kernel = method(flag) if method is not None else _copy_where(self.device.xp, self.kernel, flag)
        return StreamKernel(self.device, self.op, kernel, self.scope, self.phase)


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
