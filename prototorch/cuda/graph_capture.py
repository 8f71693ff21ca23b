"""Capturing work as a CUDA graph, and releasing what must not be released while something is captured.

Destroying a library's handle, or unloading a module, waits for the whole device, which CUDA refuses while one of its
streams is captured: the capture would be lost. Python may drop the last reference at any time and in any thread, so
such calls go through `release_later`, which makes them at once where nothing is captured, else after the capture.
"""

from __future__ import annotations

import gc
import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from prototorch.cuda.device_protocol import CudaDevice

__all__ = ["capture_graph", "release_later"]

log = logging.getLogger(__name__)

_capture_lock = threading.Lock()  # held during a capture, and while resources are released
_pending_releases: deque[Callable[[], object]] = deque()


def capture_graph(device: CudaDevice, enqueue_work: Callable[[], None]) -> Any:
    """The work that a function enqueues on the device's compute stream, as a graph for `CudaDevice.launch_graph`.

    Raises what the function raises, and CUDA's error where its work cannot be captured; nothing is captured then.
    """
    collects = gc.isenabled()
    try:
        with _capture_lock:
            gc.disable()  # what is freed during a capture would be captured, or invalidate it
            try:
                device.begin_capture()
                enqueue_work()
                return device.end_capture()
            except BaseException:
                device.abandon_capture()
                raise
            finally:
                if collects:
                    gc.enable()
    finally:
        _release_pending()


def release_later(release: Callable[[], object]) -> None:
    """Call a function that releases a resource of CUDA: now, or when the capture that is going on has ended."""
    _pending_releases.append(release)
    _release_pending()


def _release_pending() -> None:
    while _pending_releases and _capture_lock.acquire(blocking=False):
        try:
            while _pending_releases:
                release = _pending_releases.popleft()
                try:
                    release()
                except Exception as error:  # at the interpreter's end CUDA may be gone already
                    log.debug("a resource of CUDA could not be released: %s", error)
        finally:
            _capture_lock.release()
