"""Element types by PyTorch's names: strings of NumPy's names with PyTorch's properties, and its rules of promotion."""

from __future__ import annotations

from typing import Any

import numpy as np

from prototorch.engine.backends.precision import numpy_dtype
from prototorch.errors import UsageError, did_you_mean
from prototorch.spec import FLOAT_DTYPES, Spec

__all__ = [
    "DTYPES",
    "DType",
    "as_dtype",
    "can_cast",
    "category",
    "dtype_of_scalar",
    "get_default_dtype",
    "promote_types",
    "set_default_dtype",
]


class DType(str):
    """An element type: equal to its NumPy name (``pt.float32 == "float32"``)."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"prototorch.{self!s}"

    @property
    def is_floating_point(self) -> bool:
        """Whether it is a floating-point type, so that a gradient exists."""
        return str(self) in FLOAT_DTYPES

    @property
    def is_complex(self) -> bool:
        """Whether it is a complex type: none is."""
        return False

    @property
    def is_signed(self) -> bool:
        """Whether it has negative values."""
        return str(self) != "bool" and not self.startswith("uint")

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return Spec((), str(self)).nbytes


_NAMES = ("bool", "uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
          "float16", "bfloat16", "float32", "float64")  # fmt: skip
DTYPES: dict[str, DType] = {name: DType(name) for name in _NAMES}
#: PyTorch's other names
ALIASES = {"float": "float32", "double": "float64", "half": "float16", "long": "int64", "int": "int32",
           "short": "int16"}  # fmt: skip
_PYTHON = {int: "int64", bool: "bool"}
_default = DTYPES["float32"]


def as_dtype(value: Any) -> DType:
    """The element type that a value names: one of ours, a name, NumPy's, PyTorch's, or ``float``, ``int``, ``bool`` of
    Python (the default floating-point type, int64, bool).

    Raises UsageError where there is no such type (complex, quantized, strings).
    """
    if type(value) is DType:
        if value == "bfloat16":
            numpy_dtype("bfloat16")
        return value
    if value is float:
        return _default
    if isinstance(value, type) and value in _PYTHON:
        return DTYPES[_PYTHON[value]]
    name = value if isinstance(value, str) else getattr(value, "dtype_name", None) or _numpy_name(value)
    name = name.rpartition(".")[2]
    name = ALIASES.get(name, name)
    if name not in DTYPES:
        raise UsageError(
            f"there is no element type {name!r}; there are {', '.join(_NAMES)}.{did_you_mean(name, _NAMES)}"
        )
    if name == "bfloat16":
        numpy_dtype(name)  # NumPy learns it, or a BackendError says what is missing
    return DTYPES[name]


def _numpy_name(value: Any) -> str:
    if str(value).startswith("torch."):
        return str(value)
    try:
        return str(np.dtype(value).name)
    except TypeError:
        raise UsageError(f"expected an element type such as pt.float32, got {value!r:.60}") from None


def get_default_dtype() -> DType:
    """The floating-point type of tensors made of Python's floats; float32 where it was not set."""
    return _default


def set_default_dtype(dtype: Any) -> None:
    """Set the floating-point type of tensors made of Python's floats. Raises UsageError for another type."""
    global _default
    default_dtype = as_dtype(dtype)
    if not default_dtype.is_floating_point:
        raise UsageError(f"set_default_dtype: expected a floating-point type, got {default_dtype!r}")
    _default = default_dtype


def dtype_of_scalar(value: Any) -> DType:
    """The element type of a tensor made of a Python number."""
    if isinstance(value, bool):
        return DTYPES["bool"]
    return DTYPES["int64"] if isinstance(value, int) else _default


def promote_types(a: Any, b: Any) -> DType:
    """The smallest type to which both can be cast, by PyTorch's lattice (torch.promote_types)."""
    a, b = as_dtype(a), as_dtype(b)
    if a == b:
        return a
    if a.is_floating_point or b.is_floating_point:
        if a.is_floating_point and b.is_floating_point:
            if {a, b} == {"float16", "bfloat16"}:
                return DTYPES["float32"]
            return a if a.itemsize > b.itemsize else b
        return a if a.is_floating_point else b
    if a == "bool" or b == "bool":
        return b if a == "bool" else a
    if a.is_signed == b.is_signed:
        return a if a.itemsize > b.itemsize else b
    signed, unsigned = (a, b) if a.is_signed else (b, a)
    if unsigned.itemsize < signed.itemsize:
        return signed
    if unsigned != "uint8":
        raise UsageError(f"promotion of {a!r} and {b!r} is not defined; cast one of them")
    return DTYPES["int16"]


def category(dtype: DType) -> int:
    """0 for bool, 1 for integers, 2 for floating-point types: what a result's type is chosen by."""
    return 2 if dtype.is_floating_point else 0 if dtype == "bool" else 1


def can_cast(from_: Any, to: Any) -> bool:
    """Whether PyTorch casts a result of one type to another one without being asked: not from a floating-point type to
    integers, nor from numbers to bool, nor from signed to unsigned integers."""
    source, target = as_dtype(from_), as_dtype(to)
    return category(source) <= category(target) and not (
        target.startswith("uint") and source.is_signed and category(source) == 1 and not source.startswith("uint")
    )


def __getattr__(name: str) -> Any:
    if name in DTYPES:
        return DTYPES[name]
    if name in ALIASES:
        return DTYPES[ALIASES[name]]
    raise AttributeError(name)
