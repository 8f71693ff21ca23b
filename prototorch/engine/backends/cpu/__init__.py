"""The CPU: NumPy, with kernels that write into planned memory; native kernels where they can run."""

import importlib
import os

import numpy as np

from prototorch.engine.backends.core import Backend
from prototorch.engine.backends.cpu import native, worker_pool
from prototorch.engine.backends.registry import register_level
from prototorch.errors import BackendError, UsageError

LEVELS = {"native": ("winograd", "native", "numpy"), "numpy": ("numpy",), "plain": ()}

register_level("numpy", f"{__name__}.numpy")
for _level in native.LEVELS:
    register_level(_level, f"{__name__}.native.kernels")


def cpu(level: str | None = None, threads: int | None = None, strict: bool = False, autotune: bool = False) -> Backend:
    """The CPU backend at a level: "native", "numpy", or "plain", the reference implementations.

    Without ``level`` the environment variable PROTOTORCH_CPU decides; without that it is "native" where native kernels
    can run, else "numpy". ``threads`` is set for the whole process; by default it does not change (see `pool.threads`).
    ``strict`` excludes kernels that round more than a sum of products does (Winograd's convolutions). ``autotune``:
    native kernels are chosen by timing those that take a step, once (see `native.tuning`). Raises UsageError for an
    unknown level, fewer than one thread or an odd PROTOTORCH_THREADS, and BackendError where "native" is requested and
    cannot be used.
    """
    name = level or os.environ.get("PROTOTORCH_CPU")
    if name is not None and name not in LEVELS:
        raise UsageError(f"there is no CPU level {name!r}; there are {', '.join(map(repr, LEVELS))}")
    worker_pool.check_environment()
    why = native.unavailable_reason() if name in (None, "native") else None
    if name == "native" and why is not None:
        raise BackendError(f"the native CPU level cannot be used here: {why}")
    level = name or ("native" if why is None else "numpy")
    if threads is not None:
        worker_pool.set_num_threads(threads)
    backend_class = (
        importlib.import_module(f"{__name__}.native.backend").NativeBackend if level == "native" else Backend
    )
    levels = tuple(one for one in LEVELS[level] if not (strict and one == "winograd"))
    options = {"autotune": True} if autotune and level == "native" else {}
    return backend_class(
        f"cpu ({level})", np, levels, worker_pool.num_threads(), worker_pool.NumpyRunContext, **options
    )


def eager_backend() -> Backend:
    """The CPU backend of eager ops: the level "numpy", where PROTOTORCH_CPU does not set another.

    Code compiled for one shape pays where the shape comes again, which only a plan can know.
    """
    return cpu(os.environ.get("PROTOTORCH_CPU") or "numpy")
