"""CUDA as CuPy sees it, played by the host: CuPy itself runs, unchanged, on a machine without a GPU.

CuPy has CUDA's runtime linked in; the functions of it that CuPy calls are led to Python here, and those of the driver.
Memory is the host's and new memory is full of 0xFF, streams do their work at once, and what a stream is given while it
records is kept for the graph. What CUDA's documents forbid then is refused with CUDA's codes. Launches are given to
``play``, with the addresses of the arguments as CuPy has put them down. What this cannot tell: results of CuPy's own
kernels, the order of work on several streams, and time.

`install` comes before the first import of CuPy, and holds for the whole process. For Linux on x86-64.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
import subprocess
import threading
from collections import Counter
from collections.abc import Callable
from ctypes import CFUNCTYPE, c_char_p, c_float, c_int, c_size_t, c_uint, c_ulonglong, c_void_p
from pathlib import Path
from typing import Any

import numpy as np

P, Z, INT, U = c_void_p, c_size_t, c_int, c_uint
OK, INVALID, NO_MEMORY, BAD_HANDLE, NOT_RECORDING, NO_DEVICE = 0, 1, 2, 400, 401, 101
UNSUPPORTED, VOID, ISOLATION, IMPLICIT = 900, 901, 905, 906  # of a stream that records
TYPES = {"P": P, "Z": Z, "INT": INT, "U": U, "c_char_p": c_char_p, "c_ulonglong": c_ulonglong}
ATTRIBUTES = {1: 1024, 10: 32, 16: 132, 75: 9, 76: 0}  # threads of a block, of a warp, processors, capability 9.0
TO_DEVICE, TO_HOST, WITHIN, WHEREVER = 1, 2, 3, 4


def put(address: int, value: Any, kind: Any) -> int:
    """Write a result where the caller wants it."""
    kind.from_address(address).value = value
    return OK


class Stream:
    """``work``: what has been recorded, None while it does not record; ``void``: a rule was broken meanwhile;
    ``device``: the number of its GPU."""

    def __init__(self, flags: int, device: int):
        self.flags, self.device, self.work, self.void = flags, device, None, False


class Event:
    """``inside``: it was last given to a stream that records; ``device``: the number of its GPU."""

    def __init__(self, flags: int, device: int):
        self.flags, self.device, self.recorded, self.inside = flags, device, False, False


class CurrentDevice(threading.local):
    """The current GPU of each thread."""

    number = 0


class HostCuda:
    """See the module's text. ``calls`` counts calls, ``launches`` kernels by GPU, ``wrong`` is what should not have
    happened. devices: the number of GPUs."""

    def __init__(self, total: int = 1 << 34, devices: int = 1):
        self.total, self.used, self.next = total, 0, 0x7000
        self.devices, self.current = devices, CurrentDevice()
        self.launches: Counter[int] = Counter()
        self.blocks: dict[int, tuple[np.ndarray, int]] = {}  # of the device, by address
        self.owners: dict[int, int] = {}  # the GPU of a block
        self.pinned: dict[int, tuple[np.ndarray, int]] = {}
        self.objects: dict[int, Any] = {}
        self.calls: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.words: dict[str, Any] = {}
        #: (source, kernel, blocks, threads, address of the arguments' addresses) -> what is to be done
        self.play: Callable[..., Callable[[], Any]] | None = None

    def new(self, thing: Any, at: int) -> int:
        self.next += 16
        self.objects[self.next] = thing
        return put(at, self.next, P)

    def recording(self) -> list[Stream]:
        return [s for s in self.objects.values() if isinstance(s, Stream) and s.work is not None]

    def refuse(self, code: int = UNSUPPORTED) -> int:
        """A rule is broken: all recordings are void."""
        for stream in self.recording():
            stream.void = True
        return code

    def host(self, stream: int | None) -> int:
        """The host waits for a stream."""
        if not stream:
            return self.refuse(IMPLICIT) if self.recording() else OK
        return self.refuse() if self.objects[stream].work is not None else OK

    def do(self, stream: int | None, work: Callable[[], Any]) -> int:
        if not stream:
            self.wrong.append("work on the default stream")
            return self.refuse(IMPLICIT) if self.recording() else OK
        found = self.objects[stream]
        if found.device != self.current.number:
            self.wrong.append(f"work on a stream of GPU {found.device} while GPU {self.current.number} is current")
            return BAD_HANDLE
        if found.void:
            return VOID
        if found.work is None:
            work()
        else:
            found.work.append(work)
        return OK

    @staticmethod
    def within(blocks: dict[int, tuple[np.ndarray, int]], at: int, size: int) -> bool:
        return any(first <= at and at + size <= first + length for first, (_, length) in blocks.items())

    # ------------------------------------------------------------ the device and its memory

    def cuInit(self, flags: U):
        return OK

    def cuDriverGetVersion(self, n: P):
        return put(n, 13000, INT)

    def cuDeviceGetCount(self, n: P):
        return put(n, self.devices, INT)

    def cuDeviceGetAttribute(self, n: P, which: INT, device: INT):
        return put(n, ATTRIBUTES.get(which, 1), INT)

    def cuDeviceGetName(self, name: P, size: INT, device: INT):
        ctypes.memmove(name, b"the host", 9)
        return OK

    def cudaGetDeviceCount(self, n: P):
        return put(n, self.devices, INT)

    def cudaGetDevice(self, n: P):
        return put(n, self.current.number, INT)

    def cudaSetDevice(self, n: INT):
        if not 0 <= n < self.devices:
            return NO_DEVICE
        self.current.number = n
        return OK

    def cudaGetLastError(self):
        return OK

    def cudaDriverGetVersion(self, n: P):
        return put(n, 13000, INT)

    def cudaRuntimeGetVersion(self, n: P):
        return put(n, 13000, INT)

    def cudaDeviceGetAttribute(self, n: P, which: INT, device: INT):
        return put(n, ATTRIBUTES.get(which, 1), INT)

    def cudaGetDeviceProperties(self, p: P, device: INT):
        ctypes.memset(p, 0, 1008)
        ctypes.memmove(p, b"the host", 9)
        return OK

    def cudaPointerGetAttributes(self, p: P, address: P):
        ctypes.memset(p, 0, 24)
        return put(p + 4, self.owners.get(address, 0), INT)

    def cudaMalloc(self, p: P, size: Z):
        if self.used + size > self.total:
            return NO_MEMORY
        raw = np.full(size + 512, 0xFF, np.uint8)
        at = -(-raw.ctypes.data // 512) * 512
        self.blocks[at], self.used = (raw, size), self.used + size
        self.owners[at] = self.current.number
        return put(p, at, P)

    def cudaFree(self, p: P):
        if p:
            raw, size = self.blocks.pop(p)
            self.used -= size
            raw[:] = 0xEE
        return OK

    def cudaHostAlloc(self, p: P, size: Z, flags: U):
        raw = np.full(size, 0xFF, np.uint8)
        self.pinned[raw.ctypes.data] = raw, size
        return put(p, raw.ctypes.data, P)

    def cudaFreeHost(self, p: P):
        del self.pinned[p]
        return OK

    def cudaMemGetInfo(self, free: P, total: P):
        put(free, self.total - self.used, Z)
        return put(total, self.total, Z)

    def cudaMemcpyAsync(self, to: P, of: P, size: Z, kind: INT, stream: P):
        there = kind == TO_HOST or self.within(self.blocks, to, size)
        if not (there and (kind == TO_DEVICE or self.within(self.blocks, of, size))):
            self.wrong.append(f"a copy of {size} bytes (kind {kind}) beside memory of the device")
            return INVALID
        host = {TO_DEVICE: of, TO_HOST: to}.get(kind)
        if host is not None:
            self.calls["pinned" if self.within(self.pinned, host, size) else "pageable"] += 1
        return self.do(stream, lambda: ctypes.memmove(to, of, size))

    def cudaMemsetAsync(self, to: P, value: INT, size: Z, stream: P):
        return self.do(stream, lambda: ctypes.memset(to, value, size))

    # ------------------------------------------------------------ streams, events, graphs

    def cudaStreamCreateWithPriority(self, p: P, flags: U, priority: INT):
        return self.new(Stream(flags, self.current.number), p)

    def cudaStreamDestroy(self, stream: P):
        del self.objects[stream]
        return OK

    def cudaStreamSynchronize(self, stream: P):
        return self.host(stream)

    def cudaStreamQuery(self, stream: P):
        return self.host(stream)

    def cudaDeviceSynchronize(self):
        return self.refuse() if self.recording() else OK

    def cudaStreamWaitEvent(self, stream: P, event: P, flags: U):
        inside = self.objects[stream].work is not None
        return self.refuse(ISOLATION) if inside != self.objects[event].inside else OK

    def cudaEventCreateWithFlags(self, p: P, flags: U):
        return self.new(Event(flags, self.current.number), p)

    def cudaEventDestroy(self, event: P):
        del self.objects[event]
        return OK

    def cudaEventRecord(self, event: P, stream: P):
        found = self.objects[event]
        if not stream or self.objects[stream].device != found.device:
            self.wrong.append("an event is recorded on the default stream, or on a stream of another GPU")
        found.recorded, found.inside = True, bool(stream) and self.objects[stream].work is not None
        return OK

    def cudaEventSynchronize(self, event: P):
        return self.refuse() if self.objects[event].inside else OK

    def cudaEventElapsedTime(self, p: P, first: P, last: P):
        if any(self.objects[e].flags & 2 or not self.objects[e].recorded for e in (first, last)):
            return BAD_HANDLE
        return put(p, 1.0, c_float)

    def cudaStreamBeginCapture(self, stream: P, mode: INT):
        found = self.objects[stream]
        if found.work is not None:
            return NOT_RECORDING
        found.work = []
        return OK

    def cudaStreamIsCapturing(self, stream: P, p: P):
        if not stream:
            return IMPLICIT if self.recording() else put(p, 0, INT)
        found = self.objects[stream]
        return put(p, 0 if found.work is None else 2 if found.void else 1, INT)

    def cudaStreamEndCapture(self, stream: P, graph: P):
        found = self.objects[stream]
        if found.work is None:
            return NOT_RECORDING
        work, void, found.work, found.void = found.work, found.void, None, False
        return VOID if void else self.new(work, graph)

    def cudaGraphInstantiate(self, p: P, graph: P, flags: c_ulonglong):
        return self.new(list(self.objects[graph]), p)

    def cudaGraphUpload(self, graph: P, stream: P):
        return self.host(stream) if self.objects[graph] else OK

    def cudaGraphLaunch(self, graph: P, stream: P):
        self.calls["graph"] += 1
        return max((self.do(stream, one) for one in self.objects[graph]), default=OK)

    def cudaGraphDestroy(self, graph: P):
        del self.objects[graph]
        return OK

    def cudaGraphExecDestroy(self, graph: P):
        del self.objects[graph]
        return OK

    # ------------------------------------------------------------ errors and kernels

    def text(self, text: str) -> int:
        return ctypes.addressof(self.words.setdefault(text, ctypes.create_string_buffer(text.encode())))

    def cudaGetErrorName(self, code: INT) -> c_char_p:
        return self.text(f"error {code}")

    def cudaGetErrorString(self, code: INT) -> c_char_p:
        return self.text(f"error {code} of the runtime")

    def cuGetErrorName(self, code: INT, p: P):
        return put(p, self.text(f"error {code}"), P)

    def cuGetErrorString(self, code: INT, p: P):
        return put(p, self.text(f"error {code} of the driver"), P)

    def cuModuleLoadData(self, p: P, image: P):
        return self.new(ctypes.string_at(image), p)

    def cuModuleUnload(self, module: P):
        return OK

    def cuModuleGetFunction(self, p: P, module: P, name: c_char_p):
        return self.new((self.objects[module], name.decode()), p)

    def cuLaunchKernel(self, f: P, gx: U, gy: U, gz: U, bx: U, by: U, bz: U, shared: U, stream: P, given: P, extra: P):
        source, name = self.objects[f]
        if bx * by * bz > 1024 or shared > 49152 or self.play is None:
            return INVALID
        self.calls["kernel"] += 1
        self.launches[self.current.number] += 1
        return self.do(stream, self.play(source, name, gx, bx, given))


def _led(cuda: HostCuda, name: str) -> Any:
    """A function of CUDA's as C calls it; one that is not here says so."""
    method = getattr(cuda, name, None)
    if method is None:
        return CFUNCTYPE(c_int)(lambda: cuda.wrong.append(f"{name} is not played") or 801)
    code = method.__func__.__code__
    kinds = [TYPES[method.__annotations__[n]] for n in code.co_varnames[1 : code.co_argcount]]
    back = P if method.__annotations__.get("return") == "c_char_p" else c_int

    def call(*given: Any) -> Any:
        try:
            return method(*given)
        except Exception as why:  # C takes no exception
            cuda.wrong.append(f"{name}: {type(why).__name__}: {why}")
            return BAD_HANDLE

    return CFUNCTYPE(back, *kinds)(call)


