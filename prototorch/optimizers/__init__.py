"""Optimizers, by the names and definitions of Keras; learning rate schedules are in `schedules`."""

from typing import Any

from prototorch.optimizers import schedules as schedules
from prototorch.optimizers.base import Optimizer
from prototorch.optimizers.schedules.base import Schedule
from prototorch.schema.namespace import Namespace

_NAMESPACE = Namespace(__name__, Optimizer, {name: f"pt.schedules.{name}" for name in Schedule.members()})
__all__ = _NAMESPACE.load(__path__)


def __getattr__(name: str) -> Any:
    return _NAMESPACE.get(name)


def __dir__() -> list[str]:
    return _NAMESPACE.names()
