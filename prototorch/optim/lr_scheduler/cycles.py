"""Cyclical schedules of the learning rate, and of the momentum against it (Smith, 2017 and 2018)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from prototorch.errors import UsageError
from prototorch.optim.lr_scheduler.base import GroupScheduler, check_optimizer, per_group, set_rate
from prototorch.optim.optimizer import Optimizer

__all__ = ["CyclicLR", "OneCycleLR"]


class _MomentumScheduler(GroupScheduler):
    """A schedule that also sets the momentum of SGD or the first beta of Adam."""

    cycle_momentum: bool
    use_beta1: bool

    def prepare_momentum(self, optimizer: Optimizer, lowest: Any, highest: Any, is_new: bool) -> None:
        """Take the bounds of the momentum, and set the highest. Raises UsageError for an optimizer without one."""
        if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
            raise UsageError(f"{type(optimizer).__name__} has no momentum: set cycle_momentum=False")
        self.use_beta1 = "betas" in optimizer.defaults
        self.base_momentums = per_group("base_momentum", optimizer, lowest)
        self.max_momentums = per_group("max_momentum", optimizer, highest)
        if is_new:
            for i, group in enumerate(optimizer.param_groups):
                group["base_momentum"], group["max_momentum"] = self.base_momentums[i], self.max_momentums[i]
                self.set_momentum(group, self.max_momentums[i])

    def set_momentum(self, group: dict[str, Any], momentum: float) -> None:
        """Set a group's momentum or first beta."""
        if self.use_beta1:
            group["betas"] = (momentum, *group["betas"][1:])
        else:
            group["momentum"] = momentum


class CyclicLR(_MomentumScheduler):
    """Triangles between ``base_lr`` and ``max_lr``, of ``step_size_up`` and ``step_size_down`` steps.

    Args:
        optimizer, last_epoch: as for `LRScheduler`; call `step` after each batch.
        base_lr, max_lr, base_momentum, max_momentum: a number, or a list with one for each group.
        step_size_down: default ``step_size_up``.
        mode: "triangular"; "triangular2" halves the height after each cycle; "exp_range" multiplies it by gamma in
            each step.
        scale_fn, scale_mode: in place of ``mode``, a function of the number of the "cycle" or of "iterations".
        cycle_momentum: whether the momentum goes the opposite way.

    Raises UsageError for an unknown mode, and for an optimizer without momentum.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: Any,
        max_lr: Any,
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: Any = 0.8,
        max_momentum: Any = 0.9,
        last_epoch: int = -1,
    ):
        check_optimizer(optimizer)
        base_lrs = per_group("base_lr", optimizer, base_lr)
        self.max_lrs = per_group("max_lr", optimizer, max_lr)
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise UsageError(f"mode is {mode!r}; it must be 'triangular', 'triangular2' or 'exp_range'")
        if scale_mode not in ("cycle", "iterations"):
            raise UsageError(f"scale_mode is {scale_mode!r}; it must be 'cycle' or 'iterations'")
        down = step_size_up if step_size_down is None else step_size_down
        self.total_size = float(step_size_up) + float(down)
        self.step_ratio = step_size_up / self.total_size
        self.mode, self.gamma, self.scale_mode = mode, gamma, scale_mode
        if scale_fn is None:
            self.scale_mode = "iterations" if mode == "exp_range" else "cycle"
        self._scale_fn_custom = scale_fn
        if last_epoch == -1:
            for group, rate in zip(optimizer.param_groups, base_lrs, strict=True):
                set_rate(group, rate)
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.prepare_momentum(optimizer, base_momentum, max_momentum, last_epoch == -1)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def scale_fn(self, x: float) -> float:
        """The height of a cycle, or at an iteration, where 1 is ``max_lr``."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular":
            return 1.0
        return float(0.5 ** (x - 1) if self.mode == "triangular2" else self.gamma**x)

    def rate(self, last: float, base: float, group: int) -> float:
        position = self.last_epoch / self.total_size
        cycle = math.floor(1 + position)
        x = 1 + position - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        height *= self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            low, high = self.base_momentums[group], self.max_momentums[group]
            self.set_momentum(self.optimizer.param_groups[group], high - (high - low) * height)
        return float(base + (self.max_lrs[group] - base) * height)


