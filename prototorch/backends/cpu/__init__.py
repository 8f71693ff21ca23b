"""The CPU: NumPy, with kernels that write into planned memory; native kernels where they can run."""

import importlib
import os
import pkgutil

import numpy as np

from prototorch.backends.core import Backend
from prototorch.backends.cpu import native, worker_pool
from prototorch.errors import BackendError, UsageError

LEVELS = {"native": ("winograd", "native", "numpy"), "numpy": ("numpy",), "plain": ()}

for _info in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_info.name}")


def cpu(level: str | None = None, threads: int | None = None, strict: bool = False,
        autotune: bool = False) -> Backend:  # fmt: skip
    """The CPU backend at a level: "native", "numpy", or "plain", the slow level that checks the others.

    Without ``level`` the environment variable PROTOTORCH_CPU decides; without that it is "native" where native kernels
    can run, else "numpy". ``threads`` is set for the whole process, which has one thread pool; without it, it stays as
    it is (see `pool.threads`). ``strict`` leaves out kernels that round more than a sum of products does (Winograd's
    convolutions). ``autotune``: native kernels are chosen by timing those that take a step, once (see `native.tuning`).
    Raises UsageError for an unknown level, fewer than one thread or an odd PROTOTORCH_THREADS, and BackendError where
    "native" is asked for and cannot be had.
    """
    said = level or os.environ.get("PROTOTORCH_CPU")
    if said is not None and said not in LEVELS:
        raise UsageError(f"there is no CPU level {said!r}; there are {', '.join(map(repr, LEVELS))}")
    worker_pool.check_environment()
    why = native.unavailable_reason() if said in (None, "native") else None
    if said == "native" and why is not None:
        raise BackendError(f"the native CPU level cannot be used here: {why}")
    level = said or ("native" if why is None else "numpy")
    if threads is not None:
        worker_pool.set_num_threads(threads)
    kind = importlib.import_module(f"{__name__}.native.backend").NativeBackend if level == "native" else Backend
    levels = tuple(name for name in LEVELS[level] if not (strict and name == "winograd"))
    more = {"autotune": True} if autotune and level == "native" else {}
    return kind(f"cpu ({level})", np, levels, worker_pool.num_threads(), worker_pool.NumpyRunContext, **more)


def eager_backend() -> Backend:
    """The CPU backend for ops that run as they are called: "numpy", where PROTOTORCH_CPU says nothing else.

    Code made for one shape pays where the shape comes again, which only a plan knows.
    """
    return cpu(os.environ.get("PROTOTORCH_CPU") or "numpy")
