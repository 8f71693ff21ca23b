"""Optimizers, by the names and definitions of Keras; learning rate schedules are in `schedules`."""

from typing import Any

from prototorch.optimizers import schedules as schedules
from prototorch.optimizers.base import Optimizer
from prototorch.optimizers.schedules.base import Schedule
from prototorch.schema.namespace import Namespace

_NAMESPACE = Namespace(__name__, Optimizer, (Schedule, "pt.schedules"))
__all__ = _NAMESPACE.all_names()


def __getattr__(name: str) -> Any:
    return _NAMESPACE.get(name)


def __dir__() -> list[str]:
    return _NAMESPACE.names()
