"""What a tensor is: its device, its memory, its kind, by PyTorch's names."""

from __future__ import annotations

from typing import Any

from prototorch.eager.interpreter import cpu_interpreter, interpreter_for
from prototorch.eager.operands import cast_to
from prototorch.eager.registry import tensor_function, tensor_method
from prototorch.eager.storage import Storage
from prototorch.eager.tensor import Tensor
from prototorch.errors import BackendError, ShapeError, UsageError
from prototorch.ops.reduce import sum_to

__all__ = ["is_nonzero", "is_same_size", "is_signed"]


def _attribute(name: str, doc: str, value: Any) -> None:
    def get(self: Tensor) -> Any:
        return value(self)

    get.__doc__ = f"{doc} (torch.Tensor.{name})."
    setattr(Tensor, name, property(get))


_attribute("is_cuda", "Whether the elements are in a GPU's memory", lambda x: x.device.type == "cuda")
_attribute("is_cpu", "Whether the elements are in the CPU's memory", lambda x: x.device.type == "cpu")
_attribute("itemsize", "Bytes of an element", lambda x: x.dtype.itemsize)
_attribute("nbytes", "Bytes of all elements", lambda x: x.spec.size * x.dtype.itemsize)
for _name in ("is_sparse", "is_quantized", "is_nested", "is_meta", "is_mkldnn", "is_mps", "is_xla", "is_sparse_csr"):
    _attribute(_name, "False: there are dense tensors on the CPU and on GPUs alone", lambda x: False)


@tensor_function
def is_nonzero(input: Tensor) -> bool:
    """Whether the only element is not 0 (torch.is_nonzero). Raises UsageError for more elements, or none."""
    if input.spec.size != 1:
        raise UsageError(f"is_nonzero: expected one element, got shape {list(input.shape)}")
    return bool(input)


@tensor_function
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same shape (torch.is_same_size)."""
    return tuple(input.shape) == tuple(other.shape)


@tensor_function
def is_signed(input: Tensor) -> bool:
    """Whether the elements can be negative (torch.is_signed)."""
    return input.dtype.is_signed


@tensor_method
def get_device(self: Tensor) -> int:
    """The number of the GPU, -1 for the CPU (torch.Tensor.get_device)."""
    return -1 if self.device.type == "cpu" else int(self.device.index or 0)


@tensor_method
def data_ptr(self: Tensor) -> int:
    """The address of the first element (torch.Tensor.data_ptr)."""
    pointer = getattr(self.array.data, "ptr", None)  # CuPy's
    return int(self.array.ctypes.data if pointer is None else pointer)


@tensor_method
def storage_offset(self: Tensor) -> int:
    """Elements before the first one in the memory that the tensor is a view of (torch.Tensor.storage_offset)."""
    base = self._base
    return 0 if base is None else (data_ptr(self) - data_ptr(base)) // self.dtype.itemsize


@tensor_method
def pin_memory(self: Tensor) -> Tensor:
    """A copy in page-locked memory, from which a GPU copies while the host goes on; the tensor itself where it is there
    or on a GPU, and where there is no GPU, which needs no such memory (torch.Tensor.pin_memory)."""
    if self.storage.is_pinned or self.device.type != "cpu":
        return self
    try:
        gpu = interpreter_for("cuda")
    except BackendError:
        return self
    memory = gpu.backend.batch_memory.empty(tuple(self.shape), self.array.dtype)
    if memory is None:
        return self
    memory[...] = self.numpy()
    return cpu_interpreter().wrap(memory, Storage(is_pinned=True))


@tensor_method
def is_pinned(self: Tensor) -> bool:
    """Whether the tensor is in page-locked memory (torch.Tensor.is_pinned)."""
    return self.storage.is_pinned


@tensor_method
def is_shared(self: Tensor) -> bool:
    """Whether other processes share the memory: False (torch.Tensor.is_shared)."""
    return False


@tensor_method
def sum_to_size(self: Tensor, *size: Any) -> Any:
    """The sum over the dimensions along which ``size`` would be broadcast to this shape (torch.Tensor.sum_to_size)."""
    shape = tuple(size[0]) if len(size) == 1 and isinstance(size[0], tuple | list) else tuple(size)
    extra = self.ndim - len(shape)
    if extra < 0 or any(n not in (1, m) for n, m in zip(shape, self.shape[extra:], strict=True)):
        raise ShapeError(f"sum_to_size: {list(shape)} does not broadcast to {list(self.shape)}")
    if shape and shape == tuple(self.shape):
        return self
    return sum_to(self if self.spec.is_float else cast_to(self, "int64"), shape)


@tensor_method
def fill_diagonal_(self: Tensor, fill_value: Any, wrap: bool = False) -> Any:
    """Overwrite the main diagonal with a number (torch.Tensor.fill_diagonal_). Raises UsageError for ``wrap`` and for
    other tensors than matrices."""
    if wrap or self.ndim != 2:
        raise UsageError(f"fill_diagonal_: expected a matrix and wrap=False, got shape {list(self.shape)}, wrap={wrap}")
    self.diagonal().copy_(cast_to(fill_value, self.dtype, self, checked="fill_diagonal_"))
    return self
