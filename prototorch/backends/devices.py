"""Which backend a device's name stands for, and what this machine has."""

from __future__ import annotations

import importlib
import os
import platform
from typing import Any

import numpy as np

from prototorch.backends.core import Backend
from prototorch.backends.cpu import LEVELS, cpu, native
from prototorch.backends.cuda.facts import facts, usable, why_not
from prototorch.backends.precision import STRICT, Settings, precision_of
from prototorch.errors import BackendError, did_you_mean

NAMES = ("auto", "cpu", "cuda")
VARIABLE = "PROTOTORCH_DEVICE"  # what "auto" means


def backend_for(device: str = "auto", threads: int | None = None, precision: str = "auto",
                deterministic: bool = False, autotune: bool = False) -> Backend:  # fmt: skip
    """The backend of a device. "auto" is a GPU where one can be used, else the CPU; the environment variable
    PROTOTORCH_DEVICE may say which.

    threads: of the CPU. precision: see `backends.precision`; on the CPU all is float32, and "fp32" leaves out what
    rounds more than a sum of products. deterministic, autotune: see `Settings`; of them
    the CPU knows autotune. Raises BackendError for a device that cannot be used, UsageError for a precision that there
    is none of.
    """
    if device == "auto":
        device = os.environ.get(VARIABLE) or ("cuda" if usable() else "cpu")
    if device == "cuda":
        return cuda_backend(Settings(precision_of(precision, gpu=True), deterministic, autotune))
    if device != "cpu":
        raise BackendError(f"there is no device {device!r}; there are cpu and cuda.{did_you_mean(device, NAMES)}")
    precision_of(precision, gpu=False)
    return cpu(threads=threads, strict=precision in STRICT, autotune=autotune)


def cuda_backend(settings: Settings) -> Backend:
    """The GPU's backend; only here is anything of CUDA loaded. Raises BackendError with what mends it."""
    why = why_not()
    if why:
        raise BackendError(f"the device 'cuda' cannot be used: {why}; or use 'cpu' or 'auto'")
    made: Backend = importlib.import_module("prototorch.backends.cuda.backend").cuda(settings)
    return made


def _why(level: str) -> str:
    """Why this level of kernels runs, of those there are."""
    if os.environ.get("PROTOTORCH_CPU"):
        return "said by PROTOTORCH_CPU"
    return "the fastest; PROTOTORCH_CPU chooses another" if level == "native" else f"not native: {native.missing()}"


def devices() -> dict[str, dict[str, Any]]:
    """What `prototorch devices` shows: each device with the libraries in use, or why it is not used."""
    here = cpu()
    level = next(name for name, tried in LEVELS.items() if tried == here.levels)
    blas = np.show_config(mode="dicts").get("Build Dependencies", {}).get("blas", {})
    return {
        "cpu": {
            "in use": "yes",
            "level": f"{level} ({_why(level)})",
            "machine": platform.machine(),
            "threads": here.threads,
            **native.facts(),
            "numpy": np.__version__,
            "blas": f"{blas.get('name', 'unknown')} {blas.get('version', '')}".strip(),
        },
        "cuda": facts(),
    }
