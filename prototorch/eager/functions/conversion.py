"""Element types, devices and arrays: `to`, `float()`, `cpu()`, `as_tensor`, `from_numpy`, sizes of a tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

from prototorch import ops
from prototorch.eager.device import as_device
from prototorch.eager.device_argument import is_device_argument
from prototorch.eager.dims import normalize_dim
from prototorch.eager.dtype import ALIASES, DTYPES, as_dtype
from prototorch.eager.functions.creation import tensor
from prototorch.eager.functions.transfer import transfer
from prototorch.eager.interpreter import cpu_interpreter
from prototorch.eager.registry import tensor_function, tensor_method
from prototorch.eager.tensor import Tensor
from prototorch.engine.backends.device_scope import default_device
from prototorch.errors import UsageError

__all__ = ["as_tensor", "from_numpy", "to"]


@tensor_method
def to(
    self: Tensor,
    *args: Any,
    dtype: Any = None,
    device: Any = None,
    non_blocking: bool = False,
    copy: bool = False,
    memory_format: Any = None,
) -> Any:
    """The tensor with an element type, on a device, or as another tensor is: itself where nothing changes and ``copy``
    is not set (torch.Tensor.to). ``to(pt.float64)``, ``to("cuda")``, ``to("cuda", pt.float16)``, ``to(other)``."""
    _ = non_blocking
    if str(memory_format).rpartition(".")[2] not in ("None", "contiguous_format", "preserve_format"):
        raise UsageError(f"to: the memory is in the order of the dimensions, got memory_format={memory_format}")
    for value in args:
        if isinstance(value, bool):
            continue  # non_blocking and copy by position
        if isinstance(value, Tensor):
            dtype, device = value.dtype, value.device
        elif is_device_argument(value):
            device = value
        else:
            dtype = value
    y: Any = self
    if device is not None and as_device(device) != self.device:
        y = transfer(y, as_device(device))
    if dtype is not None and as_dtype(dtype) != self.dtype:
        y = ops.cast(y, dtype=str(as_dtype(dtype)))
    if y is self and (copy or (len(args) > 2 and args[-1] is True)):
        return self.clone()
    return y


@tensor_method
def cpu(self: Tensor, memory_format: Any = None) -> Any:
    """The tensor in the memory of the CPU (torch.Tensor.cpu)."""
    return to(self, "cpu", memory_format=memory_format)


@tensor_method
def cuda(self: Tensor, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Any:
    """The tensor on a GPU: the current one, a number, or a name (torch.Tensor.cuda). Raises BackendError where there is
    none."""
    return to(self, "cuda" if device is None else as_device(device), memory_format=memory_format)


def _define_cast(name: str, dtype: str) -> None:
    def cast(self: Tensor, memory_format: Any = None) -> Any:
        return to(self, dtype=dtype, memory_format=memory_format)

    cast.__name__ = cast.__qualname__ = name
    cast.__doc__ = f"The elements as {dtype} (torch.Tensor.{name})."
    tensor_method(cast)


for _name, _dtype in {**ALIASES, "bool": "bool", "bfloat16": "bfloat16", "byte": "uint8", "char": "int8"}.items():
    _define_cast(_name, str(_dtype))

_TYPE_NAMES = {"FloatTensor": "float32", "DoubleTensor": "float64", "HalfTensor": "float16",
               "BFloat16Tensor": "bfloat16", "LongTensor": "int64", "IntTensor": "int32",
               "ShortTensor": "int16", "CharTensor": "int8", "ByteTensor": "uint8", "BoolTensor": "bool"}  # fmt: skip


@tensor_method(name="type")
def type_(self: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """Without an argument the name of the tensor's type, "torch.FloatTensor"; else the tensor of an element type, or of
    a type's name (torch.Tensor.type)."""
    if dtype is None:
        type_name = next((n for n, d in _TYPE_NAMES.items() if d == self.dtype), f"{self.dtype}Tensor")
        return f"torch.cuda.{type_name}" if self.device.type == "cuda" else f"torch.{type_name}"
    name = dtype.rpartition(".")[2] if isinstance(dtype, str) else getattr(dtype, "__name__", "")
    is_cuda = str(dtype).startswith("torch.cuda.") or getattr(dtype, "tensor_device", "cpu") == "cuda"
    return to(self, dtype=_TYPE_NAMES.get(name, dtype), device="cuda" if is_cuda else None, non_blocking=non_blocking)


