"""The guard of indices: a run that reads an index outside of its bounds is refused before it writes a weight.

A plan counts the indices that lie outside (see `graph.passes.guard_indices`). An executor reads the count before any
state is written, and raises the error that names the first of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from prototorch.errors import IndexRangeError

__all__ = ["COUNT_OUTPUT", "IndexCheck", "raise_index_error"]

#: the output of a graph that counts indices outside of their bounds
COUNT_OUTPUT = "indices outside"


@dataclass(frozen=True, slots=True)
class IndexCheck:
    """Indices that a step reads: they must lie in low .. high - 1. message: of the error, with ``{}`` for the first one
    that does not. output: the name of the graph's output that holds them."""

    low: int
    high: int
    message: str
    output: str = ""

    def find_outside(self, indices: Any) -> int | None:
        """The first index that lies outside; None where there is none."""
        flat = np.asarray(indices).reshape(-1)
        outside = (flat < self.low) | (flat >= self.high)
        return int(flat[int(outside.argmax())]) if outside.any() else None

    def error(self, index: int) -> IndexRangeError:
        """The error for an index that lies outside."""
        return IndexRangeError(self.message.replace("{}", str(index)))


def raise_index_error(checks: Iterable[tuple[IndexCheck, Any]]) -> None:
    """Raise IndexRangeError for the first index outside. checks: each with the array of its indices, in the host's
    memory."""
    for check, indices in checks:
        index = check.find_outside(indices)
        if index is not None:
            raise check.error(index)
