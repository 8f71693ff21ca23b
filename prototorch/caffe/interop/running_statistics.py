"""The three blobs of Caffe's BatchNorm: sums of means and of variances, and the sum of their weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from prototorch.model.loading.layout.transforms import Arrays, Transform

__all__ = ["RunningStatistics"]


@dataclass(frozen=True)
class RunningStatistics(Transform):
    """Moving mean and variance from the three blobs, and back with a weight of 1.

    The first two are divided by the third; where that is 0 both are 0, as in Caffe.
    """

    def to_ours(self, arrays: Arrays) -> Arrays:
        mean, variance, weight = arrays
        total = weight.reshape(-1)[0] if weight.size else 0
        factor = np.asarray(0 if total == 0 else 1 / total, mean.dtype)
        return mean * factor, variance * factor

    def to_theirs(self, arrays: Arrays) -> Arrays:
        return (*arrays, np.ones(1, arrays[0].dtype))

    def their_shapes(self, shapes: Sequence[tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
        return (*shapes, (1,))

    def __str__(self) -> str:
        return "divided by the sum of the weights"
