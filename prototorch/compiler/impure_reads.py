"""Reads of what differs from call to call, while a function is traced: random numbers, the clock, the environment.

A plan would repeat what the trace has read. They are found where they happen, by the calls that the thread makes, so
that it does not matter by which name a function reaches them; reads by the package itself, and by libraries that the
function calls, do not count.
"""

from __future__ import annotations

import datetime
import os
import random
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import BuiltinFunctionType, FrameType
from typing import Any

import numpy as np

from prototorch.compiler.trace import PACKAGE_FOLDER
from prototorch.errors import ModelWarning, UsageError, warn_user

__all__ = ["refuse_impure_reads"]

_RANDOM, _TIME, _ENVIRONMENT = "a random number", "the clock", "the environment"
_REMEDIES = {
    _RANDOM: "draw it outside and pass it as an argument, or use the package's own functions, such as rand and "
    "dropout, which draw anew at each call",
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
_ENVIRON_CODES = {
    method.__code__ for method in (type(os.environ).__getitem__, type(os.environ).__iter__, type(os.environ).__len__)
}
#: modules whose functions read for their caller
_PASSED_ON = {"random", "secrets", "uuid", "os", "collections.abc", "datetime"}


@contextmanager
def refuse_impure_reads(generators: Sequence[Any] = ()) -> Iterator[None]:
    """Raise UsageError, with the line, where the work inside reads random numbers, the clock or the environment; warn
    where it prints, which it does once and not at each call.

    generators: those of NumPy that the work may reach beside its global one; a change of their state shows a call.
    Where a debugger traces the thread, the error about them comes at the end, without the line.
    """
    watch = _Watch(sys.getprofile(), generators)
    traces = sys.gettrace() is None
    sys.setprofile(watch)
    if traces:
        sys.settrace(watch.trace_lines)
    try:
        yield
    finally:
        if traces:
            sys.settrace(None)
        sys.setprofile(watch.before)
    watch.check_generators("the function")


class _Watch:
    """A profile function of the thread, which goes on calling the one before, and a trace function of lines."""

    def __init__(self, before: Any, generators: Sequence[Any]):
        self.before = before
        self.kinds: dict[type, bool] = {}
        self.printed: set[tuple[str, int]] = set()
        numpy_generators = [g for g in generators if not isinstance(g, random.Random)]
        self.states = [(g, _state_of(g)) for g in (_GLOBAL_GENERATOR, *numpy_generators)]

    # ------------------------------------------------------------------ calls

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
            is_generator = self.kinds[kind] = issubclass(kind, random.Random)
        if is_generator:
            _refuse(frame, _RANDOM, "random")
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
        location = frame.f_code.co_filename, frame.f_lineno
        if location in self.printed or location[0].startswith(PACKAGE_FOLDER):
            return
        self.printed.add(location)
        warn_user(
            f"{location[0]}:{location[1]}: print runs once, while the function is traced, and not at each call of its "
            "plan; return what is to be printed",
            ModelWarning,
        )

    # ------------------------------------------------------------------ lines

    def trace_lines(self, frame: FrameType, event: str, arg: Any) -> Any:
        """The trace function of a frame: lines of the user's code are looked at."""
        if _is_library(frame):
            return None
        line = frame.f_lineno

        def trace(frame: FrameType, event: str, arg: Any) -> Any:
            nonlocal line
            if event in ("line", "return"):
                self.check_generators(f"{frame.f_code.co_filename}:{line}")
            line = frame.f_lineno
            return trace

        return trace

    def check_generators(self, location: str) -> None:
        """Raise UsageError where a generator of NumPy has drawn a number."""
        for generator, state in self.states:
            if _state_of(generator) != state:
                name = "np.random" if generator is _GLOBAL_GENERATOR else "a generator of np.random"
                raise _error(location, _RANDOM, name)


_GLOBAL_GENERATOR: np.random.RandomState = np.random.random.__self__  # type: ignore[attr-defined]


def _state_of(generator: Any) -> Any:
    """The state of a generator of NumPy, as a value that compares."""
    if isinstance(generator, np.random.RandomState):
        return _frozen(generator.get_state(legacy=False))
    return _frozen(generator.bit_generator.state)


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple((key, _frozen(one)) for key, one in value.items())
    return value.tobytes() if isinstance(value, np.ndarray) else value


def _refuse(frame: FrameType | None, kind: str, what: str) -> None:
    while frame is not None and frame.f_globals.get("__name__") in _PASSED_ON:
        frame = frame.f_back
    if frame is not None and not _is_library(frame):
        raise _error(f"{frame.f_code.co_filename}:{frame.f_lineno}", kind, what)


def _error(location: str, kind: str, what: str) -> UsageError:
    return UsageError(
        f"{location}: {what} reads {kind} while the function is compiled, and each call of its plan would get the "
        f"same: {_REMEDIES[kind]}"
    )


_STANDARD_LIBRARY = os.path.join(os.path.dirname(os.path.abspath(datetime.__file__)), "")


def _is_library(frame: FrameType) -> bool:
    """Whether a frame is of the package, of Python's library, or of a package that is installed: it reads for its own
    ends, such as the time of a line in a log."""
    path, module = frame.f_code.co_filename, frame.f_globals.get("__name__", "")
    is_generated = path == "<string>" and module not in sys.modules
    is_installed = path.startswith((PACKAGE_FOLDER, _STANDARD_LIBRARY, "<frozen")) or "site-packages" in path
    return is_generated or is_installed or module.split(".")[0] == "prototorch"
