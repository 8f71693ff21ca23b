"""Constraints, by the names of Keras: a weight is projected onto a set after each update."""

from typing import Any

from prototorch.constraints.base import Constraint
from prototorch.schema.namespace import Namespace

_NAMESPACE = Namespace(__name__, Constraint)
__all__ = _NAMESPACE.all_names()


def __getattr__(name: str) -> Any:
    return _NAMESPACE.get(name)


def __dir__() -> list[str]:
    return _NAMESPACE.names()
