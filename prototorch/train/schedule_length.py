"""Whether the schedule of the learning rate fits the length of a fit."""

from __future__ import annotations

from prototorch.errors import ModelWarning, UsageError, warn_user
from prototorch.optimizers.schedules.base import Schedule

__all__ = ["check_schedule"]

_TOLERANCE = 0.1  # of the fit's length, by which the end of a schedule may differ from it
_NEGLIGIBLE = 1e-3  # of the highest learning rate; with less than that hardly anything is learned


def check_schedule(schedule: Schedule, first: tuple[int, int], last: tuple[int | None, int]) -> None:
    """Warn (ModelWarning) if a fit ends long before its schedule has come down, or goes on long after that with a
    learning rate of almost 0.

    first, last: numbers of (steps, epochs) at the begin and at the end of the fit; steps are None where not known.
    Raises UsageError for a schedule that counts epochs if the number of steps is not known.
    """
    if schedule.unit == "epochs" and last[0] is None:
        raise UsageError(
            f"{type(schedule).__name__} has unit: epochs, but how many steps an epoch has is not known: give "
            "steps_per_epoch, or unit: steps"
        )
    index = 1 if schedule.unit == "epochs" else 0
    begin, stop, end = first[index], last[index], schedule.end()
    if stop is None or end is None or stop <= begin:
        return
    name, unit = type(schedule).__name__, schedule.unit
    highest = max(schedule.value(begin + (stop - begin) * i / 64) for i in range(64))
    if end > stop * (1 + _TOLERANCE) and begin == 0:
        warn_user(
            f"the schedule {name} comes down until {end:,.10g} {unit}, but this fit ends after {stop:,} {unit}, with a "
            f"learning rate of {schedule.value(stop):.3g}: {_advice(unit)}",
            ModelWarning,
        )
    elif end < stop * (1 - _TOLERANCE) and schedule.value(end) <= _NEGLIGIBLE * highest:
        warn_user(
            f"the schedule {name} has come down after {end:,.10g} {unit}, but this fit goes on until {stop:,} {unit}, "
            f"with a learning rate of {schedule.value(stop):.3g}: {_advice(unit)}",
            ModelWarning,
        )


def _advice(unit: str) -> str:
    hint = ", or give it in epochs (unit: epochs)" if unit == "steps" else ""
    return f"change the schedule or the number of epochs so that both agree{hint}"
