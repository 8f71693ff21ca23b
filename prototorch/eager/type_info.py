"""The limits of element types: `finfo` and `iinfo` by PyTorch's names."""

from __future__ import annotations

from typing import Any

import numpy as np

from prototorch.eager.dtype import DType, as_dtype, get_default_dtype
from prototorch.errors import UsageError

__all__ = ["finfo", "iinfo"]


class finfo:
    """The limits of a floating-point type (default: the default one).

    bits, eps (the distance from 1 to the next number), max, min, tiny and smallest_normal (the smallest positive number
    of full precision), resolution; dtype, its name. Raises UsageError for another type.
    """

    def __init__(self, type: Any = None):
        dtype = get_default_dtype() if type is None else as_dtype(type)
        if not dtype.is_floating_point:
            raise UsageError(f"finfo: expected a floating-point type, got {dtype!r}; iinfo is for integers")
        limits: Any = _bfloat16_limits() if dtype == "bfloat16" else np.finfo(str(dtype))
        self.dtype: DType = dtype
        self.bits = int(limits.bits)
        self.eps, self.max, self.min = float(limits.eps), float(limits.max), float(limits.min)
        self.tiny = self.smallest_normal = float(limits.smallest_normal)
        self.resolution = float(limits.resolution)

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
            f"smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, dtype={self.dtype})"
        )


def _bfloat16_limits() -> Any:
    import ml_dtypes

    return ml_dtypes.finfo(ml_dtypes.bfloat16)


class iinfo:
    """The limits of an integer type: bits, max, min; dtype, its name. Raises UsageError for another type."""

    def __init__(self, type: Any):
        dtype = as_dtype(type)
        if dtype.is_floating_point or dtype == "bool":
            raise UsageError(f"iinfo: expected an integer type, got {dtype!r}; finfo is for floating-point types")
        limits = np.iinfo(str(dtype))
        self.dtype: DType = dtype
        self.bits, self.max, self.min = int(limits.bits), int(limits.max), int(limits.min)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"
