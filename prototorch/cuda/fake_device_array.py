"""Arrays of the fake device: computing on them is an error, except in work that runs on a stream.

A GPU launches a kernel for each operation on an array, on the stream that is the thread's current one. Outside of the
device's stream context that is the null stream, which does not wait for the device's own: the operation may read what
has not been computed yet. Here such an operation raises UnorderedWorkError.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from threading import local
from types import SimpleNamespace
from typing import Any

import numpy as np

__all__ = ["DeviceArray", "UnorderedWorkError", "stream_work"]


ALIGNMENT = 16  # bytes, of an array's address


class UnorderedWorkError(AssertionError):
    """An operation on a device's array that is not enqueued on a stream."""


class _Thread(local):
    """depth: how many pieces of a stream's work, one inside the other, run in this thread."""

    depth = 0


_thread = _Thread()


@contextmanager
def stream_work() -> Iterator[None]:
    """Inside, arrays may be computed on: the work of a stream runs."""
    _thread.depth += 1
    try:
        yield
    finally:
        _thread.depth -= 1


def _check(operation: str) -> None:
    if not _thread.depth:
        raise UnorderedWorkError(
            f"{operation} on a device's array outside of its streams, where CuPy uses the null stream; enqueue it "
            "(CudaDevice.enqueue)"
        )


class DeviceArray(np.ndarray):
    """An array in the memory of a fake device. Views, shapes and addresses may be read at any time."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        _check(ufunc.__name__)
        if out is not None:
            options["out"] = tuple(map(_as_numpy, out))
        result = getattr(ufunc, method)(*map(_as_numpy, inputs), **options)
        if out is not None:
            return out[0] if len(out) == 1 else out
        return _as_device_array(result)

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        if function not in _VIEWS:
            _check(function.__name__)
        return super().__array_function__(function, types, args, options)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        return _NAMESPACE

    def __setitem__(self, key: Any, value: Any) -> None:
        _check("an assignment")
        super().__setitem__(key, value)

    def astype(self, *args: Any, **options: Any) -> Any:
        """As `numpy.ndarray.astype`, in the work of a stream alone."""
        _check("astype")
        return super().astype(*args, **options)

    def copy(self, *args: Any, **options: Any) -> Any:
        """As `numpy.ndarray.copy`, in the work of a stream alone; aligned, as all memory of a device is."""
        _check("copy")
        plain = super().copy(*args, **options)
        return plain if plain.ctypes.data % ALIGNMENT == 0 else _aligned(plain)

    def fill(self, value: Any) -> None:
        """As `numpy.ndarray.fill`, in the work of a stream alone."""
        _check("fill")
        super().fill(value)


class _Namespace:
    """NumPy, whose `as_strided` of a device's array is one as well."""

    lib = SimpleNamespace(
        stride_tricks=SimpleNamespace(as_strided=partial(np.lib.stride_tricks.as_strided, subok=True))
    )

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


_NAMESPACE = _Namespace()
#: functions that launch nothing
_VIEWS = frozenset(
    {
        np.moveaxis,
        np.transpose,
        np.broadcast_to,
        np.reshape,
        np.shape,
        np.ndim,
        np.size,
        np.squeeze,
        np.expand_dims,
        np.may_share_memory,
        np.shares_memory,
        np.empty_like,
        np.swapaxes,
    }
)


def _as_numpy(value: Any) -> Any:
    return value.view(np.ndarray) if isinstance(value, DeviceArray) else value


def _as_device_array(result: Any) -> Any:
    if isinstance(result, tuple):
        return tuple(map(_as_device_array, result))
    return result.view(DeviceArray) if isinstance(result, np.ndarray) else result


def _aligned(array: DeviceArray) -> DeviceArray:
    """The elements of an array in the same order in memory that is aligned."""
    raw = np.empty(array.nbytes + ALIGNMENT, np.uint8)
    skip = -raw.ctypes.data % ALIGNMENT
    order = sorted(range(array.ndim), key=lambda axis: -array.strides[axis])
    memory = raw[skip : skip + array.nbytes].view(array.dtype).reshape([array.shape[axis] for axis in order])
    result: DeviceArray = memory.transpose(np.argsort(order)).view(type(array))
    np.copyto(result.view(np.ndarray), array.view(np.ndarray))
    return result
