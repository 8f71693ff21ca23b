"""The memory of the GPUs. Where there is none, all amounts are 0."""

from __future__ import annotations

from typing import Any

from prototorch.cuda.devices import gpu_backend, is_available

__all__ = ["empty_cache", "max_memory_allocated", "mem_get_info", "memory_allocated", "memory_reserved",
           "reset_peak_memory_stats"]  # fmt: skip

_peaks: dict[int, int] = {}


def _pool(device: Any) -> Any:
    return gpu_backend(device).device.pool if is_available() else None


def memory_allocated(device: Any = None) -> int:
    """Bytes of the tensors on a GPU."""
    pool = _pool(device)
    used = 0 if pool is None else int(pool.used_bytes())
    _peaks[id(pool)] = max(used, _peaks.get(id(pool), 0))
    return used


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes that `memory_allocated` has given since the start, or since `reset_peak_memory_stats`: what was
    allocated between its calls is not counted."""
    memory_allocated(device)
    return _peaks[id(_pool(device))]


def reset_peak_memory_stats(device: Any = None) -> None:
    """Begin `max_memory_allocated` again."""
    _peaks.pop(id(_pool(device)), None)


def memory_reserved(device: Any = None) -> int:
    """Bytes that are allocated on a GPU for tensors, with those that none uses now."""
    pool = _pool(device)
    return 0 if pool is None else int(pool.total_bytes())


def empty_cache() -> None:
    """Return the memory that no tensor uses to the GPU."""
    pool = _pool(None)
    if pool is not None:
        pool.free_all_blocks()


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Free and total bytes of a GPU. Raises BackendError where it cannot be used."""
    gpu = gpu_backend(device).device
    with gpu.stream_context():
        free, total = gpu.cp.cuda.runtime.memGetInfo()
    return int(free), int(total)
