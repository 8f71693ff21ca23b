"""Changes of an array in a file: its shape, its elements' type, its place."""

from __future__ import annotations

import random

import numpy as np

__all__ = ["changed_array"]


def changed_array(array: np.ndarray, other: np.ndarray, rng: random.Random) -> np.ndarray | None:
    """An array in the place of another; None for none. other: another array of the file."""
    if array.ndim and array.dtype.kind == "f" and rng.random() < 0.6:  # one that fits
        return other if other.shape == array.shape else rng.choice((array * 2, array[::-1].copy()))
    kind = rng.randrange(6)
    if kind == 0:
        return None
    if kind == 1:
        return other
    if kind == 2:
        return array[..., None] if rng.random() < 0.5 else array.reshape(-1)
    if kind == 3:
        return array.astype(rng.choice(("float64", "int32", "uint8", "bool", "float16")))
    if kind == 4:
        return array[:-1] if array.ndim else np.zeros((0,), array.dtype)
    return np.ascontiguousarray(array.T) if array.ndim != 1 else array[::-1].copy()
