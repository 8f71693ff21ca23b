"""The border to CUDA: the protocol of what the backend and its executor need of a device.

Everything runs on one stream, ``compute_stream``, in the order of the calls; copies from the host run on a second one,
``copy_stream``. Between `begin_capture` and `end_capture` calls are captured as a graph instead of being executed.
`cupy_device.CupyDevice` implements it with CuPy, `prototorch.cuda.fake_device.FakeDevice` without a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

import numpy as np

from prototorch.engine.backends.precision import ExecutionSettings
from prototorch.errors import OutOfMemoryError

__all__ = ["ALIGNMENT", "CudaDevice", "MemoryUsage", "format_bytes", "out_of_memory_error"]

ALIGNMENT = 256  # bytes: the alignment of cudaMalloc, which vector loads and cuDNN rely on


class MemoryUsage(NamedTuple):
    """Bytes of a GPU's memory: of arrays of the pool, of the pool, free, and in all."""

    used: int
    reserved: int
    free: int
    total: int


class CudaDevice(Protocol):
    """A GPU, or its fake in the tests. Arrays are CuPy's (the fake's are NumPy's).

    Whoever computes on arrays other than by these methods does so in `stream_context`, or by `enqueue`.
    """

    xp: Any
    settings: ExecutionSettings
    compute_stream: Any
    copy_stream: Any

    @property
    def name(self) -> str:
        """The name that the driver gives the device."""

    @property
    def precision(self) -> str:
        """The settings' precision: "fp32", "tf32", "bf16" or "fp16"."""

    @property
    def deterministic(self) -> bool:
        """Whether every run must give the same bits."""

    @property
    def multiprocessors(self) -> int:
        """How many multiprocessors it has: how many blocks run at once at least."""

    # ---------------------------------------------------------------- memory

    def alloc(self, nbytes: int) -> Any:
        """New memory as an array of uint8, aligned to 256 bytes. Raises ResourceError with the free memory."""

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        """New memory as an array; must not be called during a step."""

    def empty_pooled(self, shape: tuple[int, ...], dtype: str) -> Any:
        """New memory as an array, from a pool: for arrays that live shortly. Later work of ``compute_stream`` may get
        the memory of a freed array while earlier work still uses it, in this order."""

    def memory_usage(self) -> MemoryUsage:
        """How much memory is in use."""

    def release_memory(self) -> None:
        """Return the pool's free memory to the GPU."""

    def upload(self, array: np.ndarray) -> Any:
        """A copy on the device, made synchronously; must not be called during a step."""

    def owns(self, array: Any) -> bool:
        """Whether an array is in the device's memory."""

    def download(self, array: Any) -> np.ndarray:
        """A copy on the host, after all work of ``compute_stream``. The host waits; must not be called in a step."""

    def overwrite(self, target: Any, array: np.ndarray) -> None:
        """Copy an array of the host into one of the device, after all work of ``compute_stream``. The host waits."""

    def alloc_pinned(self, nbytes: int) -> np.ndarray:
        """Page-locked host memory, from and to which asynchronous copies run, as an array of uint8."""

    def free_bytes(self) -> int | None:
        """Bytes that can still be allocated; None where that is unknown."""

    def reserve(self, nbytes: int) -> None:
        """Request workspace: one block as large as the largest request, used by one kernel after another."""

    def workspace(self) -> Any:
        """The workspace; a captured graph keeps the block that it was captured with alive."""

    def release_workspace(self) -> None:
        """Give up the workspace and all requests for it; a kernel that is used later requests its own again."""

    # ---------------------------------------------------------------- streams and events

    def create_event(self, timing: bool = False) -> Any:
        """An event that streams record and wait for; ``timing``: with the time at which it happens."""

    def record_event(self, event: Any, stream: Any) -> None:
        """Record an event: it happens when all earlier work of the stream is done."""

    def wait_event(self, stream: Any, event: Any) -> None:
        """Later work of the stream waits for the event; the host does not."""

    def synchronize_event(self, event: Any) -> None:
        """The host waits for the event."""

    def elapsed_ms(self, start: Any, end: Any) -> float:
        """Milliseconds between two events with timing that have happened."""

    def copy_from_host(self, target: Any, source: np.ndarray, stream: Any) -> None:
        """Start a copy from pinned memory; both arrays are contiguous."""

    def copy_to_host(self, target: np.ndarray, source: Any, stream: Any) -> None:
        """Start a copy to pinned memory; both arrays are contiguous."""

    def copy_on_device(self, target: Any, source: Any) -> None:
        """Enqueue a copy of the bytes of one array to another on ``compute_stream``; both are contiguous."""

    def check_step(
        self, losses: Any, loss: Any, apply: Any | None, values: Any, outside: Any, report: np.ndarray | None
    ) -> None:
        """Enqueue the check of a step on ``compute_stream``: of its loss, of its count of values outside, or of both.

        values, outside, report: memory with the fields of `ValueCheckState`, the count int32[], and pinned memory
        int32[1] of the host, which becomes 1 where the count is not 0; None where nothing is counted. losses, loss:
        memory with the fields of `LossCheckState` and the loss; None where no loss is checked.

        loss: a scalar, float32 or float64; None for one that is finite. apply: a bool scalar, or None for true.
        """

    def make_finite_check(self, arrays: Sequence[Any], flag: Any) -> Callable[[], None]:
        """A function that enqueues a check of many arrays of floats on ``compute_stream``: it sets ``flag`` (int32[1])
        to 1 where an element is not finite. The arrays have no gaps, and begin at multiples of 4 bytes."""

    def make_conditional_copy(self, pairs: Sequence[tuple[Any, Any]], flag: Any) -> Callable[[], None]:
        """A function that enqueues the copies of many arrays (target, source) on ``compute_stream``; none of them is
        made where ``flag`` (int32[1]) is 0. The arrays of a pair are contiguous and of one size."""

    def enqueue(self, name: str, work: Callable[[], None]) -> None:
        """Enqueue work on ``compute_stream``: a function that launches kernels of the op ``name``."""

    def stream_context(self) -> AbstractContextManager[Any]:
        """Inside, the device is the thread's current one, and CuPy's own kernels run on ``compute_stream`` and allocate
        from a pool; during a capture from a pool that the graph keeps. It may be entered again inside."""

    # ---------------------------------------------------------------- graphs

    def begin_capture(self) -> None:
        """Capture the work of ``compute_stream`` from here on."""

    def end_capture(self) -> Any:
        """The captured graph, ready to be launched. The error of CUDA is raised where the work could not be
        captured."""

    def abandon_capture(self) -> None:
        """End a capture that failed and discard it."""

    def launch_graph(self, graph: Any) -> None:
        """Enqueue a captured graph on ``compute_stream``."""

    # ---------------------------------------------------------------- kernels

    def load_module(self, source: str) -> Any:
        """Complete CUDA C++ with extern "C" kernels, compiled; the same module for the same source."""

    def launch(self, module: Any, name: str, grid: int, block: int, args: Sequence[Any]) -> None:
        """Launch a kernel. args: arrays of the device (their address is passed) and NumPy scalars."""

    def pointer(self, array: Any) -> int:
        """The address of an array's first element."""


def out_of_memory_error(needed: int, free: int | None, total: int | None) -> OutOfMemoryError:
    """The error of an allocation that failed."""
    available = "" if free is None else f"; {format_bytes(free)} are free"
    available += "" if total is None else f" of {format_bytes(total)}"
    return OutOfMemoryError(f"the GPU has no memory for {format_bytes(needed)}{available}")


def format_bytes(count: float) -> str:
    """A number of bytes in a readable unit, such as "3.9 KiB"."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"
