"""The range of a column's values, and whether other data have another one: pixels from 0 to 1 for pixels to 255."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from prototorch.data.columns import dtype_name
from prototorch.data.dataset import Dataset

__all__ = ["ValueRange", "find_range_difference", "measure_column", "measure_values"]

MAX_ELEMENTS = 1 << 18  # elements that are looked at
MAX_FEATURES = 64  # vectors of at most so many elements have a range for each
MIN_ELEMENTS = 8  # fewer elements may be small by chance
FAR_OUTSIDE = 20.0  # a value this many widths beyond the range is in another unit
FAR_BELOW = 50.0  # so are values that are all smaller by this factor


@dataclass(frozen=True)
class ValueRange:
    """The smallest and the largest value of a column.

    dtype: of the column. low, high: one number for the column, or one for each feature of a table.
    size: the number of elements that were looked at.
    """

    dtype: str
    low: tuple[float, ...]
    high: tuple[float, ...]
    size: int = MIN_ELEMENTS

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest value of all features."""
        return min(self.low), max(self.high)

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {"dtype": self.dtype, "low": list(self.low), "high": list(self.high)}

    @staticmethod
    def from_json(value: object) -> ValueRange:
        """The inverse of `to_json`. Raises ValueError for anything else."""
        if not isinstance(value, Mapping) or set(value) != {"dtype", "low", "high"}:
            raise ValueError("a range must have dtype, low and high")
        dtype, low, high = value["dtype"], value["low"], value["high"]
        for numbers in (low, high):
            if not isinstance(numbers, list) or not 1 <= len(numbers) <= MAX_FEATURES:
                raise ValueError(f"low and high must be lists of 1 to {MAX_FEATURES} numbers")
            if not all(isinstance(n, int | float) and not isinstance(n, bool) and math.isfinite(n) for n in numbers):
                raise ValueError("low and high must be finite numbers")
        if not isinstance(dtype, str) or len(dtype) > 16 or not dtype.isalnum() or len(low) != len(high):
            raise ValueError("low and high must have one number each for every feature of a dtype")
        return ValueRange(dtype, tuple(map(float, low)), tuple(map(float, high)))

    def __str__(self) -> str:
        low, high = self.bounds
        return f"{low:.6g} to {high:.6g} ({self.dtype})"


def measure_column(dataset: Dataset, column: str) -> ValueRange | None:
    """The range of a column: of evenly spaced samples in memory; of bytes that are read from files 0 to 255; else of
    the first sample. None where it cannot be read or is not finite."""
    values = dataset.column_array(column)
    if values is not None:
        return measure_values(values)
    if dataset.columns[column].dtype == "uint8":
        return ValueRange("uint8", (0.0,), (255.0,), dataset.columns[column].size)
    columns, _, _ = dataset.read_valid(np.array([0]))
    return measure_values(columns[column].reshape(-1, 1, 1)) if column in columns else None


def measure_values(values: np.ndarray) -> ValueRange | None:
    """The range of an array [samples, ...]; None for one without finite numbers."""
    if not values.size:
        return None
    step = -(-values.size // MAX_ELEMENTS)
    seen = values if step == 1 else values[:: min(step, len(values))]
    if values.ndim == 2 and 1 < values.shape[1] <= MAX_FEATURES:
        low, high = tuple(map(float, seen.min(axis=0))), tuple(map(float, seen.max(axis=0)))
    else:
        low, high = (float(seen.min()),), (float(seen.max()),)
    if not all(map(math.isfinite, (*low, *high))):
        return None
    return ValueRange(dtype_name(values.dtype), low, high, seen.size)


def find_range_difference(reference: ValueRange, new: ValueRange) -> str | None:
    """What of other data is not in the range of the training data, for a message; None where nothing stands out.

    Only another unit stands out: values far outside of the range, or all of them far smaller than before.
    """
    if len(reference.low) != len(new.low):
        reference, new = (ValueRange(r.dtype, (r.bounds[0],), (r.bounds[1],), r.size) for r in (reference, new))
    if len(new.low) == 1 and reference.low[0] <= new.low[0] and new.high[0] <= reference.high[0]:
        size, new_size = (max(abs(r.low[0]), abs(r.high[0])) for r in (reference, new))
        if new_size * FAR_BELOW >= size:
            return None  # the usual case, decided quickly
    low, high = np.array(reference.low), np.array(reference.high)
    new_low, new_high = np.array(new.low), np.array(new.high)
    width = high - low
    outside = (width > 0) & ((new_low < low - FAR_OUTSIDE * width) | (new_high > high + FAR_OUTSIDE * width))
    if outside.any():
        at = int(np.flatnonzero(outside)[0])
        if len(low) == 1:
            return f"{new}, the training data {reference}"
        return (
            f"{new_low[at]:.6g} to {new_high[at]:.6g} in element {at}, the training data {low[at]:.6g} to "
            f"{high[at]:.6g}" + (f" (and {outside.sum() - 1} more elements)" if outside.sum() > 1 else "")
        )
    size, new_size = (np.maximum(abs(np.array(r.low)), abs(np.array(r.high))) for r in (reference, new))
    is_shade = new.dtype.startswith("uint")  # dark images are no error
    if new.size < MIN_ELEMENTS or is_shade or not new_size.any() or not width.any():
        return None
    if (new_size[width > 0] * FAR_BELOW < size[width > 0]).all():
        return f"{new}, the training data {reference}"
    return None
