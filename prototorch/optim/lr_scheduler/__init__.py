"""Schedules of the learning rates of an optimizer of `prototorch.optim`, by PyTorch's names."""

from typing import Any

from prototorch.base.public_names import PublicNames

_NAMES = PublicNames(__name__, {"base": "LRScheduler"}, family="lr_scheduler")
__all__ = _NAMES.names()


def __getattr__(name: str) -> Any:
    return _NAMES.get(name)


def __dir__() -> list[str]:
    return __all__
