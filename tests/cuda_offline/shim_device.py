"""A device for kernels that is the CPU: the same `.cu` texts compiled by g++, threads played one after another.

A kernel that meets at barriers runs with a real thread for each of its threads. Grids and blocks are small ones of odd
sizes, so that the loops over a grid are tried too.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path

import numpy as np

SHIM = r"""
#include <math.h>
#define _STRINGS_H 1
#include <pthread.h>
struct dim { unsigned x; };
static thread_local dim threadIdx, blockIdx, blockDim, gridDim;
static pthread_barrier_t meeting;
#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static
#define __restrict__
#define __syncthreads() pthread_barrier_wait(&meeting)
static inline float __int_as_float(int v) { float r; __builtin_memcpy(&r, &v, 4); return r; }
static inline int __float_as_int(float v) { int r; __builtin_memcpy(&r, &v, 4); return r; }
static inline float rsqrtf(float v) { return 1.0f / sqrtf(v); }
static inline double rsqrt(double v) { return 1.0 / sqrt(v); }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)(((unsigned __int128)a * b) >> 64);
}
extern "C" void shim_set(unsigned thread, unsigned block, unsigned threads, unsigned blocks) {
    threadIdx.x = thread; blockIdx.x = block; blockDim.x = threads; gridDim.x = blocks;
}
extern "C" void shim_meet(unsigned threads) { pthread_barrier_init(&meeting, 0, threads); }
"""
OPTIONS = ("-std=c++17", "-O0", "-ffp-contract=off", "-fPIC", "-pthread", "-w")
#: set where the tests run under the address sanitizer (test_memory_errors.py)
SANITIZED = "SHIM_SANITIZED" in os.environ
if SANITIZED:
    OPTIONS = (*OPTIONS, "-fsanitize=address")
COMPILER = shutil.which("g++")
#: type -> ctypes
_C = {
    "uint32": ctypes.c_uint32, "int32": ctypes.c_int32, "uint64": ctypes.c_uint64, "int64": ctypes.c_int64,
    "float32": ctypes.c_float, "float64": ctypes.c_double,
}  # fmt: skip


class ShimDevice:
    """What the kernels ask of a device, on NumPy arrays."""

    precision = "fp32"
    deterministic = True

    def __init__(self, folder: str | None = None):
        self.folder = Path(folder or tempfile.mkdtemp(prefix="shim"))
        self.sources: dict[str, str] = {}
        self.libraries: dict[str, ctypes.CDLL] = {}
        self.launched: list[str] = []
        self._space = np.empty(0, np.uint8)

    def load_module(self, source: str) -> str:
        key = hashlib.sha256(source.encode()).hexdigest()[:24]
        self.sources[key] = source
        return key

    def _compile(self, arguments: list[str]) -> None:
        done = subprocess.run([COMPILER, *OPTIONS, *arguments], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[:4000]

    def _head(self) -> Path:
        """The common head, compiled once: half of the time otherwise."""
        head = self.folder / "shim.h"
        if not head.exists():
            head.write_text(SHIM, encoding="utf-8")
            self._compile(["-x", "c++-header", str(head), "-o", str(head) + ".gch"])
        return head

    def _library(self, key: str) -> ctypes.CDLL:
        if key not in self.libraries:
            file, made = self.folder / f"{key}.cpp", self.folder / f"{key}.so"
            if not made.exists():
                file.write_text(self.sources[key], encoding="utf-8")
                self._compile(["-shared", "-include", str(self._head()), str(file), "-o", str(made)])
            self.libraries[key] = ctypes.CDLL(str(made))
        return self.libraries[key]

    def launch(self, module: str, name: str, grid: int, block: int, args) -> None:
        library = self._library(module)
        function = library[name]
        given = [self._argument(a) for a in args]
        self.launched.append(name)
        meets = "__syncthreads" in self.sources[module]
        # a block that meets is a power of two of threads; one of few is played as it is
        threads, blocks = (block if block <= 16 else 8) if meets else 3, min(grid, 2)

        def one(thread: int, at: int) -> None:
            library.shim_set(thread, at, threads, blocks)
            function(*given)

        for at in range(blocks):
            if not meets:
                for thread in range(threads):
                    one(thread, at)
                continue
            library.shim_meet(threads)
            team = [threading.Thread(target=one, args=(t, at)) for t in range(threads)]
            for each in team:
                each.start()
            for each in team:
                each.join()

    def _argument(self, value):
        if isinstance(value, np.ndarray):
            return ctypes.c_void_p(value.ctypes.data)
        return _C[value.dtype.name](value.item())

    def pointer(self, array) -> int:
        return array.ctypes.data

    def upload(self, array):
        return array.copy()

    def empty(self, shape, dtype):
        return np.zeros(shape, dtype)

    def reserve(self, nbytes: int) -> None:
        if nbytes > len(self._space):
            raw = np.full(nbytes + 256, 0xFF, np.uint8)
            start = -raw.ctypes.data % 256
            self._space = raw[start : start + nbytes]

    def workspace(self):
        return self._space
