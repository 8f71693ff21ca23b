"""A net of ours as a `torch.nn.Module`, layer by layer, with the same weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor, nn

from prototorch.errors import UsageError
from prototorch.graph.net import LayerNode, Net
from prototorch.graph.trace import trace
from prototorch.interop import torch_activations, torch_layers, torch_sequences
from prototorch.interop.torch_loss import torch_losses
from prototorch.interop.torch_translator import LayerInstance, UntranslatableError, translate
from prototorch.spec import Spec

__all__ = ["TorchNet", "torch_activations", "torch_layers", "torch_losses", "torch_net", "torch_sequences"]


class TorchNet(nn.Module):
    """The whole net. Called with the inputs by name, it gives the outputs by name."""

    def __init__(self, net: Net, parts: Mapping[str, nn.Module], keys: Mapping[str, str]):
        super().__init__()
        self.net = net
        self.parts = nn.ModuleDict({_module_name(key): part for key, part in parts.items()})
        self.steps = [(_module_name(keys[node.name]), node.bottoms, node.tops) for node in net.nodes]

    def forward(self, **inputs: Tensor) -> dict[str, Tensor]:
        values: dict[str, Any] = dict(inputs)
        for part, bottoms, tops in self.steps:
            made = self.parts[part](*(values[b] for b in bottoms))
            values.update(zip(tops, made if isinstance(made, tuple) else (made,), strict=True))
        return {name: values[name] for name in self.net.outputs}

    def count_trainable(self) -> int:
        """The number of elements that training changes."""
        return sum(p.numel() for p in self.parameters() if p.requires_grad)


def torch_net(net: Net, specs: Mapping[str, Spec], weights: Mapping[str, Any]) -> TorchNet:
    """The net in PyTorch, for inputs of these specs (the batch dimension included), with these weights by name.

    Layers that share weights share a module. Raises UsageError that names every layer which is not translated.
    """
    values = trace(net, specs, False).values
    parts: dict[str, nn.Module] = {}
    keys: dict[str, str] = {}
    wrong = []
    for node in net.nodes:
        key = keys[node.name] = node.weights_key
        if key in parts:
            continue
        own = {n.removeprefix(f"{key}/"): np.asarray(w) for n, w in weights.items() if n.startswith(f"{key}/")}
        try:
            parts[key] = translate(LayerInstance(node.layer, own, tuple(values[b].shape for b in node.bottoms)))
        except UntranslatableError as reason:
            wrong.append(f"{_describe_node(node)}: {reason}")
    if wrong:
        raise UsageError(f"{net.name!r} cannot be built in PyTorch here: " + "; ".join(wrong))
    return TorchNet(net, parts, keys)


def _describe_node(node: LayerNode) -> str:
    return f"{type(node.layer).__name__} {node.name!r}"


def _module_name(key: str) -> str:
    """A name that PyTorch takes for a module: it allows no dot, and none of its own names."""
    return "layer " + key.replace(".", ":")
