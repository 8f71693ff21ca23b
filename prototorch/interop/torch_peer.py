"""A net of ours in PyTorch with a batch in its hands: predicting and training as PyTorch's users do, at its best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from prototorch.graph.net import Net
from prototorch.interop.torch_loss import torch_losses
from prototorch.interop.torch_net import torch_net
from prototorch.spec import Spec
from prototorch.train.loss_terms import LossTerm


class TorchPeer:
    """The net with the same weights; SGD with momentum in PyTorch's fused form, at a learning rate of 0.

    ``channels_last`` puts pictures and kernels into that memory format. PyTorch's number of threads is set for the
    whole process.
    """

    version = f"torch {torch.__version__}"

    def __init__(self, net: Net, specs: Mapping[str, Spec], weights: Mapping[str, Any], terms: Sequence[LossTerm],
                 threads: int, momentum: float, channels_last: bool = False):  # fmt: skip
        torch.set_num_threads(threads)
        self.format = torch.channels_last if channels_last else torch.contiguous_format
        self.criterion = torch_losses(terms) if terms else None
        self.net = torch_net(net, specs, weights)
        anyhow: Any = self.net  # PyTorch's own types do not know this argument
        anyhow.to(memory_format=self.format)
        self.inputs: dict[str, Tensor] = {}
        self.wanted: dict[str, Tensor] = {}
        if terms:
            trained = [p for p in self.net.parameters() if p.requires_grad]
            self.optimizer = torch.optim.SGD(trained, lr=0.0, momentum=momentum, fused=True)

    def feed(self, inputs: Mapping[str, np.ndarray]) -> None:
        """Take a batch."""
        for name, array in inputs.items():
            given = torch.from_numpy(np.ascontiguousarray(array))
            self.inputs[name] = given.contiguous(memory_format=self.format) if given.ndim == 4 else given

    def targets(self, targets: Mapping[str, np.ndarray]) -> None:
        """Take the targets of the batch, by output; class numbers become int64, as PyTorch wants them."""
        for name, array in targets.items():
            given = torch.from_numpy(np.ascontiguousarray(array))
            self.wanted[name] = given if given.is_floating_point() else given.long()

    def predict(self) -> dict[str, np.ndarray]:
        """The outputs."""
        self.net.eval()
        with torch.inference_mode():
            return {name: y.numpy() for name, y in self.net(**self.inputs).items()}

    def loss(self) -> float:
        """The loss, dropout left out."""
        assert self.criterion is not None
        self.net.eval()
        with torch.inference_mode():
            return float(self.criterion(self.net(**self.inputs), self.wanted))

    def train(self) -> float:
        """One step of training; its loss."""
        assert self.criterion is not None
        self.net.train()
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.criterion(self.net(**self.inputs), self.wanted)
        loss.backward()
        self.optimizer.step()
        return float(loss.detach())
