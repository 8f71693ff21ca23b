"""Whether ops are recorded for gradients: `no_grad`, `enable_grad`, `set_grad_enabled`, `inference_mode`."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar, Token
from functools import wraps
from inspect import isgeneratorfunction
from typing import Any

__all__ = ["enable_grad", "inference_mode", "is_grad_enabled", "no_grad", "recording", "set_grad_enabled"]

#: whether ops on tensors are recorded
recording: ContextVar[bool] = ContextVar("prototorch_recording", default=True)


class _GradMode:
    """A context, and a decorator of functions, inside which recording is on or off."""

    mode: bool

    def __init__(self) -> None:
        self._tokens: list[Token[bool]] = []

    def __enter__(self) -> Any:
        self._tokens.append(recording.set(self.mode))
        return self

    def __exit__(self, *_: object) -> None:
        recording.reset(self._tokens.pop())

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        mode = self.mode
        if isgeneratorfunction(function):
            return _generator_within(function, mode)

        @wraps(function)
        def within(*args: Any, **options: Any) -> Any:
            token = recording.set(mode)
            try:
                return function(*args, **options)
            finally:
                recording.reset(token)

        return within


def _generator_within(function: Callable[..., Any], mode: bool) -> Callable[..., Any]:
    """A generator function whose body runs in a mode, and whose caller does not."""

    def advance(step: Callable[..., Any], *values: Any) -> Any:
        token = recording.set(mode)
        try:
            return step(*values)
        finally:
            recording.reset(token)

    @wraps(function)
    def within(*args: Any, **options: Any) -> Any:
        generator = function(*args, **options)
        try:
            value = advance(generator.send, None)
            while True:
                try:
                    response = yield value
                except GeneratorExit:
                    advance(generator.close)
                    raise
                except BaseException as exc:
                    value = advance(generator.throw, exc)
                else:
                    value = advance(generator.send, response)
        except StopIteration as stop:
            return stop.value

    return within


class no_grad(_GradMode):
    """Ops called inside are not recorded (PyTorch): ``with pt.no_grad():``, or ``@pt.no_grad()`` before a function."""

    mode = False

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        context = super().__new__(cls)
        if function is None:
            return context
        context.__init__()  # type: ignore[misc]
        return context(function)


class enable_grad(no_grad):
    """Ops called inside are recorded, also within `no_grad` (PyTorch)."""

    mode = True


class inference_mode(_GradMode):
    """As `no_grad` (PyTorch's inference_mode, whose tensors are ordinary ones here)."""

    def __new__(cls, mode: Any = True) -> Any:
        context = super().__new__(cls)
        if isinstance(mode, bool):
            return context
        context.__init__()  # type: ignore[misc]
        return context(mode)

    def __init__(self, mode: bool = True):
        super().__init__()
        self.mode = not mode


class set_grad_enabled(_GradMode):
    """Turn recording on or off, at once, and as a context until its end (PyTorch)."""

    def __init__(self, mode: bool):
        super().__init__()
        self.mode = bool(mode)
        self._tokens.append(recording.set(self.mode))

    def __enter__(self) -> Any:
        return self

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        recording.reset(self._tokens.pop())  # the mode is for the function alone
        return super().__call__(function)


def is_grad_enabled() -> bool:
    """Whether ops are recorded here."""
    return recording.get()
