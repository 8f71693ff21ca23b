"""Reads of what differs from call to call, while a function is traced: random numbers, the clock, the environment.

A plan would repeat what the trace has read. They are found where they happen, by the calls that the thread makes, so that
it does not matter by which name a function reaches them; reads by the package itself, and by libraries that the function
calls, do not count.
"""

from __future__ import annotations

import _collections_abc
import datetime
import os
import random
import secrets
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from types import BuiltinFunctionType, FrameType
from typing import Any

import numpy as np

from prototorch.compiler.trace import PACKAGE_FOLDER
from prototorch.errors import ModelWarning, UsageError, warn_user

__all__ = ["refuse_impure_reads"]

_RANDOM, _TIME, _ENVIRONMENT = "a random number", "the clock", "the environment"
_REMEDIES = {
    _RANDOM: "draw it outside and pass it as an argument, or use the package's own functions, such as rand and dropout, "
    "which draw anew at each call",
    _TIME: "read it outside, and pass it as an argument",
    _ENVIRONMENT: "read it outside, and pass it as an argument",
}
_CLOCK_FUNCTIONS = {
    getattr(time, name)
    for name in (
        "time", "time_ns", "perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "process_time",
        "process_time_ns", "thread_time", "thread_time_ns", "clock_gettime", "clock_gettime_ns", "localtime", "gmtime",
        "ctime", "asctime", "strftime",
    )
    if hasattr(time, name)
}  # fmt: skip
_DATE_FUNCTIONS = {"now", "utcnow", "today"}
_GENERATORS: tuple[type, ...] = (random.Random, np.random.RandomState, np.random.Generator, np.random.BitGenerator)
_ENVIRON_CODES = {
    method.__code__ for method in (type(os.environ).__getitem__, type(os.environ).__iter__, type(os.environ).__len__)
}
#: modules whose functions read for their caller
_PASSED_ON = {module.__file__ for module in (random, secrets, uuid, os, _collections_abc, datetime)}


@contextmanager
def refuse_impure_reads() -> Iterator[None]:
    """Raise UsageError, with the line, where the work inside reads random numbers, the clock or the environment; warn
    where it prints, which it does once and not at each call."""
    before = sys.getprofile()
    sys.setprofile(_Watch(before))
    try:
        yield
    finally:
        sys.setprofile(before)


class _Watch:
    """A profile function of the thread, which goes on calling the one before."""

    def __init__(self, before: Any):
        self.before = before
        self.kinds: dict[type, bool] = {}
        self.printed: set[tuple[str, int]] = set()

    def __call__(self, frame: FrameType, event: str, arg: Any) -> None:
        if event == "c_call":
            if type(arg) is BuiltinFunctionType:
                self._note_call(frame, arg)
        elif event == "call" and frame.f_code in _ENVIRON_CODES:
            _refuse(frame.f_back, _ENVIRONMENT, "os.environ")
        if self.before is not None:
            self.before(frame, event, arg)

    def _note_call(self, frame: FrameType, function: Any) -> None:
        owner = function.__self__
        kind = type(owner)
        is_generator = self.kinds.get(kind)
        if is_generator is None:
            is_generator = self.kinds[kind] = issubclass(kind, _GENERATORS)
        if is_generator:
            module = "random" if isinstance(owner, random.Random) else "np.random"
            _refuse(frame, _RANDOM, f"{module}: {function.__name__}()")
        elif owner is time:
            if function in _CLOCK_FUNCTIONS:
                _refuse(frame, _TIME, f"time.{function.__name__}()")
        elif function is print:
            self._warn_of_print(frame)
        elif function is os.urandom:
            _refuse(frame, _RANDOM, "os.urandom()")
        elif kind is type and function.__name__ in _DATE_FUNCTIONS and issubclass(owner, datetime.date):
            _refuse(frame, _TIME, f"{owner.__name__}.{function.__name__}()")

    def _warn_of_print(self, frame: FrameType) -> None:
        place = frame.f_code.co_filename, frame.f_lineno
        if place in self.printed or place[0].startswith(PACKAGE_FOLDER):
            return
        self.printed.add(place)
        warn_user(
            f"{place[0]}:{place[1]}: print runs once, while the function is traced, and not at each call of its plan; "
            "return what is to be printed",
            ModelWarning,
        )


def _refuse(frame: FrameType | None, kind: str, what: str) -> None:
    while frame is not None and frame.f_code.co_filename in _PASSED_ON:
        frame = frame.f_back
    if frame is None or _is_library(frame.f_code.co_filename):
        return
    raise UsageError(
        f"{frame.f_code.co_filename}:{frame.f_lineno}: {what} reads {kind} while the function is compiled, and each call "
        f"of its plan would get the same: {_REMEDIES[kind]}"
    )


_STANDARD_LIBRARY = os.path.join(os.path.dirname(os.path.abspath(os.__file__)), "")


def _is_library(path: str) -> bool:
    """Whether a file is of the package, of Python's library or installed beside it; then it reads for its own ends."""
    return path.startswith((PACKAGE_FOLDER, _STANDARD_LIBRARY, "<frozen")) or "site-packages" in path
