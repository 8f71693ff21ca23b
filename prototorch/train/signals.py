"""Clean ends of a training loop: signals end it after a step, and the loader's threads end with it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Protocol

from prototorch.base.early_signals import take_pending
from prototorch.data.batch import Batch

__all__ = ["Interruptible", "closing_batches", "stop_on_signal"]


class Interruptible(Protocol):
    """A loop that can be asked to end after its step. ``interrupt_signal``: the signal that asked, or None;
    ``is_snapshot_requested``: whether SIGHUP asked for a snapshot."""

    interrupt_signal: int | None
    stop_training: bool
    is_snapshot_requested: bool


@contextmanager
def closing_batches(batches: Iterator[Batch]) -> Iterator[Iterator[Batch]]:
    """Close the iterator at the end, however the loop ends, so that the loader's threads end."""
    try:
        yield batches
    finally:
        close = getattr(batches, "close", None)
        if close is not None:
            close()


@contextmanager
def stop_on_signal(loop: Interruptible, handle_hangup: bool = False) -> Iterator[None]:
    """Inside, the first SIGINT (Ctrl-C) or SIGTERM ends the loop after its step; the second raises KeyboardInterrupt.
    With ``handle_hangup`` SIGHUP, where the system has it, requests a snapshot, and the loop goes on. Those that were
    received earlier and kept (`prototorch.base.early_signals`) count.

    Outside the main thread, where Python receives no signals, nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        if loop.interrupt_signal is not None:
            raise KeyboardInterrupt
        loop.interrupt_signal, loop.stop_training = number, True

    def request_snapshot(number: int, frame: FrameType | None) -> None:
        loop.is_snapshot_requested = True

    handlers = {s: signal.signal(s, stop) for s in (signal.SIGINT, signal.SIGTERM)}
    if take_pending(handlers[signal.SIGTERM]):
        stop(signal.SIGTERM, None)
    if handle_hangup and hasattr(signal, "SIGHUP"):
        handlers[signal.SIGHUP] = signal.signal(signal.SIGHUP, request_snapshot)
        if take_pending(handlers[signal.SIGHUP]):
            request_snapshot(signal.SIGHUP, None)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            if handler is not None:  # None: not installed by Python, which cannot restore it
                signal.signal(number, handler)
