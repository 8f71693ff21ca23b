"""Columns: NumPy arrays with one row per sample. Conversion, gathering of rows, checks of dtype and length."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np

from prototorch.errors import DataError

__all__ = ["as_column", "as_slice", "check_equal_lengths", "dtype_name", "gather"]


def gather(array: np.ndarray, indices: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """The rows with these indices, which are in range, as a C-contiguous array: a new one, or ``out``."""
    if out is not None:
        if array.flags.c_contiguous and out.flags.c_contiguous:
            return array.take(indices, axis=0, out=out, mode="clip")  # the mode "raise" would write to a copy of out
        out[...] = array[indices]
        return out
    if array.flags.c_contiguous:
        return array.take(indices, axis=0)
    return np.ascontiguousarray(array[indices])  # ``take`` would first copy the whole array


def as_slice(indices: np.ndarray) -> slice | None:
    """The slice equal to these indices if they are consecutive, else None."""
    count = len(indices)
    if not count or indices[-1] - indices[0] != count - 1 or (indices[1:] - indices[:-1] != 1).any():
        return None
    return slice(int(indices[0]), int(indices[0]) + count)


def as_column(array: object, column: str, name: str) -> np.ndarray:
    """Convert ``array`` to a column: real numbers or booleans in native byte order, with at least one dimension.
    Tensors of prototorch and PyTorch are detached, and copied from their device.

    ``column`` and ``name`` (of the data set) are for messages. Raises DataError for anything else.
    """
    # whoever made a masked array has imported numpy.ma, which takes 15 ms
    if "numpy.ma" in sys.modules and isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array):
        raise DataError(
            f"{name}: {column} is a masked array with {np.ma.count_masked(array):,} masked elements, and a mask is not "
            "taken over: fill them (array.filled(value)) or leave out their rows"
        )
    try:
        out = np.asarray(_detach(array) if hasattr(array, "detach") else array)
    except (TypeError, RuntimeError) as error:  # what other libraries' tensors raise
        kind = f"{type(array).__module__}.{type(array).__name__}"
        raise DataError(f"{name}: {column}, a {kind}, cannot be converted to an array: {error}") from None
    except ValueError as error:
        is_list_of_tuples = isinstance(array, list) and len(array) > 0 and isinstance(array[0], tuple)
        hint = "; pass batches (x, y) as a generator or a function that returns one: a list is read as one array"
        raise DataError(
            f"{name}: {column} cannot be converted to an array: {error}{hint if is_list_of_tuples else ''}"
        ) from None
    if out.dtype.kind not in "buif":
        where, value = next(_iter_values(out), ("", None))
        value = value.item() if isinstance(value, np.generic) else value
        example = f"; its first value{where} is {value!r:.60}" if value is not None else ""
        expected = "expected real ones" if out.dtype.kind == "c" else "not numbers"
        raise DataError(f"{name}: {column} holds {_describe_dtype(out.dtype)}, {expected}{example}")
    if out.dtype.itemsize > 8:
        raise DataError(f"{name}: {column} has dtype {out.dtype}; convert it to float64 or float32")
    if out.ndim == 0:
        raise DataError(f"{name}: {column} must be an array with one row per sample, got the scalar {out[()]}")
    return out if out.dtype.isnative else out.astype(out.dtype.newbyteorder("="))


def _detach(tensor: Any) -> Any:
    """A tensor's values without its gradient, in the host's memory, in a dtype that NumPy has."""
    tensor = tensor.detach()
    tensor = tensor.cpu() if hasattr(tensor, "cpu") else tensor
    return tensor.float() if str(tensor.dtype).endswith("bfloat16") else tensor


def check_equal_lengths(arrays: Mapping[str, np.ndarray], name: str) -> int:
    """The number of rows of all arrays. Raises DataError if there are none or their lengths differ."""
    if not arrays:
        raise DataError(f"{name}: has no columns")
    lengths = {column: len(array) for column, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        listing = ", ".join(f"{column} has {length:,}" for column, length in lengths.items())
        raise DataError(f"{name}: the columns do not have the same number of rows: {listing}")
    return next(iter(lengths.values()))


@cache
def dtype_name(dtype: np.dtype) -> str:
    """The name of a dtype, cached because NumPy builds it anew each time."""
    return dtype.name


def _iter_values(array: np.ndarray) -> Iterator[tuple[str, object]]:
    for index in np.ndindex(array.shape):
        yield (f" (row {index[0]})" if index else ""), array[index]


def _describe_dtype(dtype: np.dtype) -> str:
    kinds = {"U": "text", "S": "bytes", "O": "Python objects", "c": "complex numbers", "M": "dates", "m": "durations"}
    return kinds.get(dtype.kind, str(dtype))
