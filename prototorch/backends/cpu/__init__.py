"""The CPU: NumPy, with kernels that write into planned memory."""

import importlib
import os
import pkgutil

import numpy as np

from prototorch.backends.core import Backend
from prototorch.backends.cpu import pool
from prototorch.errors import UsageError

LEVELS = {"numpy": ("numpy",), "plain": ()}

for _info in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_info.name}")


def cpu(level: str | None = None, threads: int | None = None) -> Backend:
    """The CPU backend at a level: "numpy" (the default) or "plain", the slow level that checks the other.

    Without ``level`` the environment variable PROTOTORCH_CPU decides. ``threads`` is set for the whole process, which
    has one thread pool; without it, it stays as it is (see `pool.threads`). Raises UsageError for an unknown level or
    fewer than one thread.
    """
    level = level or os.environ.get("PROTOTORCH_CPU") or "numpy"
    if level not in LEVELS:
        raise UsageError(f"there is no CPU level {level!r}; there are {', '.join(map(repr, LEVELS))}")
    if threads is not None:
        pool.set_threads(threads)
    return Backend(f"cpu ({level})", np, LEVELS[level], pool.threads(), pool.Quiet)
