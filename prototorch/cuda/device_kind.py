"""GPUs of NVIDIA as devices: whether one can be used, and its backend, which alone loads CUDA."""

from __future__ import annotations

import importlib
import os
from dataclasses import replace
from typing import Any

from prototorch.cuda import availability, device_report
from prototorch.cuda.availability import LOW_PRECISION
from prototorch.engine.backends.core import Backend
from prototorch.engine.backends.devices import DeviceKind, UnavailableDeviceError, warn_once
from prototorch.engine.backends.precision import ExecutionSettings, PrecisionPolicy, resolve_precision
from prototorch.errors import BackendError

__all__ = ["CUDNN_VAR", "KIND", "cuda_backend"]

CUDNN_VAR = "PROTOTORCH_CUDNN"  # 0: without cuDNN


def cuda_backend(settings: ExecutionSettings, index: int = 0) -> Backend:
    """The backend of a GPU by its number. Raises UnavailableDeviceError with what to install, or with the numbers that
    there are."""
    why = availability.unavailable_reason() or availability.missing_gpu_reason(index)
    if why:
        raise UnavailableDeviceError(f"the device '{f'cuda:{index}' if index else 'cuda'}' cannot be used: {why}")
    backend: Backend = importlib.import_module("prototorch.cuda.backend").get_backend(settings, index)
    return backend


def _make_settings(index: int, precision: str, deterministic: bool, autotune: bool) -> ExecutionSettings:
    """See `DeviceKind.make_settings`."""
    return ExecutionSettings(_resolve_precision(precision, index), deterministic, autotune, cudnn=_uses_cudnn())


def _make_backend(settings: ExecutionSettings, index: int) -> Backend:
    return cuda_backend(settings, index)


def _uses_cudnn() -> bool:
    """Whether PROTOTORCH_CUDNN allows cuDNN. Raises BackendError for another value than 0 and 1."""
    value = os.environ.get(CUDNN_VAR, "1") or "1"
    if value not in ("0", "1"):
        raise BackendError(f"{CUDNN_VAR}: expected 0 (the package's own kernels alone) or 1, got {value[:60]!r}")
    return value == "1"


def _resolve_precision(precision: str, index: int) -> PrecisionPolicy:
    """The precision of a name on a GPU. Raises BackendError for bf16 on a GPU that does not compute in it."""
    policy = resolve_precision(precision, gpu=True)
    driver = availability.query_driver()
    capability = None if driver is None else driver.capability(index)
    if driver is None or capability is None or capability >= LOW_PRECISION:
        return policy
    gpu = f"{driver.name(index)} has the compute capability {capability[0]}.{capability[1]}"
    if policy.name == "bf16":
        raise BackendError(f"precision bf16 needs the compute capability 8.0 (Ampere), and {gpu}: use fp16 or fp32")
    if policy.name == "tf32":
        if precision == "tf32":
            warn_once(f"precision tf32 needs the compute capability 8.0 (Ampere), and {gpu}: products are in float32")
        return resolve_precision("fp32", gpu=True)
    return replace(policy, tf32=False)


def _is_available() -> bool:
    return availability.is_available()


def _unused_reason() -> str:
    """Why a GPU that the driver shows, or should show, cannot be used."""
    return availability.unavailable_reason() if availability.has_gpu() else ""


def _missing_reason(index: int) -> str:
    return availability.missing_gpu_reason(index)


def _describe() -> dict[str, Any]:
    return device_report.describe_cuda()


KIND = DeviceKind(
    name="cuda",
    is_available=_is_available,
    unused_reason=_unused_reason,
    missing_reason=_missing_reason,
    make_settings=_make_settings,
    make_backend=_make_backend,
    describe=_describe,
)
