"""The memory of the GPUs. Where there is none, all amounts are 0."""

from __future__ import annotations

from typing import Any

from prototorch.cuda.device_protocol import MemoryUsage
from prototorch.cuda.devices import gpu_backend, is_available, resolve_index
from prototorch.errors import OutOfMemoryError

__all__ = ["OutOfMemoryError", "empty_cache", "max_memory_allocated", "mem_get_info", "memory_allocated",
           "memory_reserved", "reset_peak_memory_stats"]  # fmt: skip

_peaks: dict[int, int] = {}


def _usage(device: Any) -> MemoryUsage:
    return gpu_backend(device).device.memory_usage() if is_available() else MemoryUsage(0, 0, 0, 0)


def memory_allocated(device: Any = None) -> int:
    """Bytes of the tensors on a GPU."""
    used = _usage(device).used
    if is_available():
        index = resolve_index(device)
        _peaks[index] = max(used, _peaks.get(index, 0))
    return used


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes that `memory_allocated` has given since the start, or since `reset_peak_memory_stats`: what was
    allocated between its calls is not counted."""
    used = memory_allocated(device)
    return _peaks.get(resolve_index(device), used)


def reset_peak_memory_stats(device: Any = None) -> None:
    """Begin `max_memory_allocated` again."""
    _peaks.pop(resolve_index(device), None)


def memory_reserved(device: Any = None) -> int:
    """Bytes that are allocated on a GPU for tensors, with those that none uses now."""
    return _usage(device).reserved


def empty_cache() -> None:
    """Return the memory that no tensor uses to the GPU."""
    if is_available():
        gpu_backend(None).device.release_memory()


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Free and total bytes of a GPU. Raises BackendError where it cannot be used."""
    usage = gpu_backend(device).device.memory_usage()
    return usage.free, usage.total
