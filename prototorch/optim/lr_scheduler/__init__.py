"""Schedules of the learning rates of an optimizer of `prototorch.optim`, by PyTorch's names."""

from typing import NoReturn

from prototorch.errors import did_you_mean
from prototorch.optim.lr_scheduler.base import LRScheduler
from prototorch.optim.lr_scheduler.combinations import ChainedScheduler, SequentialLR
from prototorch.optim.lr_scheduler.curves import CosineAnnealingLR, CosineAnnealingWarmRestarts, PolynomialLR
from prototorch.optim.lr_scheduler.cycles import CyclicLR, OneCycleLR
from prototorch.optim.lr_scheduler.factors import (
    ConstantLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    StepLR,
)
from prototorch.optim.lr_scheduler.plateau import ReduceLROnPlateau

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}.{did_you_mean(name, __all__)}")


def __dir__() -> list[str]:
    return __all__
