"""Arguments of Keras that mean nothing here: the values that change nothing are taken, others are refused with a hint.

One table stands at each class or method that has such arguments; `accept_arguments` reads it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, NamedTuple, TypeVar

from prototorch.errors import UsageError, did_you_mean

__all__ = [
    "NeutralArgument",
    "drop_neutral",
    "explain_arguments",
    "name_arguments",
    "neutral",
    "neutral_arguments",
    "positional_names",
]

_Method = TypeVar("_Method", bound=Callable[..., Any])


class NeutralArgument(NamedTuple):
    """An argument that a caller of Keras may give. values: those that change nothing, None for any; hint: what to do
    instead of giving another one."""

    values: tuple[Any, ...] | None
    hint: str

    def accepts(self, value: Any) -> bool:
        """Whether the value changes nothing."""
        if self.values is None:
            return True
        return any((type(value) is type(v) and value == v) or value is v for v in self.values)


def neutral(*values: Any, hint: str) -> NeutralArgument:
    """An argument with the values that change nothing; with none, any value does."""
    return NeutralArgument(values or None, hint)


def drop_neutral(what: str, table: Mapping[str, NeutralArgument], arguments: dict[str, Any]) -> None:
    """Remove the arguments of a table. Raises UsageError for a value that would mean something, with the hint."""
    for name in [n for n in arguments if n in table]:
        value = arguments.pop(name)
        if not table[name].accepts(value):
            raise UsageError(f"{what}: {name}={value!r:.60} is not possible here: {table[name].hint}")


def neutral_arguments(cls: Any) -> dict[str, NeutralArgument]:
    """The arguments of a `Block` class that have no meaning here, with those of its bases."""
    table: dict[str, NeutralArgument] = {}
    for base in reversed(cls.__mro__):
        table.update(vars(base).get("neutral_arguments", {}))
    return table


def positional_names(cls: Any) -> tuple[str, ...]:
    """The fields of a `Block` class that may be given by position: its ``positional``, or all in their order but those
    that it or a base of it lists as ``keyword_only``."""
    keyword_only: set[str] = set()
    for base in cls.__mro__:
        if vars(base).get("positional") is not None:
            return tuple(base.positional)
        if vars(base).get("declared_fields"):
            break
    for base in cls.__mro__:
        keyword_only.update(vars(base).get("keyword_only", ()))
    return tuple(name for name in cls.specs() if name not in keyword_only)


def name_arguments(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Enter arguments by position into those by name. Raises UsageError for too many, or one that is there already."""
    positional = positional_names(cls) if args else ()
    if len(args) > len(positional):
        names = f" ({', '.join(positional)})" if positional else ""
        raise UsageError(
            f"{cls.__name__} takes at most {len(positional)} arguments by position{names}, got {len(args)}; "
            "give the others by name."
        )
    for name, value in zip(positional, args, strict=False):
        if name in kwargs:
            raise UsageError(f"{cls.__name__}.{name} is given twice.")
        kwargs[name] = value


def explain_arguments(
    table: Mapping[str, NeutralArgument] | None = None, aliases: Mapping[str, str] | None = None
) -> Callable[[_Method], _Method]:
    """A decorator of a public method: unknown arguments are a UsageError with a hint.

    table: arguments of Keras, see `NeutralArgument`. aliases: other names of its own arguments.
    """

    def decorate(method: _Method) -> _Method:
        signature = inspect.signature(method)
        parameters = list(signature.parameters)
        takes_any = any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())
        names = [n for n in parameters if n != "self"]
        what = method.__qualname__

        @wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            for name in [n for n in kwargs if n not in signature.parameters]:
                if aliases and name in aliases and aliases[name] not in kwargs:
                    kwargs[aliases[name]] = kwargs.pop(name)
            if table:
                drop_neutral(what, table, kwargs)
            try:
                return method(*args, **kwargs)
            except TypeError:
                if not takes_any:
                    _check_names(what, names, kwargs)
                _check_binding(what, signature, args, kwargs)
                raise

        return call  # type: ignore[return-value]

    return decorate


def _check_names(what: str, names: Iterable[str], kwargs: Mapping[str, Any]) -> None:
    names = list(names)
    for name in kwargs:
        if name not in names:
            hint = did_you_mean(name, names) or f" It has {', '.join(names)}."
            raise UsageError(f"{what} has no argument {name!r}.{hint}")


def _check_binding(what: str, signature: inspect.Signature, args: Any, kwargs: Mapping[str, Any]) -> None:
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise UsageError(f"{what}: {error}") from None
