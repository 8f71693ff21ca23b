"""Backends by the name of a device, and what this machine has."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from prototorch.base.index import Extension, load_extensions
from prototorch.engine.backends.core import Backend
from prototorch.engine.backends.cpu import LEVELS, cpu, native
from prototorch.engine.backends.device_name import DeviceName, describe_device_names, parse_device, suggest_device
from prototorch.engine.backends.precision import STRICT_NAMES, ExecutionSettings, resolve_precision
from prototorch.errors import BackendError, warn_user

__all__ = [
    "ENV_VAR",
    "DeviceKind",
    "UnavailableDeviceError",
    "backend_for",
    "describe_devices",
    "missing_device_reason",
    "warn_once",
]

ENV_VAR = "PROTOTORCH_DEVICE"  # what "auto" means
_warned: set[str] = set()


@dataclass(frozen=True)
class DeviceKind(Extension):
    """A kind of devices beside the CPU: "auto" means one where it can be used.

    name: as in "cuda" and "cuda:1". is_available: whether there is one that can be used. unused_reason: why one that is
    there cannot be used, "" where there is none. missing_reason: why there is no device of a number, "" where there is.
    make_settings: of a number, the precision, and `deterministic` and `autotune` as of `backend_for`; raises
    BackendError for what the device does not have. make_backend: the backend of a number; raises
    `UnavailableDeviceError`, and BackendError where a library fails. describe: what `prototorch devices` shows.
    """

    name: str
    is_available: Callable[[], bool]
    unused_reason: Callable[[], str]
    missing_reason: Callable[[int], str]
    make_settings: Callable[[int, str, bool, bool], ExecutionSettings]
    make_backend: Callable[[ExecutionSettings, int], Backend]
    describe: Callable[[], dict[str, Any]]


class UnavailableDeviceError(BackendError):
    """A GPU that this machine has not, or cannot use."""

    def with_advice(self, source: str) -> UnavailableDeviceError:
        """The error with what to choose instead; source: the variable that chose the device, "" for an argument."""
        advice = f"or unset {ENV_VAR}, or set it to cpu" if source else "or use 'cpu'"
        return type(self)(f"{source}{self}; {advice}")


def backend_for(
    device: str = "auto",
    threads: int | None = None,
    precision: str = "auto",
    deterministic: bool = False,
    autotune: bool = False,
) -> Backend:
    """The backend of a device: "cpu", "cuda", "cuda:1", or "auto": the environment variable PROTOTORCH_DEVICE,
    else a GPU where one can be used, else the CPU; a warning says once why a GPU that is there cannot be used.

    threads: of the CPU. precision: see `backends.precision`; on the CPU all is float32, and "fp32" leaves out what
    rounds more than a sum of products. deterministic, autotune: see `ExecutionSettings`; of them
    the CPU knows autotune. Raises BackendError for a device that cannot be used, UsageError for a precision that there
    is none of.
    """
    name, is_default, source = _find_device(device)
    if name.type != "cpu":
        if precision == "float64":
            raise BackendError("precision float64 is computed on the CPU alone: use the device 'cpu'")
        kind, index = _kind_of(name), name.number or 0
        settings = kind.make_settings(index, precision, deterministic, autotune)
        try:
            return kind.make_backend(settings, index)
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


def missing_device_reason(name: DeviceName) -> str:
    """Why this machine has no device of a name, such as "cuda:1"; "" where it has it."""
    return "" if name.type in ("auto", "cpu") else _kind_of(name).missing_reason(name.number or 0)


def _kinds() -> list[DeviceKind]:
    return load_extensions(DeviceKind)


def _kind_of(name: DeviceName) -> DeviceKind:
    return next(kind for kind in _kinds() if kind.name == name.type)


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
    for kind in _kinds():
        if kind.is_available():
            return DeviceName(kind.name), True, source
        if reason := kind.unused_reason():
            _warn_of_unused_gpu(reason)
    return DeviceName("cpu"), True, source


def _warn_of_unused_gpu(why: str) -> None:
    warn_once(f"the GPU is not used: {why}; {ENV_VAR}=cpu chooses the CPU without this warning")


def warn_once(text: str) -> None:
    """Issue a RuntimeWarning, the first time that it has this text."""
    if text not in _warned:
        _warned.add(text)
        warn_user(text, RuntimeWarning)


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
        **{kind.name: kind.describe() for kind in _kinds()},
    }
