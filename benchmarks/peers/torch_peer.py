"""PyTorch among the contenders."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.contender import Contender, Setup, Weights
from benchmarks.peers.torch_nets import NETS
from benchmarks.peers.torch_weights import load
from benchmarks.workloads import DECAY, EPOCH_RATE, MOMENTUM, RATE, Workload

#: the factors of GoogLeNet's losses, the first of which is every other net's
FACTORS = (1.0, 0.3, 0.3)


def build_net(row: Workload, dropout: bool = True) -> nn.Module:
    """The row's net with PyTorch's own first weights."""
    torch.manual_seed(0)
    net = NETS[row.name]()
    if not dropout:
        for module in net.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0
    return net


class TorchContender(Contender):
    """A training step and an inference of PyTorch: eager, with the memory format, optimiser and compiler given."""

    def __init__(
        self, row: Workload, setup: Setup, channels_last: bool = False, fused: bool = True, compiled: bool = False
    ):
        super().__init__(row, setup)
        torch.set_num_threads(setup.threads)
        self.net = build_net(row, setup.dropout)
        self.format = torch.channels_last if channels_last else torch.contiguous_format
        if channels_last:
            self.net = self.net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        trainable = [p for p in self.net.parameters() if p.requires_grad]
        self.optimizer = torch.optim.SGD(trainable, lr=RATE, momentum=MOMENTUM, weight_decay=DECAY, fused=fused)
        self.loss = nn.CrossEntropyLoss()
        self.run: Any = torch.compile(self.net) if compiled else self.net

    def parameters(self) -> int:
        return sum(p.numel() for p in self.net.parameters() if p.requires_grad)

    def load(self, weights: Weights) -> None:
        load(self.net, weights)

    def feed(self, x: np.ndarray, y: np.ndarray) -> None:
        self.x, self.y = torch.from_numpy(x), torch.from_numpy(y)
        if self.x.ndim == 4:
            self.x = self.x.contiguous(memory_format=self.format)

    def train(self) -> float:
        self.net.train()
        return float(self._step(self.x, self.y))

    def infer(self) -> np.ndarray:
        self.net.eval()
        with torch.inference_mode():
            out = self.run(self.x)
        return (out[0] if isinstance(out, tuple) else out).numpy()

    def epoch(self, x: np.ndarray, y: np.ndarray, batch: int) -> float:
        self.net.train()
        data, target = torch.from_numpy(x), torch.from_numpy(y)
        for group in self.optimizer.param_groups:
            group["lr"] = EPOCH_RATE
        total = torch.zeros(())
        for indices in torch.randperm(len(data)).split(batch):
            images = data[indices].float().mul_(1 / 255).contiguous(memory_format=self.format)
            total += self._step(images, target[indices]) * len(indices)
        return float(total) / len(data)

    def _step(self, x: Tensor, y: Tensor) -> Tensor:
        self.optimizer.zero_grad(set_to_none=True)
        out = self.run(x)
        if isinstance(out, tuple):
            loss = sum(factor * self.loss(one, y) for factor, one in zip(FACTORS, out, strict=True))
        else:
            loss = self.loss(out, y)
        loss.backward()
        self.optimizer.step()
        return loss.detach()
