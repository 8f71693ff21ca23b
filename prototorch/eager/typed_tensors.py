"""Classes of tensors by element type, from old PyTorch: ``FloatTensor(2, 3)``, ``x.type(LongTensor)``."""

from __future__ import annotations

from typing import Any

from prototorch.eager.dims import as_shape
from prototorch.eager.dtype import DTYPES, get_default_dtype
from prototorch.eager.functions.conversion import to
from prototorch.eager.functions.creation import tensor
from prototorch.eager.interpreter import interpreter_for
from prototorch.eager.tensor import Tensor
from prototorch.spec import Spec

__all__ = ["TYPED_TENSORS", "TensorType", "typed_tensors"]

_TYPES = {"FloatTensor": "float32", "DoubleTensor": "float64", "HalfTensor": "float16", "BFloat16Tensor": "bfloat16",
          "LongTensor": "int64", "IntTensor": "int32", "ShortTensor": "int16", "CharTensor": "int8",
          "ByteTensor": "uint8", "BoolTensor": "bool"}  # fmt: skip


class TensorType(type):
    """The type of `FloatTensor` and the others: their instances are the tensors of one element type on one device."""

    tensor_dtype: str
    tensor_device: str

    def __instancecheck__(cls, instance: Any) -> bool:
        return (
            isinstance(instance, Tensor)
            and instance.spec.dtype == cls.tensor_dtype
            and instance.device.type == cls.tensor_device
        )

    def __call__(cls, *args: Any) -> Any:
        """A tensor of sizes, of zeros; or of a sequence, an array or a tensor, a copy."""
        if len(args) == 1 and not isinstance(args[0], int):
            if isinstance(args[0], Tensor):
                return to(args[0].detach(), cls.tensor_device, dtype=DTYPES[cls.tensor_dtype], copy=True)
            return tensor(args[0], dtype=cls.tensor_dtype, device=cls.tensor_device)
        shape = as_shape(args, cls.__name__) if args else (0,)
        return interpreter_for(cls.tensor_device).zeros(Spec(shape, cls.tensor_dtype))


def typed_tensors(device: str) -> dict[str, TensorType]:
    """The classes of the tensors on "cpu" or "cuda", by name."""
    types = {}
    for name, dtype in _TYPES.items():
        document = f"Tensors of {dtype} on {device}, of sizes or from a sequence (a name of PyTorch before 0.4)."
        types[name] = TensorType(
            name, (), {"__doc__": document, "__module__": "prototorch" if device == "cpu" else "prototorch.cuda"}
        )
        types[name].tensor_dtype, types[name].tensor_device = dtype, device
    return types


#: those on the CPU
TYPED_TENSORS = typed_tensors("cpu")


def _new_tensor(cls: type[Tensor], *args: Any, **options: Any) -> Tensor:
    """``Tensor(2, 3)`` and ``Tensor([1, 2])``: a tensor of the default floating-point type (PyTorch's old way)."""
    if cls is not Tensor:
        return object.__new__(cls)
    result: Tensor = TYPED_TENSORS[_NAMES[get_default_dtype()]](*args, **options)
    return result


_NAMES = {dtype: name for name, dtype in _TYPES.items()}
Tensor.__new__ = _new_tensor  # type: ignore[method-assign, assignment]
