"""The layers. One file per layer or close family; a class that is there is registered."""

import importlib
import pkgutil
from typing import Any

from prototorch.errors import did_you_mean
from prototorch.layers.base import Layer

for _info in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_info.name}")
globals().update({_c.__name__: _c for _c in Layer.members().values()})


def __getattr__(name: str) -> Any:
    """A class that was defined elsewhere; the ones of this folder are names of the module."""
    layer = Layer.members().get(name)
    if layer is not None:
        return layer
    raise AttributeError(f"there is no layer {name!r}.{did_you_mean(name, __dir__())}")


def __dir__() -> list[str]:
    return sorted([*Layer.members()])
