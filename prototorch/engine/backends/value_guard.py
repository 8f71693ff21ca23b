"""The guard of values: a run that reads an index outside of its bounds, divides integers by 0, or takes what is no
probability as one, is refused before it writes a weight.

A plan counts the values that lie outside (see `graph.passes.guard_values`). An executor reads the count before any
state is written, and raises the error that names the first of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from prototorch.errors import IndexRangeError, PrototorchError, UsageError
from prototorch.ops.facts import ValueLimits
from prototorch.ops.value_bounds import is_outside

__all__ = ["COUNT_OUTPUT", "ValueCheck", "raise_value_error"]

#: the output of a graph that counts values outside of their bounds
COUNT_OUTPUT = "values outside"


@dataclass(frozen=True, slots=True)
class ValueCheck:
    """Values that a step reads, and their bounds. message: of the error, with ``{}`` for the first one outside.
    output: the name of the graph's output that holds them."""

    bounds: ValueLimits
    message: str
    output: str = ""

    def find_outside(self, values: Any) -> float | None:
        """The first value that lies outside; None where there is none."""
        flat = np.asarray(values).reshape(-1)
        outside = is_outside(flat, self.bounds)
        return flat[int(outside.argmax())].item() if outside.any() else None

    def error(self, value: float) -> PrototorchError:
        """The error for a value that lies outside."""
        text = self.message.replace("{}", f"{value:.9g}" if isinstance(value, float) else str(value))
        return IndexRangeError(text) if self.bounds.are_indices else UsageError(text)


def raise_value_error(checks: Iterable[tuple[ValueCheck, Any]]) -> None:
    """Raise IndexRangeError for the first index outside, UsageError for another value. checks: each with the array of
    its values, in the host's memory."""
    for check, values in checks:
        value = check.find_outside(values)
        if value is not None:
            raise check.error(value)
