"""The native thread pool: runs a list of kernels without returning to Python between them. See docs/threads.md.

A *record* is seven words: the address of the code, the address of the arguments, the end of the iterations, the grain
size, the number of pieces, the address of the kernel's shared scratch memory, and the first iteration. The caller's
thread goes through the records in order. It publishes the pieces of each and runs pieces itself; worker threads wait in
native code, first spinning, then asleep, and take pieces too. Which thread runs a piece is not determined, but pieces
do not depend on the number of threads, and so the result does not.

One word, the *ticket*, holds the record's number (upper half) and the numbers of pieces taken from the front and from
the back (lower half). A worker takes a piece by compare-and-exchange of the ticket for its successor, which fails if
the record has changed meanwhile: a worker that wakes late does no harm.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from prototorch.engine.backends.cpu import worker_pool
from prototorch.engine.backends.cpu.native.jit import compile_assembly
from prototorch.engine.backends.cpu.native.thread_pool_ir import (
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
    """Zeroed 64-bit words that begin on a cache line of their own."""
    raw = np.zeros(count + _ALIGN // 8, np.int64)
    skip = (-raw.ctypes.data % _ALIGN) // 8
    return raw[skip : skip + count]


def aligned_bytes(count: int) -> np.ndarray:
    """Bytes with undefined content that begin on a cache line of their own."""
    raw = np.empty(count + _ALIGN, np.uint8)
    skip = -raw.ctypes.data % _ALIGN
    return raw[skip : skip + count]


class ParallelTask(NamedTuple):
    """One kernel to run over a range of iterations.

    Attributes:
        code: the address of the machine code.
        arguments: 64-bit words: addresses and integers.
        iterations: the end of the range, which begins at 0.
        grain_size: the iterations of a piece.
        local_bytes: scratch memory of each thread.
        shared_bytes: scratch memory of all threads together.
        watch: the word before the arguments of a watched kernel, see `ir_magnitude.py`; 0: it is none.
    """

    code: int
    arguments: tuple[int, ...]
    iterations: int
    grain_size: int = 1
    local_bytes: int = 0
    shared_bytes: int = 0
    watch: int = 0

    @property
    def words(self) -> tuple[int, ...]:
        """The words in memory: the arguments, behind the word of a watched kernel."""
        return (self.watch, *self.arguments) if self.watch else self.arguments


class _PoolFunctions(NamedTuple):
    run: Any
    worker: Any
    dismiss: Any


@cache
def pool_functions() -> _PoolFunctions:
    """The pool's native code."""
    names = ("run", "worker", "dismiss")
    addresses = compile_assembly("thread_pool", thread_pool_ir(), names)
    word = ctypes.c_int64
    kinds = ([word, word, word, word], [word, word], [word])
    return _PoolFunctions(*(ctypes.CFUNCTYPE(None, *k)(addresses[n]) for n, k in zip(names, kinds, strict=True)))


class _PoolScratch:
    """Scratch memory of kernels, of which one runs at a time: a part for each thread, and one for all."""

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
        self._state = object()  # replaced when scratch memory moves; programs remember for which one they are prepared

    def run(self, program: TaskProgram) -> None:
        """Run a program; one at a time."""
        threads = worker_pool.num_threads()
        with self._lock:
            if program.prepared_for is not self._state or threads != self._threads:
                self._prepare(program, threads)
            self._call(self._address, program.address, program.count, threads)

    def _prepare(self, program: TaskProgram, threads: int) -> None:
        """Start the workers, and reserve the program's scratch memory."""
        if len(self._workers) != threads - 1:
            self._start_workers(threads - 1)
        self._reserve_scratch(program, threads)
        self._threads, program.prepared_for = threads, self._state

    def _start_workers(self, count: int) -> None:
        self._stop_workers()
        self._memory = aligned_words(WORDS)
        self._scratch.threads = 0
        address = self._address = self._memory.ctypes.data
        for i in range(count):
            worker = threading.Thread(
                target=self._code.worker, args=(address, i + 1), name=f"prototorch-{i + 1}", daemon=True
            )
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
        """Stop the workers: they run native code, which must outlive them."""
        with self._lock:
            self._stop_workers()

    def _reserve_scratch(self, program: TaskProgram, threads: int) -> None:
        scratch = self._scratch
        if program.local > scratch.stride or threads != scratch.threads:
            scratch.stride = max(scratch.stride, -(-program.local // _ALIGN) * _ALIGN)
            scratch.local = aligned_bytes(scratch.stride * threads)
            scratch.threads = threads
            self._memory[LOCAL], self._memory[STRIDE] = scratch.local.ctypes.data, scratch.stride
            self._state = object()
        if program.shared > len(scratch.shared):
            scratch.shared = aligned_bytes(program.shared)
            self._state = object()
        program.set_shared_scratch(scratch.shared.ctypes.data)


class TaskProgram:
    """Tasks as records in memory, to be run any number of times.

    keep_alive: objects whose memory they use. arguments: the words of all tasks, one after another; they may be
    replaced between two runs.
    """

    #: it may be called outside of the backend's `run_context`: NumPy's settings do not affect native code
    is_native = True

    def __init__(self, tasks: list[ParallelTask], keep_alive: Any = None):
        self.local = max((t.local_bytes for t in tasks), default=0)
        self.shared = max((t.shared_bytes for t in tasks), default=0)
        self._keep_alive = keep_alive
        words = [w for t in tasks for w in t.words]
        self.arguments = np.array(words, np.int64) if words else np.zeros(1, np.int64)
        at = self.arguments.ctypes.data
        records: list[tuple[int, ...]] = []
        for task in tasks:
            at += 8 * (len(task.words) - len(task.arguments))
            grain = max(task.grain_size, 1)
            for first in range(0, task.iterations, grain * MAX_PIECES) if task.iterations > 0 else (0,):
                end = min(first + grain * MAX_PIECES, task.iterations)
                records.append((task.code, at, end, grain, -(-(end - first) // grain), 0, first))
            at += 8 * len(task.arguments)
        self.count = len(records)
        self._records = aligned_words(RECORD * self.count)
        self._records[:] = np.array(records, np.int64).ravel()
        self._shared_at = 0
        self.prepared_for: object = None  # the state of the pool for which the records are valid
        self.address = self._records.ctypes.data

    def set_shared_scratch(self, shared: int) -> None:
        """Set the address of the shared scratch memory."""
        if shared != self._shared_at:
            self._records[SHARED::RECORD] = shared
            self._shared_at = shared

    def __call__(self) -> None:
        """Run all tasks."""
        thread_pool().run(self)


_pool: ThreadPool | None = None
_creation_lock = threading.Lock()


class _CallerPool(threading.local):
    pool: ThreadPool | None = None


_caller = _CallerPool()


def thread_pool() -> ThreadPool:
    """The process' one pool; where one thread is used (as inside `single_threaded`), this thread's own, without
    workers."""
    global _pool
    if worker_pool.num_threads() == 1:
        _caller.pool = _caller.pool or ThreadPool()
        return _caller.pool
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
