"""The nets of the table: what prototorch loads, and the same net in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn


@dataclass(frozen=True)
class Row:
    """A line of the table: a shipped model, its input, and its twin in PyTorch."""

    model: str
    shape: tuple[int, ...]
    classes: int
    batches: tuple[int, ...]
    twin: Callable[[], nn.Module]

    def batch(self, size: int) -> tuple[np.ndarray, np.ndarray]:
        """The same random batch for everybody."""
        rng = np.random.default_rng(0)
        x = rng.standard_normal((size, *self.shape), dtype=np.float32)
        return x, rng.integers(0, self.classes, size)


def _lenet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 20, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(800, 500), nn.ReLU(), nn.Linear(500, 10),
    )  # fmt: skip


def _alexnet() -> nn.Module:
    lrn: Any = lambda: nn.LocalResponseNorm(5, 1e-4, 0.75, 1.0)  # noqa: E731 - the one setting of every net here
    return nn.Sequential(
        nn.Conv2d(3, 96, 11, 4), nn.ReLU(), lrn(), nn.MaxPool2d(3, 2),
        nn.Conv2d(96, 256, 5, padding=2, groups=2), nn.ReLU(), lrn(), nn.MaxPool2d(3, 2),
        nn.Conv2d(256, 384, 3, padding=1), nn.ReLU(),
        nn.Conv2d(384, 384, 3, padding=1, groups=2), nn.ReLU(),
        nn.Conv2d(384, 256, 3, padding=1, groups=2), nn.ReLU(), nn.MaxPool2d(3, 2), nn.Flatten(),
        nn.Linear(9216, 4096), nn.ReLU(), nn.Dropout(0.5), nn.Linear(4096, 4096), nn.ReLU(), nn.Dropout(0.5),
        nn.Linear(4096, 1000),
    )  # fmt: skip


def _two_layer() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 1000), nn.ReLU(), nn.Linear(1000, 100), nn.ReLU(), nn.Linear(100, 10))


def _mlp() -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(784, 512), nn.ReLU(), nn.Dropout(0.2), nn.Linear(512, 512), nn.ReLU(), nn.Dropout(0.2),
        nn.Linear(512, 10),
    )  # fmt: skip


ROWS = (
    Row("two_layer", (64,), 10, (64,), _two_layer),
    Row("mlp", (1, 28, 28), 10, (128,), _mlp),
    Row("lenet", (1, 28, 28), 10, (64,), _lenet),
    Row("alexnet", (3, 227, 227), 1000, (16, 64), _alexnet),
)


class TorchTwin:
    """A training step and an inference of the PyTorch net: SGD with momentum 0.9, float32."""

    def __init__(self, row: Row, channels_last: bool):
        torch.manual_seed(0)
        self.net = row.twin()
        self.format = torch.channels_last if channels_last else torch.contiguous_format
        if channels_last:
            self.net = self.net.to(memory_format=torch.channels_last)
        self.loss = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=1e-4, momentum=0.9, fused=True)

    def parameters(self) -> int:
        return sum(p.numel() for p in self.net.parameters())

    def feed(self, x: np.ndarray, y: np.ndarray) -> None:
        self.x, self.y = torch.from_numpy(x), torch.from_numpy(y)
        if self.x.ndim == 4:
            self.x = self.x.contiguous(memory_format=self.format)

    def train(self) -> float:
        self.net.train()
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss(self.net(self.x), self.y)
        loss.backward()
        self.optimizer.step()
        return float(loss.detach())

    def infer(self) -> None:
        self.net.eval()
        with torch.inference_mode():
            self.net(self.x)

    def weights(self) -> list[np.ndarray]:
        return [p.detach().numpy() for p in self.net.parameters()]
