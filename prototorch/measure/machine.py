"""What this machine can do: measured, not looked up."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from prototorch.engine.backends.core import Backend
from prototorch.engine.backends.cpu import worker_pool
from prototorch.ops.elementwise import negative
from prototorch.ops.linear import matmul
from prototorch.spec import Spec

_MATRIX_SIZE = 768  # of the matrices: large enough for every core, small enough to be run many times
_COPY_BYTES = 96 << 20  # bytes: larger than any cache a core has to itself
_SECONDS = 0.4
_GPU_FACTOR = 8  # how much longer the sides, and larger the copy, on a GPU


__all__ = ["Peaks", "measure_peaks"]


@dataclass(frozen=True)
class Peaks:
    """The highest rates measured: operations per second, bytes per second (read and written), and threads."""

    flops: float
    bandwidth: float
    threads: int


def measure_peaks(backend: Backend) -> Peaks:
    """Measure a large float32 matrix product and a large copy, about half a second each: on the CPU on the threads in
    use, by the better of NumPy's kernels and the backend's."""
    if backend.xp is not np:
        return _measure_device(backend)
    side = Spec((_MATRIX_SIZE, _MATRIX_SIZE))
    a, b, c = (np.ones(side.shape, np.float32) for _ in range(3))
    (backend_product,) = backend.link_steps([(backend.prepare(matmul, (side, side), (side,), {}), (a, b), (c,))])
    product = min(_best_seconds(lambda: np.matmul(a, b, out=c)), _best_seconds(backend_product))
    source, target = np.ones(_COPY_BYTES, np.uint8), np.empty(_COPY_BYTES, np.uint8)
    piece = -(-_COPY_BYTES // worker_pool.num_threads())

    def copy() -> None:
        worker_pool.parallel_for(lambda i, j: np.copyto(target[i:j], source[i:j]), _COPY_BYTES, piece)

    return Peaks(2 * _MATRIX_SIZE**3 / product, 2 * _COPY_BYTES / _best_seconds(copy), worker_pool.num_threads())


def _measure_device(backend: Backend) -> Peaks:
    """The same on a device: a product in the backend's own precision, and the negative of a large array."""
    n = _GPU_FACTOR * _MATRIX_SIZE
    side, line = Spec((n, n)), Spec((_GPU_FACTOR * _COPY_BYTES // 4,))
    last = backend.asarray(np.ones(1, np.float32))

    def measure(op: Any, ins: tuple[Spec, ...], out: Spec) -> float:
        run = backend.prepare(op, ins, (out,), {})
        arrays = tuple(backend.asarray(np.ones(s.shape, np.float32)) for s in ins)
        output = backend.empty(out)

        def work() -> None:
            with backend.run_context():
                run(arrays, (output,))
            backend.to_numpy(last)  # waits for all work of the device

        return _best_seconds(work)

    return Peaks(2 * n**3 / measure(matmul, (side, side), side), 2 * line.nbytes / measure(negative, (line,), line), 0)


def _best_seconds(work: Callable[[], object]) -> float:
    """The least seconds of a call."""
    work()
    best, end = float("inf"), time.perf_counter() + _SECONDS
    while True:
        begin = time.perf_counter()
        work()
        now = time.perf_counter()
        best = min(best, now - begin)
        if now >= end:
            return best
