"""The report of `prototorch devices` about the GPUs: what is installed, what is missing, and what mends it."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterator
from typing import Any

from prototorch.cuda.availability import (
    LOW_PRECISION,
    MIN_CAPABILITY,
    cudnn_problem,
    find_problem,
    gpu_problem,
    query_driver,
)
from prototorch.cuda.cudart import CUDART_PACKAGES, load_cudart
from prototorch.cuda.driver import DriverInfo
from prototorch.cuda.packages import CUDNN, FRONTEND, NCCL, NVRTC, Package, cupy_packages, find_packages
from prototorch.errors import BackendError

__all__ = ["describe_cuda", "list_gpus"]

WITHOUT_CUDNN = "convolutions run by the package's own kernels, which are slower, and attention as products"


def describe_cuda() -> dict[str, Any]:
    """The report. The command that mends what is wrong is the entry "to mend"."""
    driver, cupy = query_driver(), cupy_packages()
    report: dict[str, Any] = {"in use": "no"}
    problem = find_problem(driver, cupy)
    reason, command = ("", "") if problem is None else problem
    if problem is None:
        try:
            report["gpu"] = list_gpus()
        except BackendError as exc:
            reason = str(exc)
    if reason:
        report["why"] = reason
    else:
        report["in use"] = "yes, by default (compile.device)"
    report["driver"] = "none" if driver is None else f"for CUDA {driver.text}"
    report.update(_describe_libraries(cupy))
    if driver is not None and driver.gpus:
        report.update(_describe_gaps(driver, cupy, reason, command))
    return report


def _describe_libraries(cupy: tuple[Package, ...]) -> Iterator[tuple[str, str]]:
    """The libraries with their versions. None of them is imported."""
    yield "cupy", ", ".join(map(str, cupy)) or "not installed"
    for name, distributions in (("nvrtc", NVRTC), ("cuda runtime", CUDART_PACKAGES), ("cudnn", CUDNN), ("nccl", NCCL)):
        yield name, ", ".join(map(str, find_packages(*distributions.values()))) or "not installed"
    yield "cudnn frontend", ", ".join(map(str, find_packages(FRONTEND))) or "not installed"


def _describe_gaps(
    driver: DriverInfo, cupy: tuple[Package, ...], reason: str, command: str
) -> Iterator[tuple[str, str]]:
    """What a machine with a GPU lacks, and the one command that mends it."""
    old = [str(gap) for k in range(driver.gpus) if (gap := gpu_problem(driver, k)) is not None]
    if old and not reason:
        yield "not used", "; ".join(old)
    capabilities = ((k, driver.capability(k) or LOW_PRECISION) for k in range(driver.gpus))
    coarse = [driver.name(k) for k, capability in capabilities if MIN_CAPABILITY <= capability < LOW_PRECISION]
    if coarse:
        yield "precision", f"{', '.join(coarse)}: fp32 and fp16; bf16 and tf32 need the compute capability 8.0 (Ampere)"
    problem = cudnn_problem(driver, cupy)
    if problem is not None:
        yield "cudnn is not used", problem.reason
        yield "without cudnn", WITHOUT_CUDNN
        command = command if reason else problem.command  # no package mends another driver or GPU
    elif not reason:
        try:
            yield "cuda runtime library", load_cudart()
        except BackendError as exc:
            yield "attention is slow", str(exc)
    if command:
        yield "to mend", command


def list_gpus() -> list[str]:
    """A line for each GPU: name, compute capability, memory. Raises BackendError where CuPy finds none, or fails."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cupy = importlib.import_module("cupy")
        if not cupy.cuda.is_available():
            raise BackendError("CuPy finds no GPU: does its version fit the driver's?")
        return _describe_gpus(cupy)
    except BackendError:
        raise
    except Exception as exc:  # whatever a damaged package raises: the report shows it
        raise BackendError(
            f"CuPy cannot use the GPU: {type(exc).__name__}: {' '.join(str(exc).split())[:300]}"
        ) from exc


def _describe_gpus(cupy: Any) -> list[str]:
    lines = []
    for i in range(cupy.cuda.runtime.getDeviceCount()):
        properties = cupy.cuda.runtime.getDeviceProperties(i)
        name = properties["name"].decode() if isinstance(properties["name"], bytes) else properties["name"]
        capability = f"sm_{properties['major']}{properties['minor']}"
        lines.append(f"{i}: {name}, {capability}, {properties['totalGlobalMem'] / 2**30:.0f} GiB")
    return lines
