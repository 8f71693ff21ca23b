"""Python functions over ranges on several threads, and scratch memory for each of them; see docs/threads.md.

`parallel_for` cuts 0 ... n into pieces whose bounds depend on ``n`` and ``grain_size`` alone, never on the number of
threads, so that a result combined from pieces has the same bits for any number of threads. Threads take the next piece
when they are free; the caller's thread works too, so with one thread no pool is started.

BLAS has threads of its own. They serve a single large product; inside `parallel_for(..., blas=True)` BLAS is limited to
one thread, since the pieces already fill the cores.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from queue import SimpleQueue
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from prototorch.errors import UsageError

WorkFn = Callable[[int, int], Any]


def _threads_from_environment() -> int:
    for name in ("PROTOTORCH_THREADS", "OMP_NUM_THREADS"):
        value = os.environ.get(name, "").split(",")[0].strip()
        if value.isdigit() and int(value) > 0:
            return int(value)
    affinity = getattr(os, "sched_getaffinity", None)
    return (len(affinity(0)) if affinity else os.cpu_count()) or 1


def check_environment() -> None:
    """Raise UsageError where PROTOTORCH_THREADS is not an integer of at least 1. (OMP_NUM_THREADS belongs to
    OpenMP.)"""
    value = os.environ.get("PROTOTORCH_THREADS", "").strip()
    if value and not (value.isdigit() and int(value) > 0):
        raise UsageError(f"PROTOTORCH_THREADS is {value!r}; it must be an integer of at least 1")


class NumpyRunContext:
    """NumPy without warnings about values that are not finite (they are checked once a step, not in every kernel), and
    with a smaller buffer: NumPy copies rows that are shorter than its buffer, which takes longer than the work."""

    def __enter__(self) -> None:
        self._before = np.errstate(all="ignore")
        self._before.__enter__()
        np.setbufsize(_BUFFER_SIZE)

    def __exit__(self, *_: object) -> None:
        self._before.__exit__(None, None, None)  # restores the buffer size, too


_BUFFER_SIZE = 2048


class _ParallelJob:
    """The pieces of one call of `parallel_for`, which several threads take."""

    def __init__(self, work: WorkFn, n: int, grain_size: int, pieces: int, combine: Callable[[Any], None] | None):
        self.work, self.n, self.grain_size, self.pieces, self.combine = work, n, grain_size, pieces, combine
        self.next_piece = count().__next__
        self.count_done = count(1).__next__
        self.completion = threading.Lock()  # released when all pieces are done
        self.completion.acquire()
        self.error: BaseException | None = None
        self.next_result = 0  # the piece whose result is combined next
        self.order = threading.Condition() if combine is not None else None

    def run_pieces(self) -> None:
        """Run pieces until none is left."""
        while (i := self.next_piece()) < self.pieces:
            try:
                if self.error is None:
                    result = self.work(i * self.grain_size, min((i + 1) * self.grain_size, self.n))
                    if self.order is not None:
                        self._combine(i, result)
            except BaseException as exc:
                self.error = self.error or exc
            finally:
                if self.order is not None:
                    self._advance(i)
                if self.count_done() == self.pieces:
                    self.completion.release()

    def _combine(self, i: int, result: Any) -> None:
        assert self.order is not None
        assert self.combine is not None
        with self.order:
            while self.next_result < i:
                self.order.wait()
        self.combine(result)

    def _advance(self, i: int) -> None:
        assert self.order is not None
        with self.order:
            while self.next_result < i:  # after an error too, pieces end in their order
                self.order.wait()
            self.next_result = i + 1
            self.order.notify_all()


class _Pool:
    """Worker threads that wait for jobs; started when the first job comes."""

    def __init__(self, threads: int):
        self.threads = threads
        self.queue: SimpleQueue[_ParallelJob | None] = SimpleQueue()
        self.num_started = 0
        self.lock = threading.Lock()

    def run(self, job: _ParallelJob) -> None:
        helpers = min(self.threads, job.pieces) - 1
        if self.num_started < helpers:
            self._start(helpers)
        for _ in range(helpers):
            self.queue.put(job)
        job.run_pieces()
        job.completion.acquire()

    def _start(self, target: int) -> None:
        with self.lock:
            while self.num_started < target:
                self.num_started += 1
                threading.Thread(target=self._serve, name=f"prototorch-{self.num_started}", daemon=True).start()

    def _serve(self) -> None:
        with NumpyRunContext():
            while (job := self.queue.get()) is not None:
                job.run_pieces()
                del job


class _BlasThreads:
    """The number of BLAS' own threads: one while a region of this pool that calls BLAS runs."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.depth = 0
        self._libraries: list[Any] | None = None

    def libraries(self) -> list[Any]:
        if self._libraries is None:
            self._libraries = list(ThreadpoolController().select(user_api="blas").lib_controllers)
        return self._libraries

    def set(self, threads: int) -> None:
        for library in self.libraries():
            library.set_num_threads(threads)

    def __enter__(self) -> None:
        with self.lock:
            self.depth += 1
            if self.depth == 1:
                self.set(1)

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.depth -= 1
            if self.depth == 0:
                self.set(_pool.threads)


