"""Creation of arrays, and their element types, by the array API standard."""

from __future__ import annotations

from math import pi
from typing import Any

import numpy as np

from prototorch.eager.array_api.registry import standard_function
from prototorch.eager.dtype import DTYPES, DType, as_dtype, can_cast, get_default_dtype
from prototorch.eager.operands import common_dtype
from prototorch.eager.registry import FUNCTIONS
from prototorch.eager.tensor import Tensor
from prototorch.errors import UsageError

__all__ = ["CONSTANTS", "asarray", "astype"]

CONSTANTS: dict[str, Any] = {"e": float(np.e), "inf": float("inf"), "nan": float("nan"), "newaxis": None, "pi": pi}
_KINDS = {
    "bool": ("bool",), "signed integer": ("int8", "int16", "int32", "int64"),
    "unsigned integer": ("uint8", "uint16", "uint32", "uint64"), "real floating": ("float32", "float64", "float16",
                                                                                   "bfloat16"),
    "complex floating": (),
}  # fmt: skip
_KINDS["integral"] = _KINDS["signed integer"] + _KINDS["unsigned integer"]
_KINDS["numeric"] = _KINDS["integral"] + _KINDS["real floating"]


@standard_function
def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None) -> Tensor:
    """An array from numbers, nested sequences, or another array. copy: True for new memory, False to refuse a copy."""
    result: Tensor = FUNCTIONS["asarray"](obj, dtype=dtype, device=device, copy=copy)
    return result


@standard_function
def astype(x: Tensor, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """The elements in another type; without ``copy`` the array itself where it has the type."""
    result: Tensor = x.to(dtype=dtype, device=device, copy=copy)
    return result


@standard_function
def arange(
    start: float, /, stop: float | None = None, step: float = 1, *, dtype: Any = None, device: Any = None
) -> Tensor:
    """The numbers start, start + step, ... before stop; with one number those from 0 before it."""
    first, last = (0, start) if stop is None else (start, stop)
    if (last - first) * step <= 0:
        first, last = 0, 0
        dtype = dtype or ("int64" if all(isinstance(v, int) for v in (start, stop or 0, step)) else get_default_dtype())
        step = 1
    result: Tensor = FUNCTIONS["arange"](first, last, step, dtype=dtype, device=device)
    return result


@standard_function
def linspace(
    start: float, stop: float, /, num: int, *, dtype: Any = None, device: Any = None, endpoint: bool = True
) -> Tensor:
    """``num`` numbers with equal distances from start to stop, which is the last one with ``endpoint``."""
    steps = num if endpoint else num + 1
    result: Tensor = FUNCTIONS["linspace"](start, stop, steps, dtype=dtype, device=device)
    return result if endpoint else result[:num]


@standard_function
def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None) -> Tensor:
    """A matrix with ones on its k-th diagonal and zeros elsewhere."""
    rows, columns = n_rows, n_rows if n_cols is None else n_cols
    result: Tensor = FUNCTIONS["zeros"]((rows, columns), dtype=dtype, device=device)
    if rows and columns and -rows < k < columns:
        result.diagonal(k).fill_(1)
    return result


def _fill_function(name: str) -> None:
    def function(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
        result: Tensor = FUNCTIONS[name](shape, dtype=dtype, device=device)
        return result

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"An array of a shape with {name} for elements."
    standard_function(function)


for _name in ("zeros", "ones", "empty"):
    _fill_function(_name)


@standard_function
def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """An array of a shape filled with one number."""
    result: Tensor = FUNCTIONS["full"](
        shape if isinstance(shape, tuple | list) else (shape,), fill_value, dtype=dtype, device=device
    )
    return result


@standard_function
def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The matrices with zeros above the k-th diagonal."""
    result: Tensor = FUNCTIONS["tril"](x, k)
    return result


@standard_function
def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The matrices with zeros below the k-th diagonal."""
    result: Tensor = FUNCTIONS["triu"](x, k)
    return result


@standard_function
def meshgrid(*arrays: Tensor, indexing: str = "xy") -> tuple[Tensor, ...]:
    """Vectors as coordinates of a grid; indexing "xy" exchanges the first two dimensions."""
    result: tuple[Tensor, ...] = FUNCTIONS["meshgrid"](*arrays, indexing=indexing)
    return result


@standard_function
def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether an element type is of a kind ("integral", "real floating", ...), is another type, or one of several."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    if isinstance(kind, str) and not isinstance(kind, DType):
        if kind not in _KINDS:
            raise UsageError(f"isdtype: kind must be one of {', '.join(_KINDS)}, got {kind!r}")
        return str(as_dtype(dtype)) in _KINDS[kind]
    return as_dtype(dtype) == as_dtype(kind)


@standard_function
def result_type(*arrays_and_dtypes: Any) -> DType:
    """The element type that arrays, types and numbers promote to."""
    return common_dtype(tuple(FUNCTIONS["zeros"](1, dtype=v) if isinstance(v, DType) else v for v in arrays_and_dtypes))


@standard_function
def can_cast_(from_: Any, to: Any, /) -> bool:
    """Whether elements of a type can be cast to another one by the standard's rules: without loss of kind."""
    source = as_dtype(str(from_.dtype)) if isinstance(from_, Tensor) else from_
    return bool(can_cast(source, to))


class NamespaceInfo:
    """What the namespace can do: `capabilities`, `default_device`, `default_dtypes`, `devices`, `dtypes`."""

    def capabilities(self) -> dict[str, Any]:
        """Boolean indexing and shapes that depend on elements are there; NumPy limits the number of dimensions."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        """The device of new arrays."""
        return "cpu"

    def devices(self) -> list[str]:
        """The devices that arrays may be on."""
        return ["cpu"]

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType]:
        """The element types of new arrays by kind."""
        return {"real floating": get_default_dtype(), "integral": DTYPES["int64"], "indexing": DTYPES["int64"]}

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, DType]:
        """The element types of a kind, or all, by name."""
        return {name: d for name, d in DTYPES.items() if kind is None or isdtype(d, kind)}


@standard_function
def __array_namespace_info__() -> NamespaceInfo:
    """See `NamespaceInfo`."""
    return NamespaceInfo()
