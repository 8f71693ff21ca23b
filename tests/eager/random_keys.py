"""Random keys of tensors, with PyTorch's tensors in them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import prototorch as pt


def _indices(rng: np.random.Generator, n: int) -> Any:
    a = rng.integers(-n, n, [(3,), (2, 1), (1,), (), (2, 3)][rng.integers(5)])
    kind = rng.integers(4)
    if kind == 0:
        return torch.tensor(a)
    if kind == 1:
        return a.reshape(-1).tolist()  # a list of lists alone is a tuple of lists to PyTorch, with a warning
    return a if kind == 2 else torch.tensor(a, dtype=torch.int32)


def _slice(rng: np.random.Generator, n: int) -> slice:
    ends = [None if rng.random() < 0.4 else int(rng.integers(-n - 2, n + 3)) for _ in range(2)]
    return slice(*ends, None if rng.random() < 0.5 else int(rng.integers(1, 4)))


def random_key(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """A key for a tensor of this shape; one of twenty integers is out of range."""
    parts: list[Any] = []
    axis = 0
    for _ in range(rng.integers(0, len(shape) + 2)):
        n, kind = shape[min(axis, len(shape) - 1)], rng.random()
        if kind < 0.15:
            part: Any = int(rng.integers(-n - (rng.random() < 0.1), n + (rng.random() < 0.1))) if n else 0
        elif kind < 0.4 or not n:
            part = _slice(rng, n)
        elif kind < 0.5:
            parts.append(None if kind < 0.47 else True)
            continue
        elif kind < 0.56:
            if ... not in [p for p in parts if isinstance(p, type(...))]:
                parts.append(...)
            continue
        elif kind < 0.8:
            part = _indices(rng, n)
        else:
            count = min(int(rng.integers(1, 3)), len(shape) - axis)
            if count <= 0:
                continue
            part, axis = torch.tensor(rng.random(shape[axis : axis + count]) < 0.5), axis + count - 1
        parts.append(part)
        axis += 1
    return parts[0] if len(parts) == 1 and rng.random() < 0.5 else tuple(parts)


def as_ours(key: Any) -> Any:
    """The key with our tensors in it."""
    if isinstance(key, tuple):
        return tuple(map(as_ours, key))
    return pt.tensor(key.numpy()) if isinstance(key, torch.Tensor) else key
