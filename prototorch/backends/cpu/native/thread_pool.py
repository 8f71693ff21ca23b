"""The thread team: runs a list of kernels without returning to Python between them.

A *record* is seven words: the code's address, the arguments' address, the end of the items, the items of a piece, the
pieces, the address of the kernel's shared scratch memory, and the first item. The caller's thread goes through the
records in order. It publishes the pieces of each and does pieces itself; worker threads wait in native code, first
spinning, then asleep, and take pieces too. Which thread does a piece is chance, but pieces do not depend on the number
of threads, and so the result does not.

One word, the *ticket*, holds the record's number (upper half) and how many pieces were taken from the front and from
the back (lower half). A worker takes a piece by exchanging the ticket for its successor, which fails if the record has
changed meanwhile: so it is safe to be late.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from prototorch.backends.cpu import worker_pool
from prototorch.backends.cpu.native.jit import compile_assembly
from prototorch.backends.cpu.native.thread_pool_ir import (
    LOCAL,
    MAX_PIECES,
    RECORD,
    SHARED,
    STRIDE,
    WORDS,
    thread_pool_ir,
)

_ALIGN = 128


def aligned_words(count: int) -> np.ndarray:
    """Zeroed 64-bit words that begin on a line of their own."""
    raw = np.zeros(count + _ALIGN // 8, np.int64)
    skip = (-raw.ctypes.data % _ALIGN) // 8
    return raw[skip : skip + count]


def aligned_bytes(count: int) -> np.ndarray:
    """Bytes with undefined content that begin on a line of their own."""
    raw = np.empty(count + _ALIGN, np.uint8)
    skip = -raw.ctypes.data % _ALIGN
    return raw[skip : skip + count]


class ParallelTask(NamedTuple):
    """One kernel to run: its code, its arguments, and how its items are cut into pieces.

    ``local`` and ``shared`` are the bytes of scratch memory it wants for each thread and for all together.
    """

    code: int
    arguments: tuple[int, ...]
    iterations: int
    grain_size: int = 1
    local_bytes: int = 0
    shared_bytes: int = 0


class _PoolFunctions(NamedTuple):
    run: Any
    worker: Any
    dismiss: Any


@cache
def pool_functions() -> _PoolFunctions:
    """The team's native code."""
    names = ("run", "worker", "dismiss")
    found = compile_assembly("team", thread_pool_ir(), names)
    word = ctypes.c_int64
    kinds = ([word, word, word, word], [word, word], [word])
    return _PoolFunctions(*(ctypes.CFUNCTYPE(None, *k)(found[n]) for n, k in zip(names, kinds, strict=True)))


class _PoolScratch:
    """Memory that kernels share, since only one runs at a time: a part for each thread, and one for all."""

    def __init__(self) -> None:
        self.local = aligned_bytes(0)
        self.shared = aligned_bytes(0)
        self.stride = 0
        self.threads = 0


class ThreadPool:
    """Worker threads and the memory they share."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._memory = aligned_words(WORDS)
        self._workers: list[threading.Thread] = []
        self._scratch = _PoolScratch()
        self._code = pool_functions()
        self._call = self._code.run
        self._address = self._memory.ctypes.data
        self._threads = 0
        self._state = object()  # another one when scratch memory moves; programs know for which one they are ready

    def run(self, program: TaskProgram) -> None:
        """Run a program; one at a time."""
        threads = worker_pool.num_threads()
        with self._lock:
            if program.prepared_for is not self._state or threads != self._threads:
                self._prepare(program, threads)
            self._call(self._address, program.address, program.count, threads)

    def _prepare(self, program: TaskProgram, threads: int) -> None:
        """As many workers as are wanted, and room for the program."""
        if len(self._workers) != threads - 1:
            self._start_workers(threads - 1)
        self._reserve_scratch(program, threads)
        self._threads, program.prepared_for = threads, self._state

    def _start_workers(self, wanted: int) -> None:
        self._stop_workers()
        self._memory = aligned_words(WORDS)
        self._scratch.threads = 0
        address = self._address = self._memory.ctypes.data
        for i in range(wanted):
            worker = threading.Thread(target=self._code.worker, args=(address, i + 1), name=f"prototorch-{i + 1}",
                                      daemon=True)  # fmt: skip
            worker.start()
            self._workers.append(worker)

    def _stop_workers(self) -> None:
        self._threads = 0
        if self._workers:
            self._code.dismiss(self._memory.ctypes.data)
            for worker in self._workers:
                worker.join()
            self._workers.clear()

    def shutdown(self) -> None:
        """End the workers: they are in native code, which must outlive them."""
        with self._lock:
            self._stop_workers()

    def _reserve_scratch(self, program: TaskProgram, threads: int) -> None:
        held = self._scratch
        if program.local > held.stride or threads != held.threads:
            held.stride = max(held.stride, -(-program.local // _ALIGN) * _ALIGN)
            held.local = aligned_bytes(held.stride * threads)
            held.threads = threads
            self._memory[LOCAL], self._memory[STRIDE] = held.local.ctypes.data, held.stride
            self._state = object()
        if program.shared > len(held.shared):
            held.shared = aligned_bytes(program.shared)
            self._state = object()
        program.set_shared_scratch(held.shared.ctypes.data)


class TaskProgram:
    """Tasks as records in memory, ready to be run as often as wanted. ``keep`` are objects whose memory they use."""

    #: it may be called outside of the backend's `running`: native code knows nothing of NumPy's settings
    is_native = True

    def __init__(self, tasks: list[ParallelTask], keep_alive: Any = None):
        self.local = max((t.local_bytes for t in tasks), default=0)
        self.shared = max((t.shared_bytes for t in tasks), default=0)
        self._keep_alive = keep_alive
        words = [w for t in tasks for w in t.arguments]
        self._arguments = np.array(words, np.int64) if words else np.zeros(1, np.int64)
        at = self._arguments.ctypes.data
        records: list[tuple[int, ...]] = []
        for task in tasks:
            grain = max(task.grain_size, 1)
            for first in range(0, task.iterations, grain * MAX_PIECES) if task.iterations > 0 else (0,):
                end = min(first + grain * MAX_PIECES, task.iterations)
                records.append((task.code, at, end, grain, -(-(end - first) // grain), 0, first))
            at += 8 * len(task.arguments)
        self.count = len(records)
        self._records = aligned_words(RECORD * self.count)
        self._records[:] = np.array(records, np.int64).ravel()
        self._shared_at = 0
        self.prepared_for: object = None  # the state of the team that it can be run in as it is
        self.address = self._records.ctypes.data

    def set_shared_scratch(self, shared: int) -> None:
        """Set where the shared scratch memory is."""
        if shared != self._shared_at:
            self._records[SHARED::RECORD] = shared
            self._shared_at = shared

    def __call__(self) -> None:
        """Run all tasks."""
        thread_pool().run(self)


_pool: ThreadPool | None = None
_creation_lock = threading.Lock()


class _CallerPool(threading.local):
    team: ThreadPool | None = None


_caller = _CallerPool()


def thread_pool() -> ThreadPool:
    """The process' one team; inside `pool.alone` this thread's own, which has no other members."""
    global _pool
    if worker_pool.num_threads() == 1:
        _caller.team = _caller.team or ThreadPool()
        return _caller.team
    if _pool is None:
        with _creation_lock:
            if _pool is None:
                _pool = ThreadPool()
    return _pool


def _after_fork() -> None:
    """A forked child has none of the parent's threads."""
    global _pool, _creation_lock
    _pool, _creation_lock = None, threading.Lock()


def _at_exit() -> None:
    if _pool is not None:
        _pool.shutdown()


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
