"""Utilities by PyTorch's names: `prototorch.utils.data`, `prototorch.utils.checkpoint`."""

from typing import NoReturn

from prototorch.errors import did_you_mean
from prototorch.utils import checkpoint as checkpoint
from prototorch.utils import data as data

__all__ = ["checkpoint", "data"]


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}.{did_you_mean(name, __all__)}")


def __dir__() -> list[str]:
    return __all__
