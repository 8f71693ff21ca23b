"""What this machine can do: measured, not looked up."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from prototorch.backends.core import Backend
from prototorch.backends.cpu import pool
from prototorch.ops.linear import matmul
from prototorch.spec import Spec

_SIDE = 768  # of the matrices: large enough for every core, small enough to be run many times
_COPIED = 96 << 20  # bytes: larger than any cache a core has to itself
_SECONDS = 0.4


@dataclass(frozen=True)
class Peaks:
    """The best that was reached: floating-point operations a second, bytes a second (read and written), threads."""

    flops: float
    bandwidth: float
    threads: int


def peaks(backend: Backend) -> Peaks:
    """Measure a large float32 matrix product (the better of NumPy's and the backend's) and a large copy, about half a
    second each, on the threads in use."""
    rng = np.random.default_rng(0)
    a, b = (rng.random((_SIDE, _SIDE), np.float32) for _ in range(2))
    c = np.empty_like(a)
    spec = Spec((_SIDE, _SIDE))
    (own,) = backend.strung([(backend.prepare(matmul, (spec, spec), (spec,), {}), (a, b), (c,))])
    product = min(_best(lambda: np.matmul(a, b, out=c)), _best(own))
    source, target = np.ones(_COPIED, np.uint8), np.empty(_COPIED, np.uint8)
    piece = -(-_COPIED // pool.threads())

    def copy() -> None:
        pool.parallel(lambda i, j: np.copyto(target[i:j], source[i:j]), _COPIED, piece)

    return Peaks(2 * _SIDE**3 / product, 2 * _COPIED / _best(copy), pool.threads())


def _best(work: Callable[[], object]) -> float:
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
