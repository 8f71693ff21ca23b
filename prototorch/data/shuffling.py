"""The order of samples and the randomness of a batch: functions of (seed, epoch, position) and of nothing else.

They use the raw 64-bit output of Philox, a counter-based generator whose stream NumPy guarantees across versions, so
that a run resumed with another version of NumPy sees the samples in the same order.
"""

from __future__ import annotations

import numpy as np

__all__ = ["batch_generator", "batch_key", "permutation", "philox"]

_MASK = (1 << 64) - 1


def philox(seed: int, epoch: int, position: int = 0, stream: int = 0) -> np.random.Philox:
    """The generator for a batch position; ``stream`` separates independent uses (0: the order of an epoch)."""
    key = np.array([seed & _MASK, epoch & _MASK], np.uint64)
    return np.random.Philox(key=key, counter=np.array([0, 0, position & _MASK, stream & _MASK], np.uint64))


def permutation(count: int, seed: int, epoch: int) -> np.ndarray:
    """The order of an epoch: a permutation of ``range(count)`` as int64, a function of the arguments."""
    return np.argsort(philox(seed, epoch).random_raw(count), kind="stable")


def batch_key(seed: int, epoch: int, position: int) -> int:
    """A random 64-bit integer for the augmentation of the batch whose first sample has this position in the epoch."""
    return int(philox(seed, epoch, position, stream=1).random_raw())


def batch_generator(seed: int, epoch: int, position: int) -> np.random.Generator:
    """A NumPy generator for the augmentation of the batch whose first sample has this position in the epoch."""
    return np.random.Generator(philox(seed, epoch, position, stream=2))
