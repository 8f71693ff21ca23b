"""What a worker of a data loader knows of itself."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

__all__ = ["WorkerInfo", "get_worker_info", "inside_worker"]


@dataclass
class WorkerInfo:
    """id: 0 .. num_workers - 1; seed: of its random numbers; dataset: the worker's own copy of the data set."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


_local = threading.local()


def get_worker_info() -> WorkerInfo | None:
    """The information about the worker that calls this, a `WorkerInfo`; None outside of workers."""
    return getattr(_local, "info", None)


@contextmanager
def inside_worker(info: WorkerInfo) -> Iterator[None]:
    """A context in which `get_worker_info` gives this."""
    before = get_worker_info()
    _local.info = info
    try:
        yield
    finally:
        _local.info = before
