"""Which GPUs there are, and which one is meant by "cuda"."""

from __future__ import annotations

from typing import Any

from prototorch.cuda import availability
from prototorch.eager.device import Device, as_device, current_gpu
from prototorch.eager.interpreter import interpreter_for
from prototorch.errors import BackendError, UsageError

__all__ = ["can_device_access_peer", "current_device", "device", "device_count", "get_device_capability",
           "get_device_name", "gpu_backend", "init", "is_available", "is_bf16_supported", "is_initialized",
           "resolve_index", "set_device", "synchronize"]  # fmt: skip


def is_available() -> bool:
    """Whether a GPU can be used."""
    return availability.is_available()


def device_count() -> int:
    """The number of GPUs that can be used."""
    if not is_available():
        return 0
    info = availability.query_driver()
    return 0 if info is None else info.gpus


def init() -> None:
    """Start the GPU now. Raises BackendError where there is none."""
    gpu_backend(None)


def is_initialized() -> bool:
    """Whether a GPU can be used; it is started at the first use."""
    return is_available()


def resolve_index(device: Any) -> int:
    """The number of a GPU: of None the current one. Raises UsageError for the CPU."""
    if device is None:
        return current_gpu.get()
    resolved = as_device(device)
    if resolved.type != "cuda":
        raise UsageError(f"expected a GPU such as 'cuda:0', got {str(resolved)!r}")
    return current_gpu.get() if resolved.index is None else resolved.index


def gpu_backend(device: Any) -> Any:
    """The backend of a GPU. Raises BackendError where it cannot be used."""
    return interpreter_for(Device("cuda", resolve_index(device))).backend


def current_device() -> int:
    """The number of the GPU that "cuda" means. Raises BackendError where there is none."""
    why = availability.unavailable_reason()
    if why:
        raise BackendError(f"there is no current GPU: {why}")
    return current_gpu.get()


def set_device(device: Any) -> None:
    """Choose the GPU that "cuda" means, by number or name; a negative number changes nothing."""
    if isinstance(device, int) and device < 0:
        return
    index = resolve_index(device)
    gpu_backend(index)
    current_gpu.set(index)


class device:
    """A context in which "cuda" means a GPU; None and negative numbers change nothing."""

    def __init__(self, device: Any):
        self.idx = -1 if device is None or (isinstance(device, int) and device < 0) else resolve_index(device)
        self._tokens: list[Any] = []

    def __enter__(self) -> None:
        if self.idx >= 0:
            gpu_backend(self.idx)
        self._tokens.append(current_gpu.set(self.idx if self.idx >= 0 else current_gpu.get()))

    def __exit__(self, *_: object) -> None:
        current_gpu.reset(self._tokens.pop())


def get_device_name(device: Any = None) -> str:
    """The name of a GPU. Raises BackendError where it cannot be used."""
    return str(gpu_backend(device).device.name)


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The compute capability of a GPU, such as (9, 0). Raises BackendError where it cannot be used."""
    major, minor = gpu_backend(device).device.capability
    return int(major), int(minor)


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether the current GPU computes in bfloat16; False where there is none."""
    return is_available() and get_device_capability() >= (8, 0)


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    """Whether one GPU reads another one's memory: not here, tensors move by the memory of the host."""
    resolve_index(device), resolve_index(peer_device)
    return False


def synchronize(device: Any = None) -> None:
    """Wait until a GPU has done all that it was given.

    Raises BackendError where it cannot be used, and the error of an earlier call whose plan has read a value outside of
    its bounds (IndexRangeError, UsageError).
    """
    backend = gpu_backend(device)
    gpu = backend.device
    event = gpu.create_event()
    gpu.record_event(event, gpu.compute_stream)
    gpu.synchronize_event(event)
    backend.raise_value_errors()
