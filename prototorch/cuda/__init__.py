"""The GPUs by PyTorch's names: whether there are any, the current one, memory, random numbers.

    device = "cuda" if pt.cuda.is_available() else "cpu"

Where there is no GPU, questions are answered (`is_available`, `device_count`, memory: 0), and what needs one raises
BackendError, which says what is missing.
"""

from typing import NoReturn

from prototorch.cuda.devices import (
    can_device_access_peer,
    current_device,
    device,
    device_count,
    get_device_capability,
    get_device_name,
    init,
    is_available,
    is_bf16_supported,
    is_initialized,
    set_device,
    synchronize,
)
from prototorch.cuda.memory import (
    empty_cache,
    max_memory_allocated,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    reset_peak_memory_stats,
)
from prototorch.cuda.random import (
    get_rng_state,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
)
from prototorch.eager.typed_tensors import typed_tensors
from prototorch.errors import did_you_mean

_TYPES = typed_tensors("cuda")
globals().update(_TYPES)

__all__ = [
    *_TYPES,
    "can_device_access_peer",
    "current_device",
    "device",
    "device_count",
    "empty_cache",
    "get_device_capability",
    "get_device_name",
    "get_rng_state",
    "init",
    "initial_seed",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_rng_state",
    "synchronize",
]
_MISSING = {
    "Stream": "ops run in one stream for each GPU",
    "stream": "ops run in one stream for each GPU",
    "Event": "time with synchronize(), or by `prototorch time`",
    "amp": "mixed precision is that of `compile { precision: ... }` of models; cast tensors by to(dtype)",
    "graphs": "a function that `prototorch.compile` traces runs as one CUDA graph",
    "CUDAGraph": "a function that `prototorch.compile` traces runs as one CUDA graph",
    "nccl": "there is one process for each model",
}


def __getattr__(name: str) -> NoReturn:
    reason = _MISSING.get(name)
    hint = f": {reason}" if reason else f".{did_you_mean(name, __all__)}"
    raise AttributeError(f"prototorch.cuda.{name} does not exist{hint}")


def __dir__() -> list[str]:
    return __all__
