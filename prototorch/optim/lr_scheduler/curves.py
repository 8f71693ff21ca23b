"""Schedules along a polynomial or a cosine."""

from __future__ import annotations

import math
from typing import Any

from prototorch.errors import UsageError
from prototorch.optim.lr_scheduler.base import GroupScheduler
from prototorch.optim.optimizer import Optimizer

__all__ = ["CosineAnnealingLR", "CosineAnnealingWarmRestarts", "PolynomialLR"]


class PolynomialLR(GroupScheduler):
    """The initial rate times (1 - epoch / total_iters)^power."""

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1):
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def rate(self, last: float, base: float, group: int) -> float:
        if self._is_initial or self.last_epoch > self.total_iters:
            return last
        before, now = (1 - epoch / self.total_iters for epoch in (self.last_epoch - 1, self.last_epoch))
        return last * float((now / before) ** self.power)

    def closed_rate(self, base: float, group: int) -> float:
        return base * float((1 - min(self.total_iters, self.last_epoch) / self.total_iters) ** self.power)


class CosineAnnealingLR(GroupScheduler):
    """From the initial rate along half a cosine to ``eta_min`` in ``T_max`` epochs (Loshchilov and Hutter, 2017)."""

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1):
        if T_max <= 0:
            raise UsageError(f"T_max must be above 0 epochs, got {T_max}")
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def rate(self, last: float, base: float, group: int) -> float:
        if self._is_initial:
            return last
        if self._step_count == 1 and self.last_epoch > 0:
            return self.closed_rate(base, group)
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:  # the last rate was the lowest one
            return last + (base - self.eta_min) * (1 - math.cos(math.pi / self.T_max)) / 2
        return (last - self.eta_min) * self._height(self.last_epoch) / self._height(self.last_epoch - 1) + self.eta_min

    def closed_rate(self, base: float, group: int) -> float:
        return self.eta_min + (base - self.eta_min) * self._height(self.last_epoch) / 2

    def _height(self, epoch: float) -> float:
        return 1 + math.cos(math.pi * epoch / self.T_max)


class CosineAnnealingWarmRestarts(GroupScheduler):
    """Half cosines to ``eta_min``, the first of ``T_0`` epochs, each ``T_mult`` times as long as the one before.

    ``step(epoch)`` with a fraction of an epoch sets the rate inside an epoch.
    """

    def __init__(self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1):
        for name, value in (("T_0", T_0), ("T_mult", T_mult)):
            if not isinstance(value, int) or value < 1:
                raise UsageError(f"{name} must be an integer of at least 1, got {value!r:.60}")
        if not isinstance(eta_min, float | int):
            raise UsageError(f"eta_min must be a number, got {eta_min!r:.60}")
        self.T_0 = self.T_i = T_0
        self.T_mult, self.eta_min, self.T_cur = T_mult, eta_min, last_epoch
        super().__init__(optimizer, last_epoch)

    def rate(self, last: float, base: float, group: int) -> float:
        return self.eta_min + (base - self.eta_min) * (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2

    def step(self, epoch: Any = None) -> None:
        """Set the rates of the next epoch, or of ``epoch``, which may be a fraction.

        Raises UsageError for a negative one.
        """
        if epoch is None and self.last_epoch >= 0:
            self.last_epoch += 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur, self.T_i = self.T_cur % self.T_i, self.T_i * self.T_mult
            self.apply_rates(self.rates())
        else:
            self.move_to(0 if epoch is None else epoch)

    def move_to(self, epoch: Any) -> None:
        """As `LRScheduler.move_to`."""
        if epoch < 0:
            raise UsageError(f"the epoch must be at least 0, got {epoch}")
        if epoch < self.T_0:
            self.T_cur, self.T_i = epoch, self.T_0
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            count = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            self.T_i = self.T_0 * self.T_mult**count
            self.T_cur = epoch - self.T_0 * (self.T_mult**count - 1) / (self.T_mult - 1)
        self.last_epoch = math.floor(epoch)
        self.apply_rates(self.rates())
