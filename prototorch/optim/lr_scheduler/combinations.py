"""Several schedules together: one after another, or all at once."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from prototorch.errors import UsageError
from prototorch.optim.lr_scheduler.base import LRScheduler, rates_of, set_rate
from prototorch.optim.lr_scheduler.plateau import ReduceLROnPlateau
from prototorch.optim.optimizer import Optimizer

__all__ = ["ChainedScheduler", "SequentialLR"]


class _Schedulers(LRScheduler):
    """What holds schedules of one optimizer."""

    def take(self, optimizer: Optimizer, schedulers: Sequence[LRScheduler]) -> None:
        """Check and keep the schedules. Raises UsageError and TypeError where they cannot be joined."""
        for number, scheduler in enumerate(schedulers):
            if not isinstance(scheduler, LRScheduler):
                raise TypeError(f"schedule {number} is a {type(scheduler).__name__}, expected one of lr_scheduler")
            if isinstance(scheduler, ReduceLROnPlateau):
                raise UsageError(f"schedule {number} is a ReduceLROnPlateau, whose step needs a value: step it alone")
            if scheduler.optimizer is not optimizer:
                raise UsageError(f"schedule {number} belongs to another optimizer")
        self.optimizer, self._schedulers = optimizer, schedulers

    def undo_first_steps(self) -> None:
        """Undo the first steps of the schedules, which they have made when they were made."""
        for scheduler in self._schedulers:
            if isinstance(scheduler, _Schedulers):
                scheduler.undo_first_steps()
            else:
                scheduler.last_epoch -= 1

    def state_dict(self) -> dict[str, Any]:
        """As `LRScheduler.state_dict`, with those of the schedules."""
        return {**super().state_dict(), "_schedulers": [scheduler.state_dict() for scheduler in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "_schedulers"})
        for scheduler, state in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            scheduler.load_state_dict(state)


class SequentialLR(_Schedulers):
    """Schedules one after another: the next one begins, at its epoch 0, in each epoch of ``milestones``.

    Raises UsageError unless there is one schedule more than milestones, all of this optimizer.
    """

    def __init__(
        self, optimizer: Optimizer, schedulers: Sequence[LRScheduler], milestones: Sequence[int], last_epoch: int = -1
    ):
        if not schedulers:
            raise UsageError("SequentialLR needs one or more schedules")
        self.take(optimizer, schedulers)
        if len(milestones) != len(schedulers) - 1:
            raise UsageError(
                f"SequentialLR needs one schedule more than milestones, got {len(schedulers)} schedules and "
                f"{len(milestones)} milestones"
            )
        self._milestones, self.last_epoch = milestones, last_epoch + 1
        for group in optimizer.param_groups:
            set_rate(group, group["initial_lr"])
        self.undo_first_steps()
        self.restart()

    def restart(self) -> None:
        """As `LRScheduler.restart`."""
        first = self._schedulers[bisect_right(self._milestones, 0)]
        first.restart()
        self._last_lr = first.get_last_lr()

    def step(self, epoch: Any = None) -> None:
        """Set the rates of the next epoch."""
        _refuse_epoch(self, epoch)
        self.last_epoch += 1
        number = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[number]
        if number > 0 and self._milestones[number - 1] == self.last_epoch:
            scheduler.move_to(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


class ChainedScheduler(_Schedulers):
    """Several schedules at once: each goes on from the rate that the one before it has set.

    Raises UsageError where there are none, or not all belong to one optimizer.
    """

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None):
        if not schedulers:
            raise UsageError("ChainedScheduler needs one or more schedules")
        self.take(optimizer or schedulers[0].optimizer, schedulers)
        self._last_lr = rates_of(self.optimizer)

    def restart(self) -> None:
        """As `LRScheduler.restart`."""
        for scheduler in self._schedulers:
            scheduler.restart()
        self._last_lr = rates_of(self.optimizer)

    def step(self, epoch: Any = None) -> None:
        """Step all schedules."""
        _refuse_epoch(self, epoch)
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = rates_of(self.optimizer)


def _refuse_epoch(scheduler: LRScheduler, epoch: Any) -> None:
    if epoch is not None:
        raise UsageError(f"{type(scheduler).__name__}.step() takes no epoch")
