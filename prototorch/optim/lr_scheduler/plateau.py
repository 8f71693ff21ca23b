"""A schedule that watches a value."""

from __future__ import annotations

import math
from typing import Any

from prototorch.errors import UsageError, warn_user
from prototorch.optim.lr_scheduler.base import LRScheduler, as_number, check_optimizer, per_group, rates_of, set_rate
from prototorch.optim.optimizer import Optimizer

__all__ = ["ReduceLROnPlateau"]


class ReduceLROnPlateau(LRScheduler):
    """The rate times ``factor`` where a value, given to `step`, has not become better for ``patience`` epochs.

    Args:
        optimizer: whose rates are set.
        mode: "min" or "max": what is better.
        factor: below 1.
        patience: the number of epochs without an improvement that are allowed.
        threshold: the smallest improvement that counts, a share of the best value ("rel") or absolute ("abs").
        threshold_mode: "rel" or "abs".
        cooldown: epochs after a reduction that are not counted.
        min_lr: the lowest rate, a number or a list with one for each group.
        eps: a smaller change of a rate is left out.

    Raises UsageError for arguments out of range.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: Any = 0,
        eps: float = 1e-8,
    ):
        if factor >= 1:
            raise UsageError(f"factor must be below 1, got {factor}")
        if mode not in ("min", "max"):
            raise UsageError(f"mode is {mode!r}; it must be 'min' or 'max'")
        if threshold_mode not in ("rel", "abs"):
            raise UsageError(f"threshold_mode is {threshold_mode!r}; it must be 'rel' or 'abs'")
        check_optimizer(optimizer)
        self.optimizer, self.factor, self.patience, self.cooldown, self.eps = optimizer, factor, patience, cooldown, eps
        self.mode, self.threshold, self.threshold_mode = mode, threshold, threshold_mode
        self.default_min_lr = None if isinstance(min_lr, list | tuple) else min_lr
        self.min_lrs = per_group("min_lr", optimizer, min_lr)
        self.last_epoch = 0
        self._last_lr = rates_of(optimizer)
        self.best = math.inf if mode == "min" else -math.inf
        self.cooldown_counter = self.num_bad_epochs = 0

    @property
    def in_cooldown(self) -> bool:
        """Whether epochs are not counted, after a reduction."""
        return self.cooldown_counter > 0

    def step(self, metrics: Any, epoch: Any = None) -> None:  # type: ignore[override]
        """Take the value of an epoch, a number or a tensor of one element."""
        value = float(metrics)
        if epoch is not None:
            warn_user("lr_scheduler.step(..., epoch) is deprecated in PyTorch: leave out the epoch", UserWarning)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._is_better(value):
            self.best, self.num_bad_epochs = value, 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce()
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = rates_of(self.optimizer)

    def _is_better(self, value: float) -> bool:
        sign = -1 if self.mode == "min" else 1
        if self.threshold_mode == "abs":
            return sign * value > sign * self.best + self.threshold
        return sign * value > sign * self.best * (1 + sign * self.threshold)

    def _reduce(self) -> None:
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise UsageError(
                    f"min_lr has {len(self.min_lrs)} values, and the optimizer has {len(groups)} groups now"
                )
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, lowest in zip(groups, self.min_lrs, strict=True):
            last = as_number(group["lr"])
            rate = max(last * self.factor, lowest)
            if last - rate > self.eps:
                set_rate(group, rate)
