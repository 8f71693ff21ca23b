"""The names that a fit will log, which its callbacks are checked against before the first step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from prototorch.errors import UsageError, did_you_mean
from prototorch.metrics.base import Direction

__all__ = ["LogNames"]


@dataclass(frozen=True)
class LogNames:
    """The names that a fit will log: after an ``epoch``, and after a ``batch``.

    directions: whether less ("min") or more ("max") is better of each loss and metric, None for those that do not say.
    has_validation: whether some epoch is validated. is_open: whether a callback of the user comes first, which may add
    names.
    """

    epoch: tuple[str, ...]
    batch: tuple[str, ...]
    directions: Mapping[str, Direction | None]
    has_validation: bool = False
    is_open: bool = False

    @staticmethod
    def of_fit(
        names: Sequence[str],
        directions: Mapping[str, Direction | None],
        has_validation: bool,
        rates: Sequence[str] = ("learning_rate",),
    ) -> LogNames:
        """The names of a fit with these losses and metrics, which are ``loss`` and the others in their order; rates:
        those of the learning rates."""
        validation = [f"val_{name}" for name in names] if has_validation else []
        epoch = (*names, *validation, *rates)
        return LogNames(epoch, (*names, "batch_loss"), directions, has_validation)

    def require(self, name: str, user: str, per_batch: bool = False) -> None:
        """Raise UsageError, with the nearest name, if ``user`` needs a log that there will not be."""
        names = self.batch if per_batch else self.epoch
        if name in names or self.is_open:
            return
        hint = did_you_mean(name, names)
        if name.startswith("val_") and per_batch:
            hint = " Validation results are known after an epoch only."
        elif name.startswith("val_") and not self.has_validation:
            hint = " There are no validation data: give validation_data or validation_split, or name another log."
        raise UsageError(f"{user} {name!r}, but this fit logs {', '.join(names)}.{hint}")
