"""Losses, by the names and definitions of Keras: classes, and functions by the names in snake_case."""

import importlib
from typing import Any

from prototorch.base.index import entries
from prototorch.errors import did_you_mean, explain_word
from prototorch.losses.base import Loss
from prototorch.schema.namespace import Namespace

_NAMESPACE = Namespace(__name__, Loss)


def _function_names() -> list[str]:
    """The names of losses that are no class's own: ``mean_squared_error``, ``mse``; a module keeps its name."""
    modules = {entry.module.rpartition(".")[2] for entry in entries("loss")}
    return sorted(set(Loss.family_registry.names()) - set(Loss.member_names()) - modules)  # type: ignore[union-attr]


__all__ = [*_NAMESPACE.all_names(), *_function_names()]


def __getattr__(name: str) -> Any:
    if name in _function_names():
        function = importlib.import_module("prototorch.losses.direct_call").LossFunction(name)
        globals()[name] = function
        return function
    try:
        return _NAMESPACE.get(name)
    except AttributeError:
        is_foreign = bool(explain_word(f"losses.{name}", in_module=True))
        hint = did_you_mean(name, _function_names()) if name[:1].islower() and not is_foreign else ""
        if not hint:
            raise
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}.{hint}") from None


def __dir__() -> list[str]:
    return [*_NAMESPACE.names(), *_function_names()]
