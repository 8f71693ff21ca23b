"""The current GPU, stream and allocator of a thread, as CuPy and CUDA have them.

What CuPy launches runs on the thread's current stream, at first the null stream. That one is not ordered against the
streams of a device here, which do not wait for it: work on it may read what has not been computed yet.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from threading import local
from typing import Any, TypeVar, cast

__all__ = ["enter_stream", "in_stream"]

Method = TypeVar("Method", bound=Callable[..., Any])


class _Thread(local):
    """device: whose stream is the current one of this thread."""

    device: Any = None


_thread = _Thread()
_NOTHING: AbstractContextManager[Any] = nullcontext()


class _StreamContext:
    """The device, its allocator and its compute stream are the current ones of the thread inside."""

    __slots__ = ("allocator", "device", "gpu", "previous")

    def __init__(self, device: Any):
        cuda = device.cp.cuda
        self.device, self.gpu, self.allocator = device, cuda.Device(device.index), cuda.using_allocator(device.malloc)

    def __enter__(self) -> None:
        self.gpu.__enter__()
        try:
            self.allocator.__enter__()
            self.device.compute_stream.__enter__()
        except BaseException:
            self.gpu.__exit__(None, None, None)
            raise
        self.previous, _thread.device = _thread.device, self.device

    def __exit__(self, *error: Any) -> None:
        _thread.device = self.previous
        self.device.compute_stream.__exit__(*error)
        self.allocator.__exit__(None, None, None)
        self.gpu.__exit__(*error)


def enter_stream(device: Any) -> AbstractContextManager[Any]:
    """The context of a `CupyDevice`; nothing where the thread is in it already."""
    return _NOTHING if _thread.device is device else cast(AbstractContextManager[Any], _StreamContext(device))


def in_stream(method: Method) -> Method:
    """A method of a `CupyDevice` that runs in the device's context."""

    @wraps(method)
    def run(device: Any, *args: Any, **options: Any) -> Any:
        if _thread.device is device:
            return method(device, *args, **options)
        with _StreamContext(device):
            return method(device, *args, **options)

    return cast(Method, run)
