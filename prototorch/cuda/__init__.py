"""The GPUs by PyTorch's names: whether there are any, the current one, memory, random numbers; and the CUDA backend.

    device = "cuda" if pt.cuda.is_available() else "cpu"

Where there is no GPU, questions are answered (`is_available`, `device_count`, memory: 0), and what needs one raises
BackendError, which says what is missing. Nothing of CUDA is imported before a backend is created; see docs/gpu.md.
"""

from typing import Any

from prototorch.base.public_names import PublicNames

_NAMES = PublicNames(
    __name__,
    {
        "devices": "can_device_access_peer current_device device device_count get_device_capability get_device_name "
        "init is_available is_bf16_supported is_initialized set_device synchronize",
        "memory": "OutOfMemoryError empty_cache max_memory_allocated mem_get_info memory_allocated memory_reserved "
        "reset_peak_memory_stats",
        "random": "get_rng_state initial_seed manual_seed manual_seed_all seed seed_all set_rng_state",
        "tensor_types": "BFloat16Tensor BoolTensor ByteTensor CharTensor DoubleTensor FloatTensor HalfTensor IntTensor "
        "LongTensor ShortTensor",
    },
    missing={
        "Stream": "ops run in one stream for each GPU",
        "stream": "ops run in one stream for each GPU",
        "Event": "time with synchronize(), or by `prototorch time`",
        "amp": "mixed precision is that of `compile { precision: ... }` of models; cast tensors by to(dtype)",
        "graphs": "a function that `prototorch.compile` traces runs as one CUDA graph",
        "CUDAGraph": "a function that `prototorch.compile` traces runs as one CUDA graph",
        "nccl": "there is one process for each model",
    },
)
__all__ = _NAMES.names()


def __getattr__(name: str) -> Any:
    return _NAMES.get(name)


def __dir__() -> list[str]:
    return _NAMES.names()
