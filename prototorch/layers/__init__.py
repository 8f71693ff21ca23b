"""The layers. One file per layer or close family; a class that is there is registered."""

from typing import Any

from prototorch.layers.base import Layer
from prototorch.schema.namespace import Namespace

_NAMESPACE = Namespace(__name__, Layer)
__all__ = _NAMESPACE.all_names()


def __getattr__(name: str) -> Any:
    return _NAMESPACE.get(name)


def __dir__() -> list[str]:
    return _NAMESPACE.names()
