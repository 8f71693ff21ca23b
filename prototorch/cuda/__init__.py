"""The GPUs by PyTorch's names: whether there are any, the current one, memory, random numbers; and the CUDA backend.

    device = "cuda" if pt.cuda.is_available() else "cpu"

Where there is no GPU, questions are answered (`is_available`, `device_count`, memory: 0), and what needs one raises
BackendError, which says what is missing. Nothing of CUDA is imported before a backend is created; see docs/gpu.md.
"""

from __future__ import annotations

import importlib
from typing import Any

from prototorch.errors import did_you_mean

#: module of this package -> its public names, which are loaded when they are first used
_PUBLIC = {
    "devices": (
        "can_device_access_peer", "current_device", "device", "device_count", "get_device_capability",
        "get_device_name", "init", "is_available", "is_bf16_supported", "is_initialized", "set_device", "synchronize",
    ),
    "memory": (
        "empty_cache", "max_memory_allocated", "mem_get_info", "memory_allocated", "memory_reserved",
        "reset_peak_memory_stats",
    ),
    "random": (
        "get_rng_state", "initial_seed", "manual_seed", "manual_seed_all", "seed", "seed_all", "set_rng_state",
    ),
    "tensor_types": (
        "BFloat16Tensor", "BoolTensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor", "HalfTensor",
        "IntTensor", "LongTensor", "ShortTensor",
    ),
}  # fmt: skip
_MODULE_OF = {name: module for module, names in _PUBLIC.items() for name in names}
_MISSING = {
    "Stream": "ops run in one stream for each GPU",
    "stream": "ops run in one stream for each GPU",
    "Event": "time with synchronize(), or by `prototorch time`",
    "amp": "mixed precision is that of `compile { precision: ... }` of models; cast tensors by to(dtype)",
    "graphs": "a function that `prototorch.compile` traces runs as one CUDA graph",
    "CUDAGraph": "a function that `prototorch.compile` traces runs as one CUDA graph",
    "nccl": "there is one process for each model",
}

__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        reason = _MISSING.get(name)
        hint = f": {reason}" if reason else f".{did_you_mean(name, __all__)}"
        raise AttributeError(f"prototorch.cuda.{name} does not exist{hint}")
    value = getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
