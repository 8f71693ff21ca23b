"""Backends by the name of a device, and what this machine has."""

from __future__ import annotations

import importlib
import os
import platform
from typing import Any

import numpy as np

from prototorch.backends.core import Backend
from prototorch.backends.cpu import LEVELS, cpu, native
from prototorch.backends.cuda.availability import (
    describe_cuda,
    is_available,
    missing_gpu_reason,
    unavailable_reason,
)
from prototorch.backends.device_name import DeviceName, describe_device_names, parse_device, suggest_device
from prototorch.backends.precision import STRICT_NAMES, ExecutionSettings, resolve_precision
from prototorch.errors import BackendError

ENV_VAR = "PROTOTORCH_DEVICE"  # what "auto" means


def backend_for(device: str = "auto", threads: int | None = None, precision: str = "auto",
                deterministic: bool = False, autotune: bool = False) -> Backend:  # fmt: skip
    """The backend of a device: "cpu", "cuda", "cuda:1", or "auto": the environment variable PROTOTORCH_DEVICE,
    else a GPU where one can be used, else the CPU.

    threads: of the CPU. precision: see `backends.precision`; on the CPU all is float32, and "fp32" leaves out what
    rounds more than a sum of products. deterministic, autotune: see `ExecutionSettings`; of them
    the CPU knows autotune. Raises BackendError for a device that cannot be used, UsageError for a precision that there
    is none of.
    """
    name = _find_device(device)
    if name.type == "cuda":
        if precision == "float64":
            raise BackendError("precision float64 is computed on the CPU alone: use the device 'cpu'")
        settings = ExecutionSettings(resolve_precision(precision, gpu=True), deterministic, autotune)
        return cuda_backend(settings, name.number or 0)
    policy = resolve_precision(precision, gpu=False)
    backend = cpu(threads=threads, strict=precision in STRICT_NAMES, autotune=autotune)
    backend.precision = policy
    return backend


def _find_device(device: str) -> DeviceName:
    """The device of a name, with what "auto" means here. Raises BackendError for what is no name of a device."""
    source = ""
    if device == "auto":
        device, source = os.environ.get(ENV_VAR) or "auto", f"{ENV_VAR}: "
    name = parse_device(device)
    if name is None:
        raise BackendError(
            f"{source}there is no device {device[:60]!r}, expected {describe_device_names()}.{suggest_device(device)}"
        )
    if name.type == "auto":
        return DeviceName("cuda" if is_available() else "cpu")
    return name


def cuda_backend(settings: ExecutionSettings, index: int = 0) -> Backend:
    """The backend of a GPU by its number; nothing else loads CUDA. Raises BackendError with what to install, or with
    the numbers that there are."""
    why = unavailable_reason()
    if why:
        raise BackendError(f"the device 'cuda' cannot be used: {why}; or use 'cpu' or 'auto'")
    why = missing_gpu_reason(index)
    if why:
        raise BackendError(f"the device 'cuda:{index}' cannot be used: {why}")
    backend: Backend = importlib.import_module("prototorch.backends.cuda.backend").get_backend(settings, index)
    return backend


def _level_reason(level: str) -> str:
    """Why this level of kernels is used."""
    if os.environ.get("PROTOTORCH_CPU"):
        return "set by PROTOTORCH_CPU"
    return (
        "the fastest; PROTOTORCH_CPU chooses another"
        if level == "native"
        else f"not native: {native.unavailable_reason()}"
    )


def describe_devices() -> dict[str, dict[str, Any]]:
    """What `prototorch devices` shows: each device with the libraries in use, or why it is not used."""
    host = cpu()
    level = next(name for name, levels in LEVELS.items() if levels == host.levels)
    blas = np.show_config(mode="dicts").get("Build Dependencies", {}).get("blas", {})
    return {
        "cpu": {
            "in use": "yes",
            "level": f"{level} ({_level_reason(level)})",
            "machine": platform.machine(),
            "threads": host.threads,
            **native.describe(),
            "numpy": np.__version__,
            "blas": f"{blas.get('name', 'unknown')} {blas.get('version', '')}".strip(),
        },
        "cuda": describe_cuda(),
    }
