"""PyTorch on a GPU as a contender: eager, channels last, compiled, or as a CUDA graph."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.peers.torch_nets import NETS
from benchmarks.peers.torch_weights import load
from benchmarks.workloads import DECAY, MOMENTUM, RATE, TRAINING, Workload


class TorchOnGpu:
    """PyTorch in one of its modes. ``weights``: of our model by name; None: PyTorch's own initial ones."""

    def __init__(self, workload: Workload, device: str, precision: str, mode: str, weights: Any):
        torch.manual_seed(0)
        self.device, self.mode, self.low = device, mode, precision == "bf16"
        strict = precision == "fp32"
        torch.backends.cuda.matmul.allow_tf32 = not strict
        torch.backends.cudnn.allow_tf32 = not strict
        torch.backends.cudnn.benchmark = True
        self.net = NETS[workload.name]()
        if weights is not None:
            load(self.net, weights)
        self.net.to(device)
        self.format = torch.channels_last if mode != "eager" and workload.has_image_input else torch.contiguous_format
        if mode != "eager" and workload.has_image_input:
            self.net = self.net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        trainable = [p for p in self.net.parameters() if p.requires_grad]
        self.optimizer = torch.optim.SGD(trainable, lr=RATE, momentum=MOMENTUM, weight_decay=DECAY, fused=True)
        self.loss = nn.CrossEntropyLoss()
        self.run: Any = torch.compile(self.net, mode="max-autotune") if mode == "compile" else self.net

    def feed(self, x: np.ndarray, y: np.ndarray) -> None:
        """Put the batch on the device."""
        self.x, self.y = torch.from_numpy(x).to(self.device), torch.from_numpy(y).to(self.device)
        if self.x.ndim == 4:
            self.x = self.x.contiguous(memory_format=self.format)

    def _narrow(self) -> Any:
        return torch.autocast(self.device, torch.bfloat16) if self.low else contextlib.nullcontext()

    def _train(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        with self._narrow():
            loss = self.loss(self.run(self.x), self.y)
        loss.backward()
        self.optimizer.step()

    def infer(self) -> Any:
        """The net's output."""
        with torch.inference_mode(), self._narrow():
            return self.run(self.x)

    def make_step(self, what: str) -> Callable[[], None]:
        """A step; the first ones are made, which compile and record."""
        self.net.train(what == TRAINING)
        step: Callable[[], Any] = self._train if what == TRAINING else self.infer
        if self.mode != "graph":
            for _ in range(3):
                step()
            return step
        if self.device != "cuda":
            return step  # where only the harness itself is tried
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(3):
                step()
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        return graph.replay

    def synchronize(self) -> None:
        """Wait for all that was begun."""
        if self.device == "cuda":
            torch.cuda.synchronize()


def peak_bytes(device: str) -> int:
    """The most bytes that PyTorch's allocator has held since `reset_peak`."""
    return int(torch.cuda.max_memory_allocated()) if device == "cuda" else 0


def reset_peak(device: str) -> None:
    """Give back what is not in use, and count the peak from here."""
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
