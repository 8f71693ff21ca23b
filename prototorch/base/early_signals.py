"""Signals that a command receives before its work has handlers of its own, and after it.

SIGTERM ends it as Ctrl-C does, so that what it has begun is taken back. SIGHUP, which asks a training for a snapshot,
is kept until the training has begun. Who handles signals from then on takes over what has been received, by
`take_pending`.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["TerminationError", "keeping_hangups", "raising_on_termination", "take_pending"]


class TerminationError(KeyboardInterrupt):
    """SIGTERM was received. As Ctrl-C, it is no error of the program, and passes through `except Exception`."""


class _EarlyHandler:
    """A handler that remembers that its signal was received, and raises an error if it has one."""

    def __init__(self, error: type[BaseException] | None = None):
        self.error, self.is_pending = error, False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.is_pending = True
        if self.error is not None:
            raise self.error


def take_pending(handler: object) -> bool:
    """Whether a handler from here, that was replaced by another one, has received its signal and nobody has acted on
    it."""
    if not isinstance(handler, _EarlyHandler):
        return False
    pending, handler.is_pending = handler.is_pending, False
    return pending


@contextmanager
def raising_on_termination() -> Iterator[None]:
    """Inside, SIGTERM raises `TerminationError`, unless the process has a handler for it or ignores it."""
    with _handling(signal.SIGTERM, TerminationError):
        yield


@contextmanager
def keeping_hangups() -> Iterator[None]:
    """Inside, SIGHUP does not end the process, and is kept for `take_pending`."""
    if hasattr(signal, "SIGHUP"):
        with _handling(signal.SIGHUP, None):
            yield
    else:
        yield


@contextmanager
def _handling(number: int, error: type[BaseException] | None) -> Iterator[None]:
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(number) is not signal.SIG_DFL:
        yield
        return
    signal.signal(number, _EarlyHandler(error))
    try:
        yield
    finally:
        signal.signal(number, signal.SIG_DFL)
