"""Whether ops on tensors are recorded into a graph instead of being run (`prototorch.compile`), and by what."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

__all__ = ["active_trace", "number", "outside_trace"]

#: the interpreter that records the ops on tensors of this thread; None where they run at once
active_trace: ContextVar[Any] = ContextVar("prototorch_active_trace", default=None)


@contextmanager
def outside_trace() -> Iterator[None]:
    """A context in which ops run at once, also while a function is traced: initial values of weights are not part of
    its plan."""
    token = active_trace.set(None)
    try:
        yield
    finally:
        active_trace.reset(token)


def number(owner: MutableMapping[str, Any], key: str) -> Any:
    """``owner[key]``, a number that may be another one at each call of a compiled function, such as a learning rate.

    While a function is traced it is a tensor float32[] that takes the number's value of each call; else the number.
    """
    trace = active_trace.get()
    return owner[key] if trace is None else trace.number(owner, key)
