"""Metrics, by Keras' names and meanings."""

import importlib
import pkgutil
from typing import Any

from prototorch.errors import did_you_mean
from prototorch.metrics.base import Metric
from prototorch.metrics.generic_names import resolve_metric as resolve_metric

for _info in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_info.name}")
globals().update({_c.__name__: _c for _c in Metric.members().values()})


def __getattr__(name: str) -> Any:
    """A class that was defined elsewhere; the ones of this folder are names of the module."""
    found = Metric.members().get(name)
    if found is not None:
        return found
    raise AttributeError(f"there is no metric {name!r}.{did_you_mean(name, __dir__())}")


def __dir__() -> list[str]:
    return sorted([*Metric.members()])
