"""NVIDIA's driver: the version of CUDA that it supports, and its GPUs; asked directly, without CuPy."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["DriverInfo", "query_driver"]

_LIBRARIES = ("libcuda.so.1", "nvcuda.dll")
_CAPABILITY_MAJOR, _CAPABILITY_MINOR = 75, 76  # attributes of cuDeviceGetAttribute
#: what cuInit returns where the library is there and the driver or the GPU is not: CUDA_ERROR_STUB_LIBRARY is that of
#: CUDA's tools without a driver
NO_DEVICE, STUB_LIBRARY = 100, 34
_INIT_ERRORS = {
    46: "CUDA_ERROR_DEVICE_UNAVAILABLE: another process has the GPU for itself",
    802: "CUDA_ERROR_SYSTEM_NOT_READY: the fabric manager does not run",
    803: "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH: the driver was updated; restart the machine",
    804: "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE: this GPU does not take the compatibility libraries of CUDA",
    999: "CUDA_ERROR_UNKNOWN: in a container, its device files (/dev/nvidia*) may be missing",
}


class DriverInfo(NamedTuple):
    """NVIDIA's driver.

    Attributes:
        version: the newest version of CUDA that it supports: 13000 is CUDA 13.0.
        gpus: the number of GPUs that this process sees (CUDA_VISIBLE_DEVICES).
        capabilities: the compute capability of each; (0, 0) where the driver does not tell it.
        names: of the GPUs.
        error: what ``cuInit`` returned; 0 where it succeeded.
    """

    version: int
    gpus: int
    capabilities: tuple[tuple[int, int], ...] = ()
    names: tuple[str, ...] = ()
    error: int = 0

    @property
    def text(self) -> str:
        """13.0."""
        return f"{self.version // 1000}.{self.version % 1000 // 10}"

    @property
    def major(self) -> int:
        """13."""
        return self.version // 1000

    @property
    def error_text(self) -> str:
        """What ``cuInit`` reports; "" where it succeeded or found no GPU."""
        if self.error in (0, NO_DEVICE, STUB_LIBRARY):
            return ""
        return _INIT_ERRORS.get(self.error, f"CUDA's error {self.error}")

    def capability(self, index: int) -> tuple[int, int] | None:
        """The compute capability of a GPU by its number; None where it is not known."""
        version = self.capabilities[index] if index < len(self.capabilities) else (0, 0)
        return version if any(version) else None

    def name(self, index: int) -> str:
        """The name of a GPU by its number."""
        return self.names[index] if index < len(self.names) else f"GPU {index}"


def query_driver(load: Callable[[str], Any] = ctypes.CDLL) -> DriverInfo | None:
    """The driver's own answer; None where no driver is installed, or a file of its name lacks its functions (a stub, a
    part of a download). Imports nothing and takes a millisecond then."""
    for name in _LIBRARIES:
        try:
            return _ask(load(name))
        except (OSError, AttributeError):
            continue
    return None


def _ask(library: Any) -> DriverInfo | None:
    """The answer of the driver's library; None for the one of CUDA's tools. Raises AttributeError where the library has
    not the driver's functions."""
    version, count = ctypes.c_int(0), ctypes.c_int(0)
    error = int(library.cuInit(0))
    if error == STUB_LIBRARY:
        return None
    library.cuDriverGetVersion(ctypes.byref(version))
    if error:
        return DriverInfo(version.value, 0, error=error)
    library.cuDeviceGetCount(ctypes.byref(count))
    gpus = range(count.value)
    return DriverInfo(
        version.value,
        count.value,
        tuple(_capability(library, i) for i in gpus),
        tuple(_gpu_name(library, i) for i in gpus),
    )


def _capability(library: Any, index: int) -> tuple[int, int]:
    numbers = ctypes.c_int(0), ctypes.c_int(0)
    for attribute, number in zip((_CAPABILITY_MAJOR, _CAPABILITY_MINOR), numbers, strict=True):
        if library.cuDeviceGetAttribute(ctypes.byref(number), attribute, index):
            return 0, 0
    return numbers[0].value, numbers[1].value


def _gpu_name(library: Any, index: int) -> str:
    buffer = ctypes.create_string_buffer(256)
    library.cuDeviceGetName(buffer, len(buffer), index)
    return buffer.value.decode(errors="replace") or f"GPU {index}"
