"""A field that holds a Python function. A text has its name alone: the function comes from ``custom_objects``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from prototorch.errors import UsageError
from prototorch.schema.types import FieldType
from prototorch.schema.validation import ValidationError
from prototorch.text.diagnostics import Report
from prototorch.text.syntax_tree import Value

__all__ = ["CallableField", "FunctionField", "PythonFunction", "custom_objects"]

_custom_objects: ContextVar[Mapping[str, Any] | None] = ContextVar("prototorch_custom_objects", default=None)


@contextmanager
def custom_objects(functions: Mapping[str, Any] | None) -> Iterator[None]:
    """Inside, the names of functions in texts stand for these functions. Raises UsageError for anything else."""
    for name, function in (functions or {}).items():
        if not isinstance(name, str) or not callable(function):
            raise UsageError(f"custom_objects maps names to functions and classes, not {name!r} to {function!r:.60}")
    token = _custom_objects.set({**(_custom_objects.get() or {}), **(functions or {})})
    try:
        yield
    finally:
        _custom_objects.reset(token)


@dataclass(frozen=True)
class PythonFunction:
    """A function with its name; ``function`` is None for one that a text names and that is not there."""

    name: str
    function: Callable[..., Any] | None = None

    def __repr__(self) -> str:
        return self.name

    def resolve(self) -> Callable[..., Any]:
        """The function. Raises UsageError, with what to do, where only its name is known."""
        if self.function is None:
            raise UsageError(
                f"the model was compiled with the Python function {self.name!r}, of which a file holds the name alone: "
                f"give it, load_model(path, custom_objects={{{self.name!r}: {self.name}}}), or compile the model again"
            )
        return self.function


class FunctionField(FieldType):
    """A Python function of arrays, written in `prototorch.ops`."""

    def describe(self) -> str:
        return "a Python function, in a text its name in quotes"

    def label(self) -> str:
        return "function"

    def convert(self, value: Any) -> PythonFunction:
        if isinstance(value, PythonFunction):
            return value
        if isinstance(value, str):
            return PythonFunction(value, (_custom_objects.get() or {}).get(value))
        if callable(value):
            return PythonFunction(function_name(value), value)
        raise ValidationError

    def write(self, value: PythonFunction) -> Any:
        return super().write(value.name)


@dataclass(frozen=True)
class CallableField(FieldType):
    """Any Python function; a text cannot hold one, and messages end with ``hint``."""

    hint: str = ""

    def describe(self) -> str:
        return "a Python function"

    def label(self) -> str:
        return "function"

    def convert(self, value: Any) -> Any:
        if callable(value):
            return value
        raise ValidationError

    def read(self, value: Value, report: Report) -> Any:
        raise ValidationError(f"is a Python function, which a text cannot hold{self.hint}")


def function_name(function: Any) -> str:
    """The name of a function, of a partially applied one the inner name, of a callable object its class' name."""
    while hasattr(function, "func"):
        function = function.func
    name = getattr(function, "__name__", type(function).__name__)
    return name.strip("<>") or "function"
