"""An epoch of LeNet in PyTorch as a process of its own: what `prototorch run models/lenet.proto --epochs 1` does.

    python -m benchmarks.peers.torch_epoch FOLDER [--plain] [--threads N]

The same IDX files, the same preparation, batch size, optimiser and metrics; no DataLoader, whose cost a set in memory
does not need: batches are gathered from one tensor. Totals are kept as tensors and read once an epoch, and Adam is the
fused one. Prints one line of JSON.
"""

from __future__ import annotations

import argparse
import gzip
import json
import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

BATCH = 64


def load(folder: Path, part: str) -> tuple[Tensor, Tensor]:
    """Pictures uint8 [n, 1, 28, 28] and labels int64 [n] of MNIST's files."""
    images = gzip.decompress((folder / f"{part}-images-idx3-ubyte.gz").read_bytes())
    labels = gzip.decompress((folder / f"{part}-labels-idx1-ubyte.gz").read_bytes())
    x = torch.from_numpy(np.frombuffer(bytearray(images), np.uint8, offset=16).reshape(-1, 1, 28, 28))
    return x, torch.from_numpy(np.frombuffer(labels, np.uint8, offset=8).astype(np.int64))


def lenet() -> nn.Module:
    """The net of models/lenet.proto."""
    return nn.Sequential(
        nn.Conv2d(1, 20, 5),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Conv2d(20, 50, 5),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(800, 500),
        nn.ReLU(inplace=True),
        nn.Linear(500, 10),
    )


class Epoch:
    """A pass over data, with or without training."""

    def __init__(self, net: nn.Module, form: torch.memory_format):
        self.net, self.form = net, form
        self.optimizer = torch.optim.Adam(net.parameters(), lr=1e-3, eps=1e-7, fused=True)

    def __call__(self, x: Tensor, y: Tensor, training: bool) -> dict[str, float]:
        """Mean loss and accuracy."""
        order = torch.randperm(len(x)) if training else torch.arange(len(x))
        loss_sum, right = torch.zeros(()), torch.zeros((), dtype=torch.int64)
        self.net.train(training)
        with torch.set_grad_enabled(training):
            for indices in order.split(BATCH):
                batch = (x[indices].to(torch.float32) * (1 / 255)).contiguous(memory_format=self.form)
                target = y[indices]
                logits = self.net(batch)
                loss = F.cross_entropy(logits, target)
                if training:
                    self.optimizer.zero_grad(set_to_none=True)
                    loss.backward()
                    self.optimizer.step()
                loss_sum += loss.detach() * len(indices)
                right += (logits.detach().argmax(1) == target).sum()
        return {"loss": float(loss_sum) / len(x), "accuracy": int(right) / len(x)}


def main() -> None:
    """One epoch with validation, and the weights in a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--plain", action="store_true", help="not channels_last")
    parser.add_argument("--threads", type=int)
    args = parser.parse_args()
    if args.threads is not None:
        torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    form = torch.contiguous_format if args.reference else torch.channels_last
    net = lenet().to(memory_format=form)  # type: ignore[call-overload]
    train, test = load(args.folder, "train"), load(args.folder, "t10k")
    epoch = Epoch(net, form)
    results = epoch(*train, training=True)
    results.update({f"val_{name}": value for name, value in epoch(*test, training=False).items()})
    with tempfile.NamedTemporaryFile(suffix=".pt") as file:
        torch.save({"net": net.state_dict(), "optimizer": epoch.optimizer.state_dict()}, file)
    print(json.dumps(results))


if __name__ == "__main__":
    main()