@tensor_method
def type_as(self: Tensor, other: Tensor) -> Any:
    """The tensor with another one's element type and device (torch.Tensor.type_as)."""
    return to(self, other)


@tensor_function(method=False, symbolic=False)
def from_numpy(ndarray: Any) -> Tensor:
    """A tensor of the memory of a NumPy array, without a copy: changes of one are changes of the other
    (torch.from_numpy). Raises UsageError for what is no array, or has elements that there are no tensors of."""
    if not isinstance(ndarray, np.ndarray):
        raise UsageError(f"from_numpy: expected a NumPy array, got {type(ndarray).__name__}; tensor() takes sequences")
    if ndarray.dtype.name not in DTYPES or not ndarray.dtype.isnative:
        raise UsageError(f"from_numpy: there are no tensors of elements {ndarray.dtype}; cast the array first")
    return cpu_interpreter().wrap(ndarray)


@tensor_function(method=False)
def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Any:
    """Data as a tensor: a tensor itself, the memory of a NumPy array, or a copy of nested sequences
    (torch.as_tensor)."""
    if isinstance(data, Tensor):
        return to(data, dtype=dtype, device=default_device() if device is None else device)
    if isinstance(data, np.ndarray) and data.dtype.name in DTYPES and data.dtype.isnative:
        return to(from_numpy(data), dtype=dtype, device=default_device() if device is None else device)
    return tensor(data, dtype=dtype, device=device)


@tensor_function(method=False)
def asarray(
    obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None, requires_grad: bool = False
) -> Any:
    """As `as_tensor`; ``copy=True`` always copies, ``copy=False`` raises UsageError where that is needed
    (torch.asarray)."""
    y = tensor(obj, dtype=dtype, device=device) if copy else as_tensor(obj, dtype=dtype, device=device)
    if copy is False and not (y is obj or (isinstance(obj, np.ndarray) and np.shares_memory(y.numpy(), obj))):
        raise UsageError(f"asarray: a tensor of {type(obj).__name__} with these arguments needs a copy")
    if requires_grad:
        y = y.detach()
        y.requires_grad = True
    return y


@tensor_function(method=False)
def scalar_tensor(s: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    """A tensor of one number, without dimensions; float32 where no ``dtype`` is given (torch.scalar_tensor)."""
    return tensor(s, dtype=dtype if dtype is not None else "float32", device=device, requires_grad=requires_grad)


@tensor_method
def new_tensor(self: Tensor, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    """A tensor with a copy of the data, of this tensor's element type and device (torch.Tensor.new_tensor)."""
    target = self.dtype if dtype is None else dtype
    return tensor(data, dtype=target, device=self.device if device is None else device, requires_grad=requires_grad)


@tensor_function
def numel(input: Tensor) -> int:
    """The number of elements (torch.numel)."""
    return input.spec.size


@tensor_method
def nelement(self: Tensor) -> int:
    """The number of elements (torch.Tensor.nelement)."""
    return self.spec.size


@tensor_method(name="size")
def size_(self: Tensor, dim: int | None = None) -> Any:
    """The shape, or the size of one dimension (torch.Tensor.size)."""
    return self.shape if dim is None else self.shape[normalize_dim(dim, self.ndim, "size")]


@tensor_method(name="dim")
def dim_(self: Tensor) -> int:
    """The number of dimensions (torch.Tensor.dim)."""
    return self.ndim


@tensor_method(name="ndimension")
def ndimension(self: Tensor) -> int:
    """The number of dimensions (torch.Tensor.ndimension)."""
    return self.ndim


@tensor_method
def element_size(self: Tensor) -> int:
    """Bytes of an element (torch.Tensor.element_size)."""
    return self.dtype.itemsize


@tensor_function
def is_floating_point(input: Tensor) -> bool:
    """Whether the elements are floating-point numbers (torch.is_floating_point)."""
    return input.dtype.is_floating_point


@tensor_function
def is_complex(input: Tensor) -> bool:
    """Whether the elements are complex numbers: never (torch.is_complex)."""
    return False


@tensor_function(method=False)
def is_tensor(obj: Any) -> bool:
    """Whether a value is a tensor (torch.is_tensor)."""
    return isinstance(obj, Tensor)