class OneCycleLR(_MomentumScheduler):
    """One cycle: from max_lr / div_factor to ``max_lr``, and down to max_lr / (div_factor final_div_factor).

    Args:
        optimizer, last_epoch: as for `LRScheduler`; call `step` after each batch.
        max_lr, base_momentum, max_momentum: a number, or a list with one for each group.
        total_steps: the number of steps; or ``epochs`` and ``steps_per_epoch``.
        pct_start: the share of the steps in which the rate grows.
        anneal_strategy: "cos" or "linear".
        cycle_momentum: whether the momentum goes the opposite way.
        three_phase: whether the rate returns to its initial value before it goes to the lowest one.

    Raises UsageError for arguments that are missing or out of range, and in a step beyond ``total_steps``.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: Any,
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: Any = 0.85,
        max_momentum: Any = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ):
        check_optimizer(optimizer)
        self.total_steps = _count_steps(total_steps, epochs, steps_per_epoch)
        if not isinstance(pct_start, float) or not 0 <= pct_start <= 1:
            raise UsageError(f"pct_start must be a float in 0 .. 1, got {pct_start!r:.60}")
        if anneal_strategy not in ("cos", "linear"):
            raise UsageError(f"anneal_strategy is {anneal_strategy!r}; it must be 'cos' or 'linear'")
        self.anneal_strategy, self.cycle_momentum = anneal_strategy, cycle_momentum
        grown, last = pct_start * self.total_steps - 1, self.total_steps - 1
        #: the last step of each phase, and the names of the rates and momenta at its ends
        self.phases: list[tuple[float, str, str, str, str]] = [
            (grown, "initial_lr", "max_lr", "max_momentum", "base_momentum")
        ]
        if three_phase:
            self.phases += [
                (2 * grown, "max_lr", "initial_lr", "base_momentum", "max_momentum"),
                (last, "initial_lr", "min_lr", "max_momentum", "max_momentum"),
            ]
        else:
            self.phases.append((last, "max_lr", "min_lr", "base_momentum", "max_momentum"))
        if last_epoch == -1:
            for group, rate in zip(optimizer.param_groups, per_group("max_lr", optimizer, max_lr), strict=True):
                group["initial_lr"], group["max_lr"] = rate / div_factor, rate
                group["min_lr"] = group["initial_lr"] / final_div_factor
        if cycle_momentum:
            self.prepare_momentum(optimizer, base_momentum, max_momentum, last_epoch == -1)
        super().__init__(optimizer, last_epoch)

    def rate(self, last: float, base: float, group: int) -> float:
        if self.last_epoch > self.total_steps:
            raise UsageError(f"step {self.last_epoch} of a OneCycleLR of {self.total_steps} steps")
        begin, number = 0.0, 0
        while self.last_epoch > self.phases[number][0] and number < len(self.phases) - 1:
            begin, number = self.phases[number][0], number + 1
        end, *names = self.phases[number]
        share = (self.last_epoch - begin) / (end - begin)
        settings = self.optimizer.param_groups[group]
        if self.cycle_momentum:
            self.set_momentum(settings, self._anneal(settings[names[2]], settings[names[3]], share))
        return self._anneal(settings[names[0]], settings[names[1]], share)

    def _anneal(self, start: float, end: float, share: float) -> float:
        if self.anneal_strategy == "linear":
            return (end - start) * share + start
        return end + (start - end) / 2 * (1 + math.cos(math.pi * share))


def _count_steps(total: Any, epochs: Any, steps_per_epoch: Any) -> int:
    if total is None and (epochs is None or steps_per_epoch is None):
        raise UsageError("OneCycleLR needs total_steps, or epochs and steps_per_epoch")
    counts = {"epochs": epochs, "steps_per_epoch": steps_per_epoch} if total is None else {"total_steps": total}
    for name, count in counts.items():
        if not isinstance(count, int) or count <= 0:
            raise UsageError(f"{name} must be a positive integer, got {count!r:.60}")
    return math.prod(counts.values())
