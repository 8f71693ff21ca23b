"""Initializers of weights, by the names and definitions of Keras."""

from typing import Any

from prototorch.initializers.base import Initializer
from prototorch.schema.namespace import Namespace

_NAMESPACE = Namespace(__name__, Initializer)
__all__ = _NAMESPACE.all_names()


def __getattr__(name: str) -> Any:
    return _NAMESPACE.get(name)


def __dir__() -> list[str]:
    return _NAMESPACE.names()
