"""Kernels of convolutions in Keras' layout: pairs of functions, there and back."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Layout = tuple[Callable[[np.ndarray], np.ndarray], Callable[[np.ndarray], np.ndarray]]


def moved(rank: int) -> Layout:
    """[out, in, *kernel] to [*kernel, in, out] and back; rank: the number of the kernel's dimensions."""
    there = (*range(2, rank + 2), 1, 0)
    return (lambda a: a.transpose(there), lambda a: a.transpose(np.argsort(there)))


def split(rank: int, channels: int) -> Layout:
    """[channels * multiplier, 1, *kernel] to [*kernel, channels, multiplier] and back."""
    there = (*range(2, rank + 2), 0, 1)

    def to(a: np.ndarray) -> np.ndarray:
        return a.reshape(channels, -1, *a.shape[2:]).transpose(there)

    def back(a: np.ndarray) -> np.ndarray:
        return (b := a.transpose(np.argsort(there))).reshape(-1, 1, *b.shape[2:])

    return to, back
