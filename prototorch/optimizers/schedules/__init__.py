"""Learning rate schedules, by the names and formulas of Keras."""

from typing import Any

from prototorch.optimizers.schedules.base import Schedule
from prototorch.schema.namespace import Namespace

_NAMESPACE = Namespace(__name__, Schedule)
__all__ = _NAMESPACE.all_names()


def __getattr__(name: str) -> Any:
    return _NAMESPACE.get(name)


def __dir__() -> list[str]:
    return _NAMESPACE.names()
