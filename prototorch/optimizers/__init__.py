"""Optimisers and learning rate schedules, by Keras' names and meanings."""

import importlib
import pkgutil
from typing import Any

from prototorch.errors import did_you_mean
from prototorch.optimizers.base import Optimizer
from prototorch.optimizers.schedule import Schedule

for _info in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_info.name}")
globals().update({_c.__name__: _c for _c in (*Optimizer.members().values(), *Schedule.members().values())})


def __getattr__(name: str) -> Any:
    """A class that was defined elsewhere; the ones of this folder are names of the module."""
    found = (Optimizer.members() | Schedule.members()).get(name)
    if found is not None:
        return found
    raise AttributeError(f"there is no optimiser or schedule {name!r}.{did_you_mean(name, __dir__())}")


def __dir__() -> list[str]:
    return sorted([*Optimizer.members(), *Schedule.members()])
