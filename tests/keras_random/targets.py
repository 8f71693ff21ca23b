"""Random outputs of a net and targets for them, by what a loss or a metric says that it takes."""

from __future__ import annotations

from typing import Any

import numpy as np

from prototorch.losses import Loss
from prototorch.spec import Spec
from tests.keras_random.draw import Draw
from tests.nets.random_heads import RANGES


def random_output(draw: Draw, name: str, from_logits: bool, shape: tuple[int, ...], kind: str) -> np.ndarray:
    """An output [batch, ..., classes] in the range that the loss or metric of this name takes."""
    wanted = "linear" if from_logits else RANGES.get(name, {"one_hot": "softmax", "classes": "softmax",
                                                            "binary": "sigmoid"}.get(kind, "linear"))  # fmt: skip
    x = draw.normal(*shape)
    if wanted == "softmax":
        x = np.exp(x) / np.exp(x).sum(-1, keepdims=True)
    elif wanted == "sigmoid":
        x = 1 / (1 + np.exp(-x))
    elif wanted == "softplus":
        x = np.log1p(np.exp(x)) + 0.05
    return np.asarray(x, np.float32)


def random_target(draw: Draw, kind: str, shape: tuple[int, ...], ignored: int | None = None) -> np.ndarray:
    """A target for an output of this shape. kind: see `Loss.target_kind`."""
    classes = draw.rng.integers(0, shape[-1], shape[:-1])
    if kind == "classes":
        if ignored is not None:
            classes[draw.rng.random(classes.shape) < 0.3] = ignored
        return classes
    if kind == "one_hot":
        return np.eye(shape[-1], dtype=np.float32)[classes]
    if kind == "binary":
        return draw.rng.integers(0, 2, shape).astype(np.float32)
    return np.abs(draw.normal(*shape)) + np.float32(0.1)


def peer_options(block: Any, known: set[str]) -> dict[str, Any]:
    """The fields of a loss or metric as arguments of Keras' class of the same name."""
    return {n: _plain(v) for n, v in block.field_values().items() if n in known and n != "name"}


def _plain(value: Any) -> Any:
    return [_plain(v) for v in value] if isinstance(value, tuple) else value


def matches(loss: Loss, shape: tuple[int, ...], target: np.ndarray) -> bool:
    """Whether the target has the shape that the loss asks for."""
    return loss.target_spec(Spec(shape)).shape == target.shape
