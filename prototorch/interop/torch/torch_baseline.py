"""A net in PyTorch, bound to a batch: prediction and training steps in PyTorch's fastest common form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from prototorch.graph.net import Net
from prototorch.interop.torch.torch_loss import torch_losses
from prototorch.interop.torch.torch_module import torch_net
from prototorch.spec import Spec
from prototorch.train.loss_terms import LossTerm


class TorchBaseline:
    """The net with the same weights; SGD with momentum in PyTorch's fused form, at a learning rate of 0.

    ``channels_last`` stores images and kernels in that memory format. PyTorch's number of threads is set for the
    whole process.
    """

    version = f"torch {torch.__version__}"

    def __init__(
        self,
        net: Net,
        specs: Mapping[str, Spec],
        weights: Mapping[str, Any],
        terms: Sequence[LossTerm],
        threads: int,
        momentum: float,
        channels_last: bool = False,
    ):
        torch.set_num_threads(threads)
        self.format = torch.channels_last if channels_last else torch.contiguous_format
        self.criterion = torch_losses(terms) if terms else None
        self.net = torch_net(net, specs, weights)
        untyped: Any = self.net  # PyTorch's own types do not know this argument
        untyped.to(memory_format=self.format)
        self.inputs: dict[str, Tensor] = {}
        self.expected: dict[str, Tensor] = {}
        if terms:
            trainable = [p for p in self.net.parameters() if p.requires_grad]
            self.optimizer = torch.optim.SGD(trainable, lr=0.0, momentum=momentum, fused=True)

    def feed(self, inputs: Mapping[str, np.ndarray]) -> None:
        """Bind a batch."""
        for name, array in inputs.items():
            tensor = torch.from_numpy(np.ascontiguousarray(array))
            self.inputs[name] = tensor.contiguous(memory_format=self.format) if tensor.ndim == 4 else tensor

    def targets(self, targets: Mapping[str, np.ndarray]) -> None:
        """Bind the targets of the batch, by output; class indices become int64, as PyTorch expects them."""
        for name, array in targets.items():
            tensor = torch.from_numpy(np.ascontiguousarray(array))
            self.expected[name] = tensor if tensor.is_floating_point() else tensor.long()

    def predict(self) -> dict[str, np.ndarray]:
        """The arrays that the module gives for a batch, without gradients."""
        self.net.eval()
        with torch.inference_mode():
            return {name: y.numpy() for name, y in self.net(**self.inputs).items()}

    def loss(self) -> float:
        """The loss, dropout left out."""
        assert self.criterion is not None
        self.net.eval()
        with torch.inference_mode():
            return float(self.criterion(self.net(**self.inputs), self.expected))

    def train(self) -> float:
        """One step of training; its loss."""
        assert self.criterion is not None
        self.net.train()
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.criterion(self.net(**self.inputs), self.expected)
        loss.backward()
        self.optimizer.step()
        return float(loss.detach())
