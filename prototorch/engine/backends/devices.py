"""Backends by the name of a device, and what this machine has."""

from __future__ import annotations

import importlib
import os
import platform
from dataclasses import replace
from typing import Any

import numpy as np

from prototorch.cuda.availability import (
    LOW_PRECISION,
    has_gpu,
    is_available,
    missing_gpu_reason,
    query_driver,
    unavailable_reason,
)
from prototorch.cuda.device_report import describe_cuda
from prototorch.engine.backends.core import Backend
from prototorch.engine.backends.cpu import LEVELS, cpu, native
from prototorch.engine.backends.device_name import DeviceName, describe_device_names, parse_device, suggest_device
from prototorch.engine.backends.precision import STRICT_NAMES, ExecutionSettings, PrecisionPolicy, resolve_precision
from prototorch.errors import BackendError, warn_user

ENV_VAR = "PROTOTORCH_DEVICE"  # what "auto" means
CUDNN_VAR = "PROTOTORCH_CUDNN"  # 0: without cuDNN
_warned: set[str] = set()


class UnavailableDeviceError(BackendError):
    """A GPU that this machine has not, or cannot use."""

    def with_advice(self, source: str) -> UnavailableDeviceError:
        """The error with what to choose instead; source: the variable that chose the device, "" for an argument."""
        advice = f"or unset {ENV_VAR}, or set it to cpu" if source else "or use 'cpu'"
        return type(self)(f"{source}{self}; {advice}")


def backend_for(device: str = "auto", threads: int | None = None, precision: str = "auto",
                deterministic: bool = False, autotune: bool = False) -> Backend:  # fmt: skip
    """The backend of a device: "cpu", "cuda", "cuda:1", or "auto": the environment variable PROTOTORCH_DEVICE,
    else a GPU where one can be used, else the CPU; a warning says once why a GPU that is there cannot be used.

    threads: of the CPU. precision: see `backends.precision`; on the CPU all is float32, and "fp32" leaves out what
    rounds more than a sum of products. deterministic, autotune: see `ExecutionSettings`; of them
    the CPU knows autotune. Raises BackendError for a device that cannot be used, UsageError for a precision that there
    is none of.
    """
    name, is_default, source = _find_device(device)
    if name.type == "cuda":
        if precision == "float64":
            raise BackendError("precision float64 is computed on the CPU alone: use the device 'cpu'")
        index = name.number or 0
        settings = ExecutionSettings(_gpu_precision(precision, index), deterministic, autotune, cudnn=_uses_cudnn())
        try:
            return cuda_backend(settings, index)
        except BackendError as error:  # a library is missing, or fails
            if is_default:
                _warn_of_unused_gpu(str(error))
            elif isinstance(error, UnavailableDeviceError):
                raise error.with_advice(source) from None
            else:
                raise
    policy = resolve_precision(precision, gpu=False)
    backend = cpu(threads=threads, strict=precision in STRICT_NAMES, autotune=autotune)
    backend.precision = policy
    return backend


def _uses_cudnn() -> bool:
    """Whether PROTOTORCH_CUDNN allows cuDNN. Raises BackendError for another value than 0 and 1."""
    value = os.environ.get(CUDNN_VAR, "1") or "1"
    if value not in ("0", "1"):
        raise BackendError(f"{CUDNN_VAR}: expected 0 (the package's own kernels alone) or 1, got {value[:60]!r}")
    return value == "1"


def _find_device(device: str) -> tuple[DeviceName, bool, str]:
    """The device of a name, whether it is what "auto" means here, and where the name stands, for messages. Raises
    BackendError for what is no name of a device."""
    source = ""
    if device == "auto":
        device, source = os.environ.get(ENV_VAR) or "auto", f"{ENV_VAR}: "
    name = parse_device(device)
    if name is None:
        raise BackendError(
            f"{source}there is no device {device[:60]!r}, expected {describe_device_names()}.{suggest_device(device)}"
        )
    if name.type != "auto":
        return name, False, source
    if is_available():
        return DeviceName("cuda"), True, source
    if has_gpu():
        _warn_of_unused_gpu(unavailable_reason())
    return DeviceName("cpu"), True, source


def _warn_of_unused_gpu(why: str) -> None:
    _warn_once(f"the GPU is not used: {why}; {ENV_VAR}=cpu chooses the CPU without this warning")


def _warn_once(text: str) -> None:
    if text not in _warned:
        _warned.add(text)
        warn_user(text, RuntimeWarning)


def _gpu_precision(precision: str, index: int) -> PrecisionPolicy:
    """The precision of a name on a GPU. Raises BackendError for bf16 on a GPU that does not compute in it."""
    policy = resolve_precision(precision, gpu=True)
    driver = query_driver()
    capability = None if driver is None else driver.capability(index)
    if driver is None or capability is None or capability >= LOW_PRECISION:
        return policy
    gpu = f"{driver.name(index)} has the compute capability {capability[0]}.{capability[1]}"
    if policy.name == "bf16":
        raise BackendError(f"precision bf16 needs the compute capability 8.0 (Ampere), and {gpu}: use fp16 or fp32")
    if policy.name == "tf32":
        if precision == "tf32":
            _warn_once(f"precision tf32 needs the compute capability 8.0 (Ampere), and {gpu}: products are in float32")
        return resolve_precision("fp32", gpu=True)
    return replace(policy, tf32=False)


def cuda_backend(settings: ExecutionSettings, index: int = 0) -> Backend:
    """The backend of a GPU by its number; nothing else loads CUDA. Raises UnavailableDeviceError with what to install,
    or with the numbers that there are."""
    why = unavailable_reason() or missing_gpu_reason(index)
    if why:
        raise UnavailableDeviceError(f"the device '{f'cuda:{index}' if index else 'cuda'}' cannot be used: {why}")
    backend: Backend = importlib.import_module("prototorch.cuda.backend").get_backend(settings, index)
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
