"""Random numbers of one case: drawn from a family's name and a seed, and reported with a failure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any
from zlib import crc32

import keras
import numpy as np
import pytest


class Draw:
    """The generator of one case. ``config`` collects what describes the case in a failure's report."""

    def __init__(self, family: str, seed: int):
        self.family, self.seed = family, seed
        self.random = Random(f"{family} {seed}")
        self.rng = np.random.default_rng([crc32(family.encode()), seed])
        self.config: dict[str, Any] = {}

    def integer(self, low: int, high: int) -> int:
        """An integer from low to high, both included."""
        return int(self.rng.integers(low, high + 1))

    def integers(self, count: int, low: int, high: int) -> tuple[int, ...]:
        """As many integers."""
        return tuple(self.integer(low, high) for _ in range(count))

    def chance(self, probability: float = 0.5) -> bool:
        """True with this probability."""
        return bool(self.rng.random() < probability)

    def choice(self, values: Sequence[Any]) -> Any:
        """One of the values."""
        return values[self.integer(0, len(values) - 1)]

    def number(self, low: float, high: float) -> float:
        """A number between the two, of three digits."""
        return round(float(self.rng.uniform(low, high)), 3)

    def normal(self, *shape: int, dtype: str = "float32") -> np.ndarray:
        """Normal numbers."""
        return self.rng.standard_normal(shape).astype(dtype)

    def uniform(self, low: float, high: float, *shape: int) -> np.ndarray:
        """Uniform float32 numbers."""
        return self.rng.uniform(low, high, shape).astype(np.float32)

    def subset(self, options: dict[str, Any], probability: float = 0.5) -> dict[str, Any]:
        """Some of the options; a value that is a function is called."""
        picked = {name: value for name, value in options.items() if self.chance(probability)}
        return {name: value() if callable(value) else value for name, value in picked.items()}


def set_keras_dtype(dtype: str) -> None:
    """Keras' default type, and its policy, which otherwise is the one of the first layer of the process."""
    keras.config.set_floatx(dtype)
    keras.config.set_dtype_policy(dtype)


def seeds(ordinary: int, slow: int) -> list[Any]:
    """Parameters of a family's test: the first ``ordinary`` seeds run always, those up to ``slow`` under the marker."""
    return [seed if seed < ordinary else pytest.param(seed, marks=pytest.mark.slow) for seed in range(slow)]


@contextmanager
def drawing(family: str, seed: int) -> Iterator[Draw]:
    """The generator of a case. A failure inside bears a note with the seed and the case's configuration."""
    draw = Draw(family, seed)
    try:
        yield draw
    except Exception as failure:
        lines = [f"{name} = {value!r}" for name, value in draw.config.items()]
        failure.add_note("\n".join([f"random case: family {family!r}, seed {seed}", *lines]))
        raise
