"""The base classes of schedules: they set the learning rate of each parameter group after each epoch or step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from prototorch.base.declared_family import DeclaredFamily
from prototorch.eager.tensor import Tensor
from prototorch.errors import UsageError, warn_user
from prototorch.optim.optimizer import Optimizer

__all__ = ["GroupScheduler", "LRScheduler", "check_optimizer", "per_group", "rates_of", "set_rate"]


class LRScheduler(DeclaredFamily, family="lr_scheduler"):
    """A schedule of an optimizer's learning rates. A subclass defines `get_lr`.

    Args:
        optimizer: its groups get "initial_lr".
        last_epoch: the number of `step` calls before; -1 begins.

    Attributes:
        base_lrs: the learning rates at the begin. last_epoch: the epoch of the rates that are set.

    Raises TypeError for what is no optimizer, UsageError where a schedule is resumed and groups have no "initial_lr".
    """

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1):
        check_optimizer(optimizer)
        self.optimizer = optimizer
        for number, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", as_number(group["lr"]))
            elif "initial_lr" not in group:
                raise UsageError(
                    f"parameter group {number} has no 'initial_lr', which a schedule that is resumed (last_epoch="
                    f"{last_epoch}) goes out from: load the optimizer's state first, or begin with last_epoch=-1"
                )
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._step_count = 0
        self._is_initial = self._is_stepping = False
        self._last_lr: list[Any] = []
        self.restart()

    def restart(self) -> None:
        """Set the rates of the first epoch."""
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def get_lr(self) -> list[Any]:
        """The learning rates of the groups in ``last_epoch``; called by `step`. Users want `get_last_lr`."""
        raise NotImplementedError(f"{type(self).__name__} must define get_lr()")

    def get_last_lr(self) -> list[Any]:
        """The learning rates of the groups that were set last."""
        return self._last_lr

    def step(self, epoch: Any = None) -> None:
        """Set the rates of the next epoch, or, which PyTorch advises against, of ``epoch``."""
        if self._step_count == 1 and not self.optimizer.has_stepped:
            warn_user(
                "lr_scheduler.step() was called before optimizer.step(), so that the first learning rate is not used: "
                "call optimizer.step() first",
                UserWarning,
            )
        self._step_count += 1
        if epoch is None:
            self.last_epoch += 1
            self.apply_rates(self.rates())
        else:
            warn_user("lr_scheduler.step(epoch) is deprecated in PyTorch: call step() once an epoch", UserWarning)
            self.move_to(epoch)

    def move_to(self, epoch: Any) -> None:
        """Set the rates of an epoch without going through those before it."""
        self.last_epoch = epoch
        self.apply_rates(self.closed_rates())

    def rates(self) -> list[Any]:
        """What `get_lr` gives inside a step."""
        self._is_stepping = True
        try:
            return list(self.get_lr())
        finally:
            self._is_stepping = False

    def closed_rates(self) -> list[Any]:
        """The rates as a function of the epoch alone, where the schedule has one."""
        return self.rates()

    def apply_rates(self, rates: Sequence[Any]) -> None:
        """Set the learning rates of the groups."""
        if len(rates) != len(self.optimizer.param_groups):
            raise UsageError(
                f"{type(self).__name__} gives {len(rates)} learning rates, and the optimizer has "
                f"{len(self.optimizer.param_groups)} parameter groups"
            )
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            set_rate(group, rate)
        self._last_lr = rates_of(self.optimizer)

    def state_dict(self) -> dict[str, Any]:
        """All attributes except the optimizer; functions are left out."""
        return {name: value for name, value in self.__dict__.items() if name != "optimizer" and not callable(value)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        self.__dict__.update(state_dict)


class GroupScheduler(LRScheduler, abstract=True):
    """A schedule that gives the rate of one group from its last one, so that several schedules can be chained."""

    def get_lr(self) -> list[Any]:
        """As `LRScheduler.get_lr`."""
        if not self._is_stepping:
            warn_user("get_lr() computes a rate anew: get_last_lr() gives the last one", UserWarning)
        groups = self.optimizer.param_groups
        return [
            self.rate(as_number(group["lr"]), base, i)
            for i, (group, base) in enumerate(zip(groups, self.base_lrs, strict=True))
        ]

    def rate(self, last: float, base: float, group: int) -> float:
        """The rate of a group in ``last_epoch`` from that of the epoch before and its initial one."""
        raise NotImplementedError

    def closed_rates(self) -> list[Any]:
        """As `LRScheduler.closed_rates`."""
        return [self.closed_rate(base, i) for i, base in enumerate(self.base_lrs)]

    def closed_rate(self, base: float, group: int) -> float:
        """The rate of a group in ``last_epoch`` from its initial one."""
        return self.rate(as_number(self.optimizer.param_groups[group]["lr"]), base, group)


def as_number(value: Any) -> Any:
    """A learning rate as a Python number."""
    return float(value) if isinstance(value, Tensor) else value


def rates_of(optimizer: Optimizer) -> list[Any]:
    """The learning rates of the groups, as numbers."""
    return [as_number(group["lr"]) for group in optimizer.param_groups]


def set_rate(group: dict[str, Any], rate: Any) -> None:
    """Set a group's learning rate; a tensor takes the number."""
    last = group["lr"]
    if isinstance(last, Tensor):
        last.interpreter.write(last, last.interpreter.constant(np.asarray(as_number(rate), last.spec.dtype)))
    else:
        group["lr"] = as_number(rate)


def check_optimizer(optimizer: Any) -> None:
    """Raise TypeError for what is no optimizer."""
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"a schedule needs an optimizer of prototorch.optim, got a {type(optimizer).__name__}")


def per_group(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """A list with a value for each group. Raises UsageError for a list of another length."""
    count = len(optimizer.param_groups)
    if not isinstance(value, list | tuple):
        return [value] * count
    if len(value) != count:
        raise UsageError(f"{name} has {len(value)} values, and the optimizer has {count} parameter groups")
    return list(value)
