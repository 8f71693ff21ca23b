"""Which backend a device's name stands for, and what this machine has."""

from __future__ import annotations

import importlib.util
import os
import platform
from typing import Any

import numpy as np

from prototorch.backends.core import Backend
from prototorch.backends.cpu import LEVELS, cpu
from prototorch.errors import BackendError


def backend_for(device: str = "auto", threads: int | None = None) -> Backend:
    """The backend of a device: "auto" and "cpu" are the CPU.

    Raises BackendError for a device that this installation cannot use.
    """
    if device in ("auto", "cpu"):
        return cpu(threads=threads)
    raise BackendError(f"the device {device!r} cannot be used: {_why_no_gpu()}; use 'cpu' or 'auto'")


def _why_no_gpu() -> str:
    return "this version of prototorch has no GPU backend"


def devices() -> dict[str, dict[str, Any]]:
    """What `prototorch devices` shows: each device with the libraries in use, or why it is not used."""
    here = cpu()
    blas = np.show_config(mode="dicts").get("Build Dependencies", {}).get("blas", {})
    found = importlib.util.find_spec("cupy") is not None
    return {
        "cpu": {
            "in use": "yes",
            "level": f"{os.environ.get('PROTOTORCH_CPU', 'numpy')} (of {', '.join(LEVELS)}; set by PROTOTORCH_CPU)",
            "machine": platform.machine(),
            "threads": here.threads,
            "numpy": np.__version__,
            "blas": f"{blas.get('name', 'unknown')} {blas.get('version', '')}".strip(),
        },
        "cuda": {"in use": "no", "why": _why_no_gpu(), "cupy": "installed" if found else "not installed"},
    }
