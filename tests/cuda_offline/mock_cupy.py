"""As much of CuPy as the device uses, on NumPy's arrays, with kernels played by g++'s translation of them.

It checks that `CupyDevice` calls CuPy by names and with arguments that CuPy has (their signatures were taken from CuPy
14.2), and keeps CuPy's rules for a stream that records: no copy from or to the host, no waiting, only launches and
copies on the device. Streams do their work at once.
"""

from __future__ import annotations

import ctypes
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np


class CUDARuntimeError(RuntimeError):
    """As CuPy's."""

    status = 2


class OutOfMemoryError(MemoryError):
    """As CuPy's."""


class MockCupy:
    """Stands for the module cupy. ``player`` plays kernels; ``total`` is the memory there is."""

    def __init__(self, player: Any, total: int = 1 << 30):
        self.player, self.total, self.used = player, total, 0
        self.recording: list[Any] | None = None
        self.current: list[Any] = []
        self.told: list[str] = []
        outer = self

        class Pointer:
            def __init__(self, address: int, owner: Any = None):
                self.ptr, self.mem = address, owner

            def copy_from_host_async(self, mem: int, size: int, stream: Any = None) -> None:
                outer.outside("copy from the host")
                ctypes.memmove(self.ptr, mem, size)

            def copy_to_host_async(self, mem: int, size: int, stream: Any = None) -> None:
                outer.outside("copy to the host")
                ctypes.memmove(mem, self.ptr, size)

            def copy_from_device_async(self, src: Any, size: int, stream: Any = None) -> None:
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
                outer.outside("copy from the host")
                assert arr.shape == self.shape
                assert arr.dtype == self.dtype
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
            def __init__(self, null: bool = False, non_blocking: bool = False):
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
                outer.told.append(f"graph of {len(self.work)}")
                for one in self.work:
                    one()

        class Event:
            def __init__(self, block: bool = False, disable_timing: bool = False, interprocess: bool = False):
                self.disable_timing = disable_timing

            def record(self, stream: Any = None) -> None:
                outer.outside("an event for outside")

            def synchronize(self) -> None:
                outer.outside("waiting")

        class Device:
            compute_capability = "90"

            def __init__(self, device: int = 0):
                self.id = device

            def use(self) -> None:
                outer.told.append("use")

            def __enter__(self) -> Any:
                return self

            def __exit__(self, *_: Any) -> None:
                pass

        class Function:
            def __init__(self, module: Any, name: str):
                self.module, self.name = module, name

            def __call__(self, grid: tuple[int, ...], block: tuple[int, ...], args: tuple[Any, ...]) -> None:
                assert outer.current, "a kernel on the default stream"
                args = tuple(a.view(np.ndarray) if isinstance(a, np.ndarray) else a for a in args)
                outer.do(lambda: player.launch(self.module, self.name, grid[0], block[0], args))

        class RawModule:
            def __init__(self, code: str, options: tuple[str, ...] = (), backend: str = "nvrtc"):
                self.module = player.load_module(code)

            def get_function(self, name: str) -> Any:
                return Function(self.module, name)

        @contextmanager
        def using_allocator(allocator: Any = None) -> Any:
            yield

        self.ndarray, self.RawModule = ndarray, RawModule
        self.cuda = SimpleNamespace(
            Device=Device, Event=Event, Memory=Memory, MemoryPointer=lambda mem, offset: Pointer(0, mem),
            Stream=Stream, MemoryPool=lambda: SimpleNamespace(malloc=None, free_bytes=lambda: 0),
            alloc_pinned_memory=lambda size: np.zeros(size, np.uint8), get_elapsed_time=lambda a, b: 1.0,
            is_available=lambda: True, memory=SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
            nvrtc=SimpleNamespace(getVersion=lambda: (13, 0)), using_allocator=using_allocator,
            runtime=SimpleNamespace(CUDARuntimeError=CUDARuntimeError, getDeviceProperties=lambda i: {"name": b"mock"},
                                    memGetInfo=lambda: (outer.total - outer.used, outer.total)),
        )  # fmt: skip

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def asnumpy(self, a: Any, stream: Any = None, order: str = "C", out: Any = None, *, blocking: bool = True) -> Any:
        """As CuPy's."""
        self.outside("copy to the host")
        return np.array(a)

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
