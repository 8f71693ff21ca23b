"""The names in PyTorch's weight files, and the tensors that they describe (torch/_utils.py, torch 0.1 to 2.13)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from prototorch.interop.element_types import is_known_dtype, stored_dtype
from prototorch.interop.readers.torch_pickle import PickleError, add_pairs

__all__ = ["StorageRef", "StorageType", "TensorRef", "TorchDType", "reduce_object", "resolve_name"]

MAX_DIMENSIONS = 64
_MAX_EXPANDED = 1 << 20  # elements of a tensor that repeats those of its storage (stride 0)


@dataclass(frozen=True, slots=True)
class TorchDType:
    """``torch.float32``, by its name."""

    name: str


@dataclass(frozen=True, slots=True)
class StorageType:
    """``torch.FloatStorage``, by the name of its elements."""

    dtype: str


@dataclass(frozen=True, slots=True)
class StorageRef:
    """Elements in the file: ``count`` of them from element ``start`` of the storage ``key`` on."""

    key: str
    dtype: str
    count: int
    start: int = 0

    @property
    def size(self) -> int:
        """Of its elements in the file, in bytes; 1 for each of a type that is not read."""
        return self.count * (stored_dtype(self.dtype).itemsize if is_known_dtype(self.dtype) else 1)


@dataclass(frozen=True, slots=True)
class TensorRef:
    """A view of a storage; offset and strides in elements, checked to be within it."""

    storage: StorageRef
    dtype: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def span(self) -> tuple[int, int]:
        """The first element in the storage, and the one behind the last."""
        if 0 in self.shape:
            return self.offset, self.offset
        return self.offset, self.offset + 1 + sum(s * (n - 1) for s, n in zip(self.strides, self.shape, strict=True))


@dataclass(frozen=True, slots=True)
class _Name:
    """What can be called, or stands beside arguments."""

    name: str


_STORAGES = {
    "Double": "float64", "Float": "float32", "Half": "float16", "BFloat16": "bfloat16", "Long": "int64", "Int": "int32",
    "Short": "int16", "Char": "int8", "Byte": "uint8", "Bool": "bool", "ComplexFloat": "complex64",
    "ComplexDouble": "complex128", "QInt8": "qint8", "QInt32": "qint32", "QUInt8": "quint8", "QUInt4x2": "quint4x2",
    "QUInt2x4": "quint2x4",
}  # fmt: skip
_DTYPES = {
    "bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64",
    "bfloat16", "complex32", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz",
    "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn_x2", "qint8", "qint32", "quint8", "quint4x2", "quint2x4",
}  # fmt: skip
#: classes that stand beside other arguments and are never made
_CLASSES = {
    "torch.Tensor", "torch._tensor.Tensor", "torch.nn.parameter.Parameter", "torch.nn.parameter.Buffer",
    "builtins.int", "builtins.float", "builtins.list", "builtins.dict", "builtins.set",
}  # fmt: skip
#: members of enumerations, which stand for themselves
_ENUMERATIONS = {
    "torch.strided", "torch.sparse_coo", "torch.contiguous_format", "torch.preserve_format", "torch.channels_last",
    "torch.per_tensor_affine", "torch.per_channel_affine",
}  # fmt: skip


def resolve_name(name: str) -> Any:
    """The meaning of a name in a pickle; None for every name that has none here."""
    name = name.replace("__builtin__.", "builtins.", 1) if name.startswith("__builtin__.") else name
    if name in _FUNCTIONS or name in _CLASSES:
        return _Name(name)
    module, _, last = name.rpartition(".")
    if module in ("torch", "torch.cuda") and last.removesuffix("Storage") in _STORAGES and last.endswith("Storage"):
        return StorageType(_STORAGES[last.removesuffix("Storage")])
    if name in ("torch.storage.UntypedStorage", "torch.UntypedStorage"):
        return StorageType("uint8")
    if module == "torch" and last in _DTYPES:
        return TorchDType(last)
    if name in _ENUMERATIONS:
        return last
    return None


def reduce_object(function: Any, arguments: tuple[Any, ...]) -> Any:
    """The value of a call of a name with arguments. Raises PickleError."""
    builder = _FUNCTIONS.get(function.name) if type(function) is _Name else None
    if builder is None:
        raise PickleError(f"the pickle calls {getattr(function, 'name', type(function).__name__)}")
    try:
        return builder(*arguments)
    except TypeError:
        raise PickleError(f"the pickle calls {function.name} with {len(arguments)} arguments of wrong types") from None


def _make_tensor(
    storage: Any,
    offset: Any,
    shape: Any,
    strides: Any,
    requires_grad: Any = False,
    hooks: Any = None,
    metadata: Any = None,
) -> TensorRef:
    return _check_tensor(storage, None, offset, shape, strides, metadata)


def _make_tensor_v3(
    storage: Any,
    offset: Any,
    shape: Any,
    strides: Any,
    requires_grad: Any,
    hooks: Any,
    dtype: Any,
    metadata: Any = None,
) -> TensorRef:
    if type(dtype) is not TorchDType:
        raise PickleError("a tensor's dtype is none")
    return _check_tensor(storage, dtype.name, offset, shape, strides, metadata)


def _check_tensor(
    storage: Any, dtype: str | None, offset: Any, shape: Any, strides: Any, metadata: Any = None
) -> TensorRef:
    if type(storage) is not StorageRef:
        raise PickleError("a tensor's storage is none")
    dtype = storage.dtype if dtype is None else dtype
    if not is_known_dtype(dtype):
        raise PickleError(f"a tensor of {dtype}, which is not read: save it dequantized, or as float32")
    for numbers in (shape, strides, (offset,)):
        if type(numbers) is not tuple or len(numbers) > MAX_DIMENSIONS:
            raise PickleError("a tensor's shape or strides are no tuple of integers")
        if not all(type(number) is int and 0 <= number < 1 << 60 for number in numbers):
            raise PickleError(f"a tensor of shape {str(shape)[:60]} has the offset or strides {str(numbers)[:60]}")
    if len(shape) != len(strides):
        raise PickleError(f"a tensor of shape {_shape_text(shape)} has {len(strides)} strides")
    if isinstance(metadata, Mapping) and any(metadata.get(flag) for flag in ("conj", "neg")):
        raise PickleError("a tensor that is lazily conjugated or negated: save tensor.resolve_conj().resolve_neg()")
    count = storage.count * stored_dtype(storage.dtype).itemsize // stored_dtype(dtype).itemsize
    tensor = TensorRef(storage, dtype, offset, shape, strides)
    if tensor.span[1] > count:
        end = tensor.span[1]
        raise PickleError(f"a tensor of shape {_shape_text(shape)} ends at element {end:,} of a storage with {count:,}")
    if prod(max(n, 1) for n in shape) > max(count, _MAX_EXPANDED):
        text = _shape_text(shape)
        raise PickleError(f"a tensor of shape {text} repeats the {count:,} elements of its storage: save a .clone()")
    return tensor


def _shape_text(shape: tuple[int, ...]) -> str:
    """A shape in a message, of at most 100 characters."""
    return str(list(shape))[:100]


def _take_parameter(data: Any, *rest: Any) -> TensorRef:
    if type(data) is not TensorRef or len(rest) > 3:
        raise PickleError("a parameter that is no tensor")
    return data


def _take_subclass(function: Any, cls: Any, arguments: Any, state: Any) -> Any:
    """A tensor with attributes of its own, which are left out."""
    if type(cls) is not _Name or type(arguments) is not tuple or type(function) is not _Name:
        raise PickleError("a tensor of a subclass that is none")
    if not function.name.startswith(("torch._utils._rebuild_tensor", "torch._utils._rebuild_parameter")):
        raise PickleError(f"a tensor of a subclass that calls {function.name}")
    return reduce_object(function, arguments)


def _make_pairs(pairs: Any = ()) -> dict[Any, Any]:
    if isinstance(pairs, dict):
        return dict(pairs)
    values: list[Any] = []
    for pair in pairs:
        if type(pair) not in (tuple, list) or len(pair) != 2:
            raise PickleError("an OrderedDict of what are no pairs")
        values += pair
    return add_pairs({}, values)


def _make_default_dict(factory: Any = None, pairs: Any = ()) -> dict[Any, Any]:
    return _make_pairs(pairs)


def _make_list(values: Any = ()) -> list[Any]:
    if type(values) not in (list, tuple):
        raise PickleError("a set or list of what is no list")
    return list(values)


def _make_size(values: Any = ()) -> tuple[Any, ...]:
    return tuple(_make_list(values))


def _make_text(*values: Any) -> Any:
    """A device, or bytes as protocol 2 writes them (a text of Latin-1)."""
    return values[0] if values and type(values[0]) in (str, bytes) else ""


def _make_complex(real: Any, imaginary: Any) -> complex:
    if type(real) not in (int, float) or type(imaginary) not in (int, float):
        raise PickleError("a complex number of what are no numbers")
    return complex(real, imaginary)


def _refuse_meta(*_: Any) -> Any:
    raise PickleError("a tensor on the device 'meta', which has a shape and no elements")


def _refuse_sparse(*_: Any) -> Any:
    raise PickleError("a sparse tensor, which is not read: save it with .to_dense()")


def _refuse_quantized(*_: Any) -> Any:
    raise PickleError("a quantized tensor, which is not read: save it with .dequantize()")


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "torch._utils._rebuild_tensor": _make_tensor,
    "torch._utils._rebuild_tensor_v2": _make_tensor,
    "torch._utils._rebuild_tensor_v3": _make_tensor_v3,
    "torch._utils._rebuild_parameter": _take_parameter,
    "torch._utils._rebuild_parameter_with_state": _take_parameter,
    "torch.nn.parameter.Parameter": _take_parameter,
    "torch._tensor._rebuild_from_type_v2": _take_subclass,
    "torch._utils._rebuild_meta_tensor_no_storage": _refuse_meta,
    "torch._utils._rebuild_sparse_tensor": _refuse_sparse,
    "torch._utils._rebuild_sparse_csr_tensor": _refuse_sparse,
    "torch._utils._rebuild_qtensor": _refuse_quantized,
    "torch.Size": _make_size,
    "torch.device": _make_text,
    "torch.serialization._get_layout": _make_text,
    "collections.OrderedDict": _make_pairs,
    "collections.Counter": _make_pairs,
    "collections.defaultdict": _make_default_dict,
    "builtins.set": _make_list,
    "builtins.frozenset": _make_list,
    "builtins.bytearray": _make_text,
    "builtins.complex": _make_complex,
    "_codecs.encode": _make_text,
}
