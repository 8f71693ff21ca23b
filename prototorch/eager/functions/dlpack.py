"""Exchange of tensors with other packages by DLPack, without a copy: NumPy, PyTorch, CuPy, JAX."""

from __future__ import annotations

from typing import Any

import numpy as np

from prototorch.eager.device import as_device
from prototorch.eager.dtype import DTYPES
from prototorch.eager.interpreter import interpreter_for
from prototorch.eager.registry import tensor_function, tensor_method
from prototorch.eager.tensor import Tensor
from prototorch.errors import GradientError, UsageError

__all__ = ["from_dlpack"]

_CPU, _CUDA, _CUDA_HOST = 1, 2, 3  # DLPack's numbers of kinds of devices


@tensor_method(name="__dlpack__")
def _dlpack(
    self: Tensor, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
) -> Any:
    """A DLPack capsule of the memory of the tensor, for ``from_dlpack`` of another package.

    Raises GradientError for a tensor that requires a gradient (take detach()), UsageError for elements that DLPack, or
    NumPy's form of it, does not have.
    """
    if self.requires_grad:
        raise GradientError("__dlpack__: a tensor that requires a gradient is not exchanged; take detach()")
    options = {"max_version": max_version, "dl_device": dl_device, "copy": copy}
    set_options = {k: v for k, v in options.items() if v is not None}
    try:
        return self.array.__dlpack__(stream=stream, **set_options)
    except (BufferError, TypeError, ValueError, NotImplementedError) as exc:
        raise UsageError(f"__dlpack__: a tensor {self.spec} on {self.device} cannot be exchanged: {exc}") from None


@tensor_method(name="__dlpack_device__")
def _dlpack_device(self: Tensor) -> tuple[int, int]:
    """The kind and the number of the device, as DLPack has them."""
    kind, number = self.array.__dlpack_device__()
    return int(kind), int(number)


@tensor_function(method=False, symbolic=False)
def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor of the memory of another package's array, which has ``__dlpack__``: changes of one are changes of the
    other.

    device: of the result; default that of the array. copy: True for memory of its own, False to refuse where a copy is
    needed. Raises UsageError for what is no such array, or has elements that there are no tensors of.
    """
    if not hasattr(ext_tensor, "__dlpack__") or not hasattr(ext_tensor, "__dlpack_device__"):
        raise UsageError(f"from_dlpack: expected an array with __dlpack__, got {type(ext_tensor).__name__}")
    kind, number = ext_tensor.__dlpack_device__()
    if int(kind) not in (_CPU, _CUDA, _CUDA_HOST):
        raise UsageError(f"from_dlpack: the array is on a device of kind {int(kind)}; there are the CPU and CUDA")
    source = interpreter_for("cpu" if int(kind) != _CUDA else f"cuda:{number}")
    try:
        with source.backend.run_context():  # the array's package lets the current stream wait for its own work
            array = source.backend.xp.from_dlpack(ext_tensor)
    except (BufferError, RuntimeError, TypeError, ValueError) as exc:
        raise UsageError(f"from_dlpack: the array of a {type(ext_tensor).__name__} cannot be taken: {exc}") from None
    if array.dtype.name not in DTYPES:
        raise UsageError(f"from_dlpack: there are no tensors of elements {array.dtype}")
    if isinstance(array, np.ndarray) and not array.flags.writeable:
        if copy is False:
            raise UsageError("from_dlpack: the array is read-only, and tensors are changed in place; let it be copied")
        array = array.copy()
    elif copy:
        array = source.copy_array(array)
    result = source.wrap(array)
    if device is None or as_device(device) == result.device:
        return result
    if copy is False:
        raise UsageError(f"from_dlpack: the array is on {result.device}; on {as_device(device)} it would be a copy")
    moved: Tensor = result.to(device)
    return moved
