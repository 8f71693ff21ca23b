"""As much of CuPy as the device uses, on NumPy's arrays, with kernels played by g++'s translation of them.

It checks that `CupyDevice` calls CuPy by names and with arguments that CuPy has (their signatures, and what they
refuse, were taken from the sources of CuPy 14.2), and keeps CuPy's rules for a stream that records: no copy from or to
the host, no waiting, only launches and copies on the device. Streams do their work at once.
"""

from __future__ import annotations

import ctypes
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np


class CUDARuntimeError(RuntimeError):
    """As CuPy's."""

    def __init__(self, message: str, status: int = 2):
        super().__init__(message)
        self.status = status


class OutOfMemoryError(MemoryError):
    """As CuPy's."""


class MockCupy:
    """Stands for the module cupy. ``player`` plays kernels; ``total`` is the memory there is."""

    def __init__(self, player: Any, total: int = 1 << 30):
        self.player, self.total, self.used, self.pinned = player, total, 0, 0
        self.allocator: Any = None
        self.recording: list[Any] | None = None
        self.current: list[Any] = []
        self.calls: list[str] = []
        outer = self

        class Pointer:
            def __init__(self, address: int, owner: Any = None):
                self.ptr, self.mem = address, owner

            def copy_from_host_async(self, mem: Any, size: int, stream: Any = None) -> None:
                given = outer.copied(mem, size, stream)
                outer.outside("copy from the host")
                ctypes.memmove(self.ptr, given, size)

            def copy_to_host_async(self, mem: Any, size: int, stream: Any = None) -> None:
                given = outer.copied(mem, size, stream)
                outer.outside("copy to the host")
                ctypes.memmove(given, self.ptr, size)

            def copy_from_device_async(self, src: Any, size: int, stream: Any = None) -> None:
                assert isinstance(src, Pointer), "a copy on the device is from a MemoryPointer"
                outer.copied(0, size, stream)
                outer.do(lambda: ctypes.memmove(self.ptr, src.ptr, size))

        class ndarray(np.ndarray):
            def __new__(cls, shape: Any, dtype: Any = float, memptr: Any = None) -> Any:
                if memptr is None:
                    return np.empty(shape, dtype).view(cls)
                return (
                    np.frombuffer(memptr.mem.raw, np.uint8)[: int(np.prod(shape))].view(dtype).reshape(shape).view(cls)
                )

            @property
            def data(self) -> Any:  # type: ignore[override]
                return Pointer(self.ctypes.data, self)

            def set(self, arr: Any, stream: Any = None) -> None:
                if not isinstance(arr, np.ndarray):
                    raise TypeError("Only numpy.ndarray can be set to cupy.ndarray")
                if self.dtype != arr.dtype:
                    raise TypeError(f"{arr.dtype} array cannot be set to {self.dtype} array")
                if self.shape != arr.shape:
                    raise ValueError("Shape mismatch")
                if not (self.flags.c_contiguous or self.flags.f_contiguous):
                    raise RuntimeError("Cannot set to non-contiguous array")
                outer.copied(0, self.nbytes, stream)
                outer.outside("copy from the host")
                self[...] = arr

        class Memory:
            def __init__(self, size: int):
                if outer.used + size > outer.total:
                    raise CUDARuntimeError("cudaErrorMemoryAllocation: out of memory")
                outer.used += size
                self.space = np.full(size + 256, 0xFF, np.uint8)
                start = -self.space.ctypes.data % 256
                self.raw = self.space[start : start + size]

        class Stream:
            def __init__(
                self, null: bool = False, non_blocking: bool = False, ptds: bool = False, priority: Any = None
            ):
                assert non_blocking
                self.ptr = id(self)

            def __enter__(self) -> Any:
                outer.current.append(self)
                return self

            def __exit__(self, *_: Any) -> None:
                outer.current.pop()

            def synchronize(self) -> None:
                outer.outside("waiting")

            def wait_event(self, event: Any) -> None:
                outer.outside("an event from outside")

            def begin_capture(self, mode: Any = None) -> None:
                assert outer.recording is None
                outer.recording = []

            def end_capture(self) -> Any:
                if outer.recording is None:
                    raise RuntimeError("this stream records nothing")
                work, outer.recording = outer.recording, None
                return Graph(work)

        class Graph:
            def __init__(self, work: list[Any]):
                self.work = work

            def upload(self, stream: Any = None) -> None:
                outer.outside("upload")

            def launch(self, stream: Any = None) -> None:
                outer.calls.append(f"graph of {len(self.work)}")
                for one in self.work:
                    one()

        class PinnedMemory:
            def __init__(self, size: int, flags: int = 0):
                outer.pinned += size
                self.raw = np.full(size, 0xFF, np.uint8)

        class MemoryPool:
            def __init__(self, allocator: Any = None):
                self.allocator, self.released = allocator, 0

            def malloc(self, size: int) -> Any:
                return (self.allocator or (lambda n: Pointer(0, Memory(n))))(size)

            def free_bytes(self) -> int:
                return 0

            def free_all_blocks(self, stream: Any = None) -> None:
                self.released += 1

        class Event:
            def __init__(self, block: bool = False, disable_timing: bool = False, interprocess: bool = False):
                self.disable_timing, self.recorded = disable_timing, False

            def record(self, stream: Any = None) -> None:
                outer.outside("an event for outside")
                self.recorded = True

            def synchronize(self) -> None:
                outer.outside("waiting")

        class Device:
            compute_capability = "90"

            def __init__(self, device: int = 0):
                self.id = device

            def use(self) -> None:
                outer.calls.append("use")

            def __enter__(self) -> Any:
                return self

            def __exit__(self, *_: Any) -> None:
                pass

        class Function:
            def __init__(self, module: Any, name: str):
                self.module, self.name = module, name

            def __call__(
                self, grid: tuple[int, ...], block: tuple[int, ...], args: tuple[Any, ...], *, shared_mem: int = 0
            ) -> None:
                assert outer.current, "a kernel on the default stream"
                for sizes, most in ((grid, 2**31 - 1), (block, 1024)):
                    assert isinstance(sizes, tuple), "sizes are tuples"
                    assert all(type(n) is int and 1 <= n <= most for n in sizes), sizes
                for a in args:
                    if isinstance(a, np.ndarray) and not isinstance(a, ndarray) and a.size != 1:
                        raise TypeError("You are trying to pass a numpy.ndarray as a kernel parameter")
                    if not isinstance(a, (np.ndarray, np.generic)):  # CuPy makes 64 bits of Python's numbers
                        raise TypeError(f"{type(a).__name__} is no type of a kernel's parameter")
                args = tuple(a.view(np.ndarray) if isinstance(a, np.ndarray) else a for a in args)
                outer.do(lambda: player.launch(self.module, self.name, grid[0], block[0], args))

        class RawModule:
            def __init__(self, *, code: str, options: tuple[str, ...] = (), backend: str = "nvrtc"):
                if not (isinstance(code, str) and isinstance(options, tuple) and isinstance(backend, str)):
                    raise TypeError("RawModule takes str, tuple of str, str")
                self.module = player.load_module(code)

            def get_function(self, name: str) -> Any:
                return Function(self.module, name)

        @contextmanager
        def using_allocator(allocator: Any = None) -> Any:
            before, outer.allocator = outer.allocator, allocator
            yield
            outer.allocator = before

        def get_elapsed_time(start: Any, end: Any) -> float:
            if not (start.recorded and end.recorded) or start.disable_timing or end.disable_timing:
                raise CUDARuntimeError("cudaErrorInvalidResourceHandle: invalid resource handle", 400)
            return 1.0

        self.ndarray, self.RawModule = ndarray, RawModule
        self.cuda = SimpleNamespace(
            Device=Device,
            Event=Event,
            Memory=Memory,
            MemoryPointer=lambda mem, offset: Pointer(0, mem),
            Stream=Stream,
            MemoryPool=MemoryPool,
            PinnedMemory=PinnedMemory,
            PinnedMemoryPointer=lambda mem, offset: memoryview(mem.raw)[offset:],
            get_elapsed_time=get_elapsed_time,
            is_available=lambda: True,
            memory=SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
            nvrtc=SimpleNamespace(getVersion=lambda: (13, 0)),
            using_allocator=using_allocator,
            runtime=SimpleNamespace(
                CUDARuntimeError=CUDARuntimeError,
                getDeviceProperties=lambda i: {"name": b"mock", "multiProcessorCount": 132},
                memGetInfo=lambda: (outer.total - outer.used, outer.total),
            ),
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def asnumpy(self, a: Any, stream: Any = None, order: str = "C", out: Any = None, *, blocking: bool = True) -> Any:
        """As CuPy's."""
        self.outside("copy to the host")
        return np.array(a)

    def copied(self, mem: Any, size: int, stream: Any) -> int:
        """The address of a copy's host side; refuses what CuPy's copies do not take."""
        if not isinstance(mem, int) and not hasattr(mem, "value"):
            raise AttributeError("an address is an int or a ctypes.c_void_p")
        if not isinstance(size, int) or size < 0:
            raise TypeError("a size is an int")
        assert hasattr(stream, "ptr"), "a copy on the default stream"
        return mem if isinstance(mem, int) else mem.value

    def outside(self, what: str) -> None:
        """Refuse what a stream that records does not take."""
        if self.recording is not None:
            raise RuntimeError(f"{what} while a stream records")

    def do(self, work: Any) -> None:
        """Work for the device: done, or recorded."""
        if self.recording is None:
            work()
        else:
            self.recording.append(work)
