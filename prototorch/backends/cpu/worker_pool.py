"""The CPU's one thread pool, and scratch memory for each of its threads.

`parallel_for` cuts 0 ... n into pieces whose bounds depend on ``n`` and ``grain`` alone, never on the number of
threads,
so that a result put together from pieces has the same bits however many threads there are. Threads take the next
piece when they are free; a caller's own thread works too, so one thread means no pool at all.

BLAS has threads of its own. They serve a single large product; inside `parallel(..., blas=True)` BLAS is held to one
thread, since there the pieces already fill the cores.
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
        said = os.environ.get(name, "").split(",")[0].strip()
        if said.isdigit() and int(said) > 0:
            return int(said)
    affinity = getattr(os, "sched_getaffinity", None)
    return (len(affinity(0)) if affinity else os.cpu_count()) or 1


def check_environment() -> None:
    """Raise UsageError where PROTOTORCH_THREADS is no number of threads. (OMP_NUM_THREADS is OpenMP's, not ours.)"""
    said = os.environ.get("PROTOTORCH_THREADS", "").strip()
    if said and not (said.isdigit() and int(said) > 0):
        raise UsageError(f"PROTOTORCH_THREADS is {said!r}; it must be a whole number of at least 1")


class NumpyRunContext:
    """NumPy without warnings of numbers that are not finite (whether they are is asked once a step, not in every
    kernel), and with a smaller buffer: NumPy copies rows that are shorter than its buffer, which takes longer than
    the work."""

    def __enter__(self) -> None:
        self._before = np.errstate(all="ignore")
        self._before.__enter__()
        np.setbufsize(_BUFFER_SIZE)

    def __exit__(self, *_: object) -> None:
        self._before.__exit__(None, None, None)  # brings the buffer back, too


_BUFFER_SIZE = 2048


class _ParallelJob:
    """Pieces of work that several threads take in turn."""

    def __init__(self, work: WorkFn, n: int, grain: int, pieces: int, commit: Callable[[Any], None] | None):
        self.work, self.n, self.grain, self.pieces, self.commit = work, n, grain, pieces, commit
        self.take = count().__next__
        self.done = count(1).__next__
        self.finished = threading.Lock()
        self.finished.acquire()
        self.error: BaseException | None = None
        self.turn = 0
        self.turns = threading.Condition() if commit is not None else None

    def help(self) -> None:
        """Do pieces until none is left."""
        while (i := self.take()) < self.pieces:
            try:
                if self.error is None:
                    made = self.work(i * self.grain, min((i + 1) * self.grain, self.n))
                    if self.turns is not None:
                        self._commit(i, made)
            except BaseException as exc:
                self.error = self.error or exc
            finally:
                if self.turns is not None:
                    self._pass_on(i)
                if self.done() == self.pieces:
                    self.finished.release()

    def _commit(self, i: int, made: Any) -> None:
        assert self.turns is not None
        assert self.commit is not None
        with self.turns:
            while self.turn < i:
                self.turns.wait()
        self.commit(made)

    def _pass_on(self, i: int) -> None:
        assert self.turns is not None
        with self.turns:
            while self.turn < i:  # after an error: pieces still end in their order
                self.turns.wait()
            self.turn = i + 1
            self.turns.notify_all()


class _Pool:
    """Worker threads that wait for jobs; started when the first job comes."""

    def __init__(self, threads: int):
        self.threads = threads
        self.queue: SimpleQueue[_ParallelJob | None] = SimpleQueue()
        self.started = 0
        self.lock = threading.Lock()

    def run(self, job: _ParallelJob) -> None:
        helpers = min(self.threads, job.pieces) - 1
        if self.started < helpers:
            self._start(helpers)
        for _ in range(helpers):
            self.queue.put(job)
        job.help()
        job.finished.acquire()

    def _start(self, wanted: int) -> None:
        with self.lock:
            while self.started < wanted:
                self.started += 1
                threading.Thread(target=self._serve, name=f"prototorch-{self.started}", daemon=True).start()

    def _serve(self) -> None:
        with NumpyRunContext():
            while (job := self.queue.get()) is not None:
                job.help()
                del job


class _BlasThreads:
    """BLAS' own number of threads; held to one while any of our regions runs."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.depth = 0
        self.found: list[Any] | None = None

    def libraries(self) -> list[Any]:
        if self.found is None:
            self.found = list(ThreadpoolController().select(user_api="blas").lib_controllers)
        return self.found

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
    """How many threads kernels use: `set_num_threads`, else PROTOTORCH_THREADS, else OMP_NUM_THREADS, else the
    cores; one
    inside `single_threaded`."""
    return 1 if _caller.alone else _pool.threads


class _CallerState(threading.local):
    alone = False


_caller = _CallerState()


@contextmanager
def single_threaded() -> Iterator[None]:
    """Inside, this thread's kernels run in it alone, beside what other threads run. For threads that prepare data while
    the step has the pool to itself. Results are the same: they do not depend on the number of threads."""
    before, _caller.alone = _caller.alone, True
    try:
        yield
    finally:
        _caller.alone = before


def set_num_threads(count: int) -> None:
    """Use this many threads from now on, in kernels and in BLAS. There is one pool in a process.

    Raises UsageError for fewer than one.
    """
    global _pool
    if count < 1:
        raise UsageError(f"the number of threads is at least 1, not {count}")
    if count != _pool.threads:
        old, _pool = _pool, _Pool(count)
        for _ in range(old.started):
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
    """Call ``work(start, stop)`` for each piece of at most ``grain`` of 0 ... n, on several threads.

    Pieces may be done in any order, but ``commit(what work gave back)`` is called in the order of the pieces, one at
    a time: that is how sums over pieces come out the same each time. ``blas``: the work calls BLAS, which is then
    held to one thread. The first error of any piece is raised when all have ended.
    """
    pieces = -(-n // grain_size)
    pool = _pool
    if pieces <= 1 or num_threads() == 1:
        for start in range(0, n, grain_size):
            made = work(start, min(start + grain_size, n))
            if combine is not None:
                combine(made)
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


def _allocate_scratch(use: str, wanted: tuple[tuple[tuple[int, ...], Any], ...]) -> list[np.ndarray]:
    sizes = [-(-(np.dtype(dtype).itemsize * int(np.prod(shape, dtype=np.int64))) // 64) * 64 for shape, dtype in wanted]
    memory = _scratch.memory.get(use)
    if memory is None or memory.nbytes < sum(sizes):
        raw = np.empty(sum(sizes) + 64, np.uint8)
        memory = _scratch.memory[use] = raw[-raw.ctypes.data % 64 :][: sum(sizes)]
        for key in [k for k in _scratch.views if k[0] == use]:
            del _scratch.views[key]
    found, at = [], 0
    for (shape, dtype), size in zip(wanted, sizes, strict=True):
        room = np.dtype(dtype).itemsize * int(np.prod(shape, dtype=np.int64))
        found.append(memory[at : at + room].view(dtype).reshape(shape))
        at += size
    return found
