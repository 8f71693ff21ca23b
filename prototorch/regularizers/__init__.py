"""Regularizers, by the names of Keras: penalties on a weight that are added to the loss."""

from typing import Any

from prototorch.regularizers.base import Regularizer
from prototorch.schema.namespace import Namespace

_NAMESPACE = Namespace(__name__, Regularizer)
__all__ = _NAMESPACE.all_names()


def __getattr__(name: str) -> Any:
    return _NAMESPACE.get(name)


def __dir__() -> list[str]:
    return _NAMESPACE.names()
