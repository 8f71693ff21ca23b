"""What `Module.to` does to each tensor: another device, another element type, or both."""

from __future__ import annotations

from typing import Any

from prototorch import ops
from prototorch.eager.device import Device, as_device
from prototorch.eager.device_argument import is_device_argument
from prototorch.eager.dtype import DType, as_dtype
from prototorch.eager.interpreter import interpreter_for
from prototorch.eager.tensor import Tensor
from prototorch.errors import UsageError

__all__ = ["TensorConversion"]


class TensorConversion:
    """Moves a tensor to a device and casts its elements; None leaves them.

    casts_all: whether integers are cast, too, and not floating-point elements alone.
    """

    def __init__(self, device: Any = None, dtype: Any = None, casts_all: bool = False):
        self.device: Device | None = None if device is None else as_device(device)
        self.dtype: DType | None = None if dtype is None else as_dtype(dtype)
        self.casts_all = casts_all
        if self.dtype is not None and not self.dtype.is_floating_point and not casts_all:
            raise UsageError(f"to: a module is cast to a floating-point type, not to {self.dtype!r}")

    @classmethod
    def parse(
        cls,
        *args: Any,
        device: Any = None,
        dtype: Any = None,
        tensor: Any = None,
        non_blocking: bool = False,
        memory_format: Any = None,
    ) -> TensorConversion:
        """The conversion that the arguments of PyTorch's ``to`` name."""
        if memory_format is not None:
            raise UsageError("to: memory_format is not an argument here: the layout of images is chosen by the plan")
        for value in args:
            if isinstance(value, Tensor):
                tensor = value
            elif isinstance(value, bool):
                continue  # non_blocking
            elif is_device_argument(value):
                device = value
            elif value is not None:
                dtype = value
        if tensor is not None:
            device, dtype = tensor.device, tensor.dtype
        return cls(device, dtype)

    def __call__(self, tensor: Tensor) -> Tensor:
        """The tensor itself where it is so already."""
        if self.dtype is not None and tensor.dtype != self.dtype and (self.casts_all or tensor.spec.is_float):
            tensor = ops.cast(tensor, dtype=str(self.dtype))
        if self.device is not None and tensor.device != self.device:
            tensor = interpreter_for(self.device).constant(tensor.numpy())
        return tensor
