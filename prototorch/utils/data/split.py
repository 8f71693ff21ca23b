"""Random division of a data set into parts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from prototorch.data.shuffling import permutation
from prototorch.eager.generator import Generator, keys_of
from prototorch.errors import UsageError, warn_user
from prototorch.utils.data.dataset import Subset

__all__ = ["random_split"]


def random_split(dataset: Any, lengths: Sequence[int | float], generator: Generator | None = None) -> list[Subset[Any]]:
    """Parts of a data set, whose samples are drawn at random, each sample in one part.

    Args:
        dataset: a data set with indices and a length.
        lengths: the number of samples of each part; or fractions with the sum 1, rounded down, after which the samples
            that are left go one by one to the parts from the first on.
        generator: the source of the order; default: that of `prototorch.manual_seed`.

    Raises:
        UsageError: the lengths do not add up to the data set's, or are negative, or a fraction is outside of 0 .. 1.
    """
    lengths = list(lengths)
    total = math.fsum(lengths)
    if math.isclose(total, 1) and total <= 1:
        lengths = _lengths_of_fractions(lengths, len(dataset))
    if any(length != int(length) or length < 0 for length in lengths) or sum(lengths) != len(dataset):
        raise UsageError(
            f"random_split: the lengths {lengths} must be integers with the sum {len(dataset)}, the number of samples, "
            f"or fractions with the sum 1; their sum is {total:g}"
        )
    order = permutation(len(dataset), *keys_of(generator).next_pair()).tolist()
    ends = [int(sum(lengths[: i + 1])) for i in range(len(lengths))]
    return [Subset(dataset, order[end - int(length) : end]) for length, end in zip(lengths, ends, strict=True)]


def _lengths_of_fractions(fractions: Sequence[int | float], count: int) -> list[int | float]:
    for index, fraction in enumerate(fractions):
        if not 0 <= fraction <= 1:
            raise UsageError(f"random_split: fraction {index} is {fraction}; it must lie between 0 and 1")
    lengths = [math.floor(count * fraction) for fraction in fractions]
    for index in range(count - sum(lengths)):
        lengths[index % len(lengths)] += 1
    for index, length in enumerate(lengths):
        if not length:
            warn_user(f"random_split: part {index} has no samples", UserWarning)
    return list(lengths)