def install(cuda: HostCuda) -> list[Any]:
    """Lead CuPy's calls here; what is given back must live as long as the process."""
    held: dict[str, Any] = {}
    load = ctypes.CDLL

    class Driver:
        def __getattr__(self, name: str) -> Any:
            return held.setdefault(name, _led(cuda, name))

    ctypes.CDLL = lambda name=None, *a, **k: Driver() if "libcuda.so" in str(name) else load(name, *a, **k)  # type: ignore
    found = importlib.util.find_spec("cupy_backends")
    assert found is not None
    (path,) = Path(next(iter(found.submodule_search_locations or ()))).glob("cuda/api/runtime.*.so")
    load(str(path), mode=os.RTLD_NOW)
    lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    base = int(next(line for line in lines if str(path) in line).split("-")[0], 16)
    protect = load(None).mprotect
    protect.argtypes = [P, Z, INT]
    symbols = subprocess.run(["nm", str(path)], capture_output=True, text=True, check=True).stdout
    for offset, name in re.findall(r"^([0-9a-f]+) [tT] (cuda[A-Z]\w*)$", symbols, re.M):
        at, plain = base + int(offset, 16), name.removesuffix("_v2")
        target = ctypes.cast(held.setdefault(plain, _led(cuda, plain)), P).value
        assert protect(at & ~4095, 8192, 7) == 0
        jump = b"\x48\xb8" + int(target or 0).to_bytes(8, "little") + b"\xff\xe0"
        ctypes.memmove(at, jump, len(jump))
    return [held]
