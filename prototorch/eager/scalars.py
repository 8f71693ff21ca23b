"""Python's numbers as elements of a tensor: in arithmetic as C converts them, elsewhere checked against the range."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from prototorch.eager.dtype import as_dtype
from prototorch.eager.type_info import finfo, iinfo
from prototorch.engine.backends.precision import numpy_dtype
from prototorch.errors import UsageError

__all__ = ["check_elements", "check_number", "check_operand", "element_range", "number_array"]


@lru_cache(maxsize=32)
def element_range(dtype: str) -> tuple[Any, Any]:
    """The smallest and the largest finite number of an element type: integers for integers, (0, 1) for bool."""
    if dtype == "bool":
        return 0, 1
    limits = finfo(dtype) if as_dtype(dtype).is_floating_point else iinfo(dtype)
    return limits.min, limits.max


def check_number(value: Any, dtype: Any, name: str) -> None:
    """Raises UsageError where a number is outside the range of an element type, as PyTorch's "value cannot be converted
    to type uint8_t without overflow": integers and NaN and the infinities for integers, a finite number beyond the
    largest one for floating-point types. All numbers are elements of bool.

    The fraction of a float is dropped, and a negative integer no smaller than minus the largest one stands for its
    two's complement in an unsigned type (-1 for 255 in uint8), as in PyTorch.
    """
    dtype = str(dtype)
    if dtype == "bool" or isinstance(value, bool):
        return
    low, high = element_range(dtype)
    if isinstance(high, float):
        if isinstance(value, float) and not math.isfinite(value):
            return
    elif isinstance(value, int) and low == 0:
        low = -high
    if not low <= value <= high:  # NaN, too
        low, high = element_range(dtype)
        raise UsageError(
            f"{name}: {value} is outside the range of {dtype} elements, which is {low} to {high}; cast the tensor to a "
            "wider type first"
        )


def check_operand(value: Any, dtype: Any, name: str) -> None:
    """As `check_number` for an operand beside half-precision elements, which PyTorch takes as float32 first: there
    70000 becomes an infinite float16."""
    if isinstance(value, bool | int | float):
        check_number(value, "float32" if str(dtype) in ("float16", "bfloat16") else dtype, name)


def check_elements(array: np.ndarray, dtype: Any, name: str) -> None:
    """As `check_number` for all elements of an array of Python's numbers that becomes one of an integer type."""
    dtype = str(dtype)
    if as_dtype(dtype).is_floating_point or dtype == "bool" or array.dtype.kind not in "iufO" or not array.size:
        return
    if array.dtype.kind == "f":
        if not np.isfinite(array).all():
            check_number(float(array[~np.isfinite(array)].flat[0]), dtype, name)
        ends = float(array.min()), float(array.max())
    else:
        ends = int(array.min()), int(array.max())
    for value in ends:
        check_number(value, dtype, name)


def _make_number_array(value: Any, dtype: str) -> np.ndarray:
    if dtype == "bool":
        array = np.asarray(bool(value))
    elif as_dtype(dtype).is_floating_point:
        try:
            number = float(value)
        except OverflowError:
            raise UsageError(f"the integer of {value.bit_length()} bits is too large for an element {dtype}") from None
        with np.errstate(all="ignore"):
            array = np.asarray(number).astype(numpy_dtype(dtype))
    else:
        bits = 8 * np.dtype(dtype).itemsize
        whole = int(value) if math.isfinite(value) else 0
        array = np.asarray(whole & ((1 << bits) - 1), dtype=f"uint{bits}").astype(dtype)
    array.flags.writeable = False
    return array


_cached_number_array = lru_cache(maxsize=1024, typed=True)(_make_number_array)


def number_array(value: Any, dtype: str) -> np.ndarray:
    """A number as an array without dimensions, read-only, converted as in C: integers keep their low bits, so that
    256 is 0 in uint8; every number but 0 is True. 0.0 is not looked up: it is equal to -0.0."""
    return _cached_number_array(value, dtype) if value or type(value) is int else _make_number_array(value, dtype)
