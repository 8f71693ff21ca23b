"""The default device: that of new tensors, variables and symbols for which none is given.

It is a name ("cuda:1"), since a symbol may be written down on a machine that lacks the device.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["default_device", "pop_device", "push_device", "set_default_device", "without_default_device"]

_default: ContextVar[str | None] = ContextVar("prototorch_default_device", default=None)
_scopes: ContextVar[tuple[str | None, ...]] = ContextVar("prototorch_device_scopes", default=())


def default_device() -> str | None:
    """The device of the innermost scope, else the one that `set_default_device` has set; None for neither."""
    scopes = _scopes.get()
    return scopes[-1] if scopes else _default.get()


def set_default_device(name: str | None) -> None:
    """Set the device outside of all scopes."""
    _default.set(name)


def push_device(name: str | None) -> None:
    """Begin a scope."""
    _scopes.set((*_scopes.get(), name))


def pop_device() -> None:
    """End the innermost scope."""
    _scopes.set(_scopes.get()[:-1])


@contextmanager
def without_default_device() -> Iterator[None]:
    """Inside, there is no default device."""
    push_device(None)
    try:
        yield
    finally:
        pop_device()
