"""The rows of the table: nets, their inputs, the batch sizes they are measured at, and the goals."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

MODELS = Path(__file__).parent / "models"
#: the optimizer of all frameworks: SGD, momentum, and decay coupled to the gradient, on every parameter
RATE, MOMENTUM, DECAY = 1e-4, 0.9, 5e-4
TRAINING, INFERENCE = "train", "infer"
#: the nets of the GPU's table
GPU_WORKLOADS = ("lenet", "alexnet", "vgg16", "resnet50", "resnet101", "transformer", "lstm")
#: the epoch as a whole process, which is to learn
IMAGE_COUNT, EPOCH_WORKLOAD, EPOCH_BATCH, EPOCH_RATE = 60_000, "lenet", 64, 1e-2


@dataclass(frozen=True)
class Workload:
    """A net of the table.

    model: the name of a shipped model, or the path of a text. shape: of a sample. classes: the number of classes.
    train, infer: batch sizes. goal: how much faster than the best peer training must be. first: the seconds after the
    command within which a cold first step must end. vocabulary: for integer input, the number of distinct values.
    dropout: whether a training step draws random numbers.
    """

    name: str
    model: str
    shape: tuple[int, ...]
    classes: int
    train: tuple[int, ...]
    infer: tuple[int, ...] = (1, 16, 64)
    goal: float = 1.25
    first: float | None = None
    vocabulary: int = 0
    dropout: bool = False

    @property
    def has_image_input(self) -> bool:
        """Whether convolutions run over the input, so that a layout in memory can be chosen."""
        return len(self.shape) == 3 and self.name != "mlp"

    def batch(self, size: int) -> tuple[np.ndarray, np.ndarray]:
        """The same random batch for all frameworks: x [size, *shape] float32 (or int32), y [size] int64."""
        rng = np.random.default_rng(0)
        x: np.ndarray
        if self.vocabulary:
            x = rng.integers(0, self.vocabulary, (size, *self.shape), dtype=np.int32)
        else:
            x = rng.standard_normal((size, *self.shape), dtype=np.float32)
        return x, rng.integers(0, self.classes, size)


_PHOTO = (3, 224, 224)
_ALEX: dict[str, Any] = {"shape": (3, 227, 227), "classes": 1000, "train": (16, 64), "first": 12.0, "dropout": True}
WORKLOADS = {
    row.name: row
    for row in (
        Workload("two_layer", "two_layer", (64,), 10, (64,), goal=2.0),
        Workload("mlp", "mlp", (1, 28, 28), 10, (128,), dropout=True),
        Workload("lenet", "lenet", (1, 28, 28), 10, (64,), goal=2.0, first=3.0),
        Workload("lstm", str(MODELS / "lstm_sequence.proto"), (50, 128), 10, (32,)),
        Workload("transformer", "transformer", (128,), 2, (16,), vocabulary=20_000, dropout=True),
        Workload("alexnet", "alexnet", goal=2.0, **_ALEX),
        Workload("alexnet_no_lrn", str(MODELS / "alexnet_no_lrn.proto"), goal=1.25, **_ALEX),
        Workload("mobilenet_v2", "mobilenet_v2", _PHOTO, 1000, (16,), dropout=True),
        Workload("resnet18", "resnet18", _PHOTO, 1000, (16,)),
        Workload("googlenet", "googlenet", _PHOTO, 1000, (16,), dropout=True),
        Workload("resnet50", "resnet50", _PHOTO, 1000, (16,)),
        Workload("vgg16", "vgg16", _PHOTO, 1000, (8,), goal=2.0, dropout=True),
    )
}


def find_workload(name: str) -> Workload:
    """The row of a net; ResNet-101 is measured on a GPU alone."""
    return Workload(name, name, _PHOTO, 1000, (32,)) if name == "resnet101" else WORKLOADS[name]


def make_images(count: int = IMAGE_COUNT) -> tuple[np.ndarray, np.ndarray]:
    """A made-up set that can be learnt: x [count, 1, 28, 28] uint8, a pattern for each class under noise; y [count]."""
    rng = np.random.default_rng(1)
    y = rng.integers(0, 10, count)
    patterns = rng.integers(0, 128, (10, 1, 28, 28), dtype=np.uint8)
    return patterns[y] + rng.integers(0, 128, (count, 1, 28, 28), dtype=np.uint8), y
