"""What of CUDA is installed on this machine, what is missing, and the command that installs it."""

from __future__ import annotations

import ctypes
import importlib
import importlib.metadata
import importlib.util
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from prototorch.errors import BackendError

__all__ = [
    "FRONTEND",
    "REQUIREMENTS",
    "DriverInfo",
    "describe_cuda",
    "install_command",
    "is_available",
    "list_gpus",
    "missing_gpu_reason",
    "query_driver",
    "unavailable_reason",
]

#: the distributions of each library, by the major version of CUDA
CUPY = {13: "cupy-cuda13x", 12: "cupy-cuda12x"}
CUDNN = {13: "nvidia-cudnn-cu13", 12: "nvidia-cudnn-cu12"}
NCCL = {13: "nvidia-nccl-cu13", 12: "nvidia-nccl-cu12"}
FRONTEND = "nvidia-cudnn-frontend"
#: what a GPU needs, by the major version of CUDA: the extras cuda13 and cuda12 of pyproject.toml
REQUIREMENTS = {
    major: (
        f"{CUPY[major]}[ctk]>=14.2,<15", f"{CUDNN[major]}>=9.19,<10", f"{FRONTEND}>=1.18,<1.29",
    )
    for major in (13, 12)
}  # fmt: skip
_DRIVERS = ("libcuda.so.1", "nvcuda.dll")


class DriverInfo(NamedTuple):
    """NVIDIA's driver: the newest version of CUDA that it supports, and the number of GPUs."""

    version: int  # 13000 is CUDA 13.0
    gpus: int

    @property
    def text(self) -> str:
        """13.0."""
        return f"{self.version // 1000}.{self.version % 1000 // 10}"


def query_driver(load: Callable[[str], Any] = ctypes.CDLL) -> DriverInfo | None:
    """The driver's own answer; None where no driver is installed. Imports nothing and takes a millisecond then."""
    for name in _DRIVERS:
        try:
            library = load(name)
        except OSError:
            continue
        version, count = ctypes.c_int(0), ctypes.c_int(0)
        if library.cuInit(0) != 0:
            return DriverInfo(0, 0)
        library.cuDriverGetVersion(ctypes.byref(version))
        library.cuDeviceGetCount(ctypes.byref(count))
        return DriverInfo(version.value, count.value)
    return None


def is_available() -> bool:
    """Whether "auto" means the GPU: the driver shows one, and CuPy is installed."""
    return (
        importlib.util.find_spec("cupy") is not None
        and (driver_info := query_driver()) is not None
        and driver_info.gpus > 0
    )


def unavailable_reason() -> str:
    """Why no GPU can be used, and what to install; "" where one can."""
    driver_info, cupy = query_driver(), importlib.util.find_spec("cupy") is not None
    if driver_info is None:
        return "this machine has no NVIDIA driver" + (
            "" if cupy else f", and CuPy is not installed ({install_command(None)})"
        )
    if not driver_info.gpus:
        return "the NVIDIA driver shows no GPU (`nvidia-smi` tells why)"
    return "" if cupy else f"CuPy is not installed: {install_command(driver_info)}"


def missing_gpu_reason(index: int) -> str:
    """Why there is no GPU of this number, with the numbers that there are; "" where there is one."""
    driver_info = query_driver()
    if driver_info is None or index < driver_info.gpus:
        return ""
    if driver_info.gpus == 1:
        return "this machine shows one GPU, 'cuda:0'"
    return f"this machine shows {driver_info.gpus} GPUs, 'cuda:0' to 'cuda:{driver_info.gpus - 1}'"


def install_command(driver_info: DriverInfo | None) -> str:
    """The command that installs what a GPU needs, for the version of CUDA that the driver supports."""
    major = 12 if driver_info is not None and 0 < driver_info.version < 13000 else 13
    return "pip install " + " ".join(f"'{requirement}'" for requirement in REQUIREMENTS[major])


def describe_cuda() -> dict[str, Any]:
    """The report of `prototorch devices` about the GPU."""
    driver_info = query_driver()
    report: dict[str, Any] = {"in use": "no"}
    reason = unavailable_reason()
    if not reason:
        try:
            report["gpu"] = list_gpus()
        except BackendError as exc:
            reason = str(exc)
    if reason:
        report["why"] = reason
    else:
        report["in use"] = "yes, by default (compile.device)"
    report["driver"] = "none" if driver_info is None else f"for CUDA {driver_info.text}"
    report.update({name: version or "not installed" for name, version in _library_versions()})
    if driver_info is None or not driver_info.gpus:
        return report
    missing = [name for name, version in _library_versions() if version is None and name != "nccl"]
    if missing:
        report["missing"] = f"{', '.join(missing)}: {install_command(driver_info)}"
    if "cudnn" in missing or "cudnn frontend" in missing:
        report["without cudnn"] = (
            "convolutions and attention run by slow reference implementations, and not as one CUDA graph"
        )
    return report


def _library_versions() -> Iterator[tuple[str, str | None]]:
    """The libraries with their versions, None for a missing one. None of them is imported."""
    for name, distributions in (("cupy", (*CUPY.values(), "cupy")), ("cudnn", CUDNN.values()),
                                ("cudnn frontend", (FRONTEND,)), ("nccl", NCCL.values())):  # fmt: skip
        yield name, next((version for d in distributions if (version := _installed_version(d)) is not None), None)


def _installed_version(distribution: str) -> str | None:
    try:
        return f"{distribution} {importlib.metadata.version(distribution)}"
    except importlib.metadata.PackageNotFoundError:
        return None


def list_gpus() -> list[str]:
    """A line for each GPU: name, compute capability, memory. Raises BackendError where CuPy finds none, or fails."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cupy = importlib.import_module("cupy")
        if not cupy.cuda.is_available():
            raise BackendError("CuPy finds no GPU: does its version fit the driver's?")
        return _describe_gpus(cupy)
    except (ImportError, OSError, RuntimeError) as exc:
        if isinstance(exc, BackendError):
            raise
        raise BackendError(f"CuPy cannot use the GPU: {type(exc).__name__}: {exc}") from exc


def _describe_gpus(cupy: Any) -> list[str]:
    lines = []
    for i in range(cupy.cuda.runtime.getDeviceCount()):
        properties = cupy.cuda.runtime.getDeviceProperties(i)
        name = properties["name"].decode() if isinstance(properties["name"], bytes) else properties["name"]
        capability = f"sm_{properties['major']}{properties['minor']}"
        lines.append(f"{i}: {name}, {capability}, {properties['totalGlobalMem'] / 2**30:.0f} GiB")
    return lines