_pool = _Pool(_threads_from_environment())
_blas = _BlasThreads()
if os.environ.get("PROTOTORCH_THREADS"):  # BLAS reads OMP_NUM_THREADS itself
    _blas.set(_pool.threads)


def num_threads() -> int:
    """The number of threads that kernels use: `set_num_threads`, else PROTOTORCH_THREADS, else OMP_NUM_THREADS, else
    the cores; one inside `single_threaded`."""
    return 1 if _caller.is_alone else _pool.threads


class _CallerState(threading.local):
    is_alone = False


_caller = _CallerState()


@contextmanager
def single_threaded() -> Iterator[None]:
    """A context in which the kernels that this thread calls run in this thread alone: for threads that prepare data
    while the training step uses the pool. Results do not change: they do not depend on the number of threads."""
    before, _caller.is_alone = _caller.is_alone, True
    try:
        yield
    finally:
        _caller.is_alone = before


def set_num_threads(count: int) -> None:
    """Use this many threads from now on, in kernels and in BLAS, in the whole process.

    Raises UsageError for fewer than one.
    """
    global _pool
    if count < 1:
        raise UsageError(f"the number of threads must be at least 1, not {count}")
    if count != _pool.threads:
        old, _pool = _pool, _Pool(count)
        for _ in range(old.num_started):
            old.queue.put(None)
        _blas.set(count)


def _after_fork() -> None:
    """A forked child has none of the parent's threads."""
    global _pool, _blas
    _pool, _blas = _Pool(_pool.threads), _BlasThreads()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def parallel_for(
    work: WorkFn, n: int, grain_size: int, blas: bool = False, combine: Callable[[Any], None] | None = None
) -> None:
    """Call ``work(start, stop)`` for each piece of at most ``grain_size`` of 0 ... n, on several threads.

    Args:
        work: called for the pieces in any order.
        n: the end of the range.
        grain_size: the size of a piece; the last one may be smaller.
        blas: whether the work calls BLAS, which is then limited to one thread.
        combine: called with the results of ``work``, in the order of the pieces and one at a time, so that sums over
            pieces have the same bits each time.

    Raises the first error of a piece when all have ended.
    """
    pieces = -(-n // grain_size)
    pool = _pool
    if pieces <= 1 or num_threads() == 1:
        for start in range(0, n, grain_size):
            result = work(start, min(start + grain_size, n))
            if combine is not None:
                combine(result)
        return
    job = _ParallelJob(work, n, grain_size, pieces, combine)
    if blas:
        with _blas:
            pool.run(job)
    else:
        pool.run(job)
    if job.error is not None:
        raise job.error


class _ScratchMemory(threading.local):
    def __init__(self) -> None:
        self.memory: dict[str, np.ndarray] = {}
        self.views: dict[Any, list[np.ndarray]] = {}


_scratch = _ScratchMemory()
_MAX_VIEWS = 1024


def scratch_arrays(*arrays: tuple[tuple[int, ...], Any], use: str = "work") -> list[np.ndarray]:
    """Arrays of the given (shape, dtype) with undefined elements, in memory that this thread keeps and uses again.

    They hold until this thread asks again under the same ``use``. A kernel that calls `parallel_for` while it holds
    arrays of its own takes them under another ``use``, because its thread does pieces too.
    """
    key = (use, arrays)
    views = _scratch.views.get(key)
    if views is None:
        if len(_scratch.views) >= _MAX_VIEWS:
            _scratch.views.clear()
        views = _scratch.views[key] = _allocate_scratch(use, arrays)
    return views


def _allocate_scratch(use: str, arrays: tuple[tuple[tuple[int, ...], Any], ...]) -> list[np.ndarray]:
    sizes = [-(-(np.dtype(dtype).itemsize * int(np.prod(shape, dtype=np.int64))) // 64) * 64 for shape, dtype in arrays]
    memory = _scratch.memory.get(use)
    if memory is None or memory.nbytes < sum(sizes):
        raw = np.empty(sum(sizes) + 64, np.uint8)
        memory = _scratch.memory[use] = raw[-raw.ctypes.data % 64 :][: sum(sizes)]
        for key in [k for k in _scratch.views if k[0] == use]:
            del _scratch.views[key]
    views, offset = [], 0
    for (shape, dtype), size in zip(arrays, sizes, strict=True):
        nbytes = np.dtype(dtype).itemsize * int(np.prod(shape, dtype=np.int64))
        views.append(memory[offset : offset + nbytes].view(dtype).reshape(shape))
        offset += size
    return views
