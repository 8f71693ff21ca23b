"""What stands around the loop: the loader's threads end with it, and signals end it after a step."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from prototorch.data.batch import Batch


class Interruptible(Protocol):
    """What can be asked to end after its step. ``interrupted``: the signal that asked, or None."""

    interrupt_signal: int | None
    stop_training: bool


@contextmanager
def closing_batches(batches: Iterator[Batch]) -> Iterator[Iterator[Batch]]:
    """The loader's threads end when the loop does, however it ends."""
    try:
        yield batches
    finally:
        close = getattr(batches, "close", None)
        if close is not None:
            close()


@contextmanager
def stop_on_signal(trainer: Interruptible) -> Iterator[None]:
    """Inside, the first Ctrl-C (or SIGTERM) lets the step end and the fit return; the second one ends at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: Any) -> None:
        if trainer.interrupt_signal is not None:
            raise KeyboardInterrupt
        trainer.interrupt_signal, trainer.stop_training = number, True

    kept = {s: signal.signal(s, stop) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in kept.items():
            if handler is not None:  # else it was not set by Python, which cannot bring it back
                signal.signal(number, handler)
