"""Schedules by a factor: of a function, at milestones, or the same one in each epoch."""

from __future__ import annotations

import inspect
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from prototorch.errors import UsageError
from prototorch.optim.lr_scheduler.base import GroupScheduler, check_optimizer, per_group
from prototorch.optim.optimizer import Optimizer

__all__ = ["ConstantLR", "ExponentialLR", "LambdaLR", "LinearLR", "MultiStepLR", "MultiplicativeLR", "StepLR"]


class _FunctionScheduler(GroupScheduler):
    """A schedule by functions of the epoch, one for each group or one for all."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Any, last_epoch: int = -1):
        check_optimizer(optimizer)
        self.lr_lambdas: list[Callable[[int], float]] = per_group("lr_lambda", optimizer, lr_lambda)
        for function in self.lr_lambdas:
            if not callable(function):
                raise TypeError(f"lr_lambda must be a function of the epoch, got a {type(function).__name__}")
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """As `LRScheduler.state_dict`; of objects that are called, their attributes."""
        objects = [None if inspect.isfunction(f) else dict(f.__dict__) for f in self.lr_lambdas]
        return {**super().state_dict(), "lr_lambdas": objects}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """As `LRScheduler.load_state_dict`; functions remain."""
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "lr_lambdas"})
        for function, attributes in zip(self.lr_lambdas, state_dict["lr_lambdas"], strict=True):
            if attributes is not None:
                function.__dict__.update(attributes)


class LambdaLR(_FunctionScheduler):
    """The initial rate times ``lr_lambda(epoch)``; a function for all groups, or a list with one for each."""

    def rate(self, last: float, base: float, group: int) -> float:
        return base * self.lr_lambdas[group](self.last_epoch)


class MultiplicativeLR(_FunctionScheduler):
    """The last rate times ``lr_lambda(epoch)``, from epoch 1 on."""

    def rate(self, last: float, base: float, group: int) -> float:
        return last if self._is_initial else last * self.lr_lambdas[group](self.last_epoch)


class StepLR(GroupScheduler):
    """The rate times ``gamma`` after each ``step_size`` epochs."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1):
        if step_size < 1:
            raise UsageError(f"step_size must be at least 1 epoch, got {step_size}")
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def rate(self, last: float, base: float, group: int) -> float:
        return last * self.gamma if self.last_epoch and self.last_epoch % self.step_size == 0 else last

    def closed_rate(self, base: float, group: int) -> float:
        return base * self.gamma ** (self.last_epoch // self.step_size)


class MultiStepLR(GroupScheduler):
    """The rate times ``gamma`` in each epoch of ``milestones``; one that is listed twice counts twice."""

    def __init__(self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1):
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def rate(self, last: float, base: float, group: int) -> float:
        return last * self.gamma ** self.milestones[self.last_epoch] if self.last_epoch in self.milestones else last

    def closed_rate(self, base: float, group: int) -> float:
        return base * self.gamma ** bisect_right(sorted(self.milestones.elements()), self.last_epoch)


class ConstantLR(GroupScheduler):
    """The rate times ``factor`` until epoch ``total_iters``."""

    def __init__(self, optimizer: Optimizer, factor: float = 1 / 3, total_iters: int = 5, last_epoch: int = -1):
        if not 0 <= factor <= 1:
            raise UsageError(f"factor must be in 0 .. 1, got {factor}")
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def rate(self, last: float, base: float, group: int) -> float:
        if self.last_epoch == 0:
            return last * self.factor
        return last * (1 / self.factor) if self.last_epoch == self.total_iters else last

    def closed_rate(self, base: float, group: int) -> float:
        return base * (self.factor + (self.last_epoch >= self.total_iters) * (1 - self.factor))


class LinearLR(GroupScheduler):
    """The rate times a factor that goes linearly from ``start_factor`` to ``end_factor`` in ``total_iters`` epochs."""

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ):
        if not 0 < start_factor <= 1:
            raise UsageError(f"start_factor must be above 0 and at most 1, got {start_factor}")
        if not 0 <= end_factor <= 1:
            raise UsageError(f"end_factor must be in 0 .. 1, got {end_factor}")
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def rate(self, last: float, base: float, group: int) -> float:
        if self.last_epoch == 0:
            return last * self.start_factor
        if self._is_initial or self.last_epoch > self.total_iters:
            return last
        slope = self.end_factor - self.start_factor
        return last * (1 + slope / (self.total_iters * self.start_factor + (self.last_epoch - 1) * slope))

    def closed_rate(self, base: float, group: int) -> float:
        share = min(self.total_iters, self.last_epoch) / self.total_iters
        return base * (self.start_factor + (self.end_factor - self.start_factor) * share)


class ExponentialLR(GroupScheduler):
    """The rate times ``gamma`` in each epoch."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1):
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def rate(self, last: float, base: float, group: int) -> float:
        return last if self._is_initial else last * self.gamma

    def closed_rate(self, base: float, group: int) -> float:
        return float(base * self.gamma**self.last_epoch)
