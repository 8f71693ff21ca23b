"""The learning rates of a model's optimizers, by the names of these."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import numpy as np

from prototorch.errors import UsageError, did_you_mean
from prototorch.schema import field
from prototorch.schema.block_source import find_span
from prototorch.text.diagnostics import located

__all__ = ["LearningRates", "check_rate", "optimizer_field", "rates_to_change"]


class RateHolder(Protocol):
    """An object with a learning rate for each optimizer."""

    def optimizer_names(self) -> tuple[str, ...]:
        """The names of the optimizers, in their order."""

    def learning_rate_of(self, name: str) -> float:
        """The learning rate of the next step of an optimizer."""

    def set_learning_rate_of(self, name: str, rate: float) -> None:
        """Override the learning rate of an optimizer."""


class LearningRates(Mapping[str, float]):
    """The learning rates of the next step by the names of the optimizers; ``rates["critic"] = 1e-4`` overrides one.

    Raises UsageError for an unknown name, and for a rate that is no finite number of at least 0.
    """

    def __init__(self, holder: RateHolder):
        self._holder = holder

    def __getitem__(self, name: str) -> float:
        return self._holder.learning_rate_of(self._existing(name))

    def __setitem__(self, name: str, rate: float) -> None:
        self._holder.set_learning_rate_of(self._existing(name), check_rate(rate))

    def __iter__(self) -> Iterator[str]:
        return iter(self._holder.optimizer_names())

    def __len__(self) -> int:
        return len(self._holder.optimizer_names())

    def __contains__(self, name: object) -> bool:
        return name in self._holder.optimizer_names()

    def __repr__(self) -> str:
        return repr(dict(self))

    def _existing(self, name: str) -> str:
        names = self._holder.optimizer_names()
        if name not in names:
            raise UsageError(
                f"there is no optimizer named {name!r}; there are {', '.join(names)}.{did_you_mean(str(name), names)}"
            )
        return name


def optimizer_field() -> Any:
    """The field of a callback that says which optimizer's learning rate it changes."""
    return field(default=None, doc="The optimizer whose learning rate it is, by its name; those of all where left out.")


def rates_to_change(model: Any, callback: Any) -> list[str]:
    """The names of the optimizers whose learning rates a callback with an `optimizer_field` changes.

    Raises UsageError, at the field, for an unknown name.
    """
    rates: LearningRates = model.learning_rates
    if callback.optimizer is None:
        return list(rates)
    with located(find_span(callback, "optimizer")):
        rates[callback.optimizer]
    return [callback.optimizer]


def check_rate(value: Any) -> float:
    """A learning rate as a float. Raises UsageError for a value that is no finite number of at least 0."""
    is_number = not isinstance(value, bool | str | bytes) and np.ndim(value) == 0 and value is not None
    rate = float(value) if is_number else math.nan
    if not 0 <= rate < math.inf:
        raise UsageError(f"learning_rate must be a number of at least 0, not {value!r}")
    return rate
