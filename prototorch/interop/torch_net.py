"""A net as a `torch.nn.Module`, layer by layer, with the same weights."""

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

    def __init__(self, net: Net, modules: Mapping[str, nn.Module], keys: Mapping[str, str]):
        super().__init__()
        self.net = net
        self.submodules = nn.ModuleDict({_module_name(key): part for key, part in modules.items()})
        self.steps = [(_module_name(keys[node.name]), node.bottoms, node.tops) for node in net.nodes]

    def forward(self, **inputs: Tensor) -> dict[str, Tensor]:
        values: dict[str, Any] = dict(inputs)
        for part, bottoms, tops in self.steps:
            outputs = self.submodules[part](*(values[b] for b in bottoms))
            values.update(zip(tops, outputs if isinstance(outputs, tuple) else (outputs,), strict=True))
        return {name: values[name] for name in self.net.outputs}

    def count_trainable(self) -> int:
        """The number of trainable parameters."""
        return sum(p.numel() for p in self.parameters() if p.requires_grad)


def torch_net(net: Net, specs: Mapping[str, Spec], weights: Mapping[str, Any]) -> TorchNet:
    """The net in PyTorch, for inputs of these specs (the batch dimension included), with these weights by name.

    Layers that share weights share a module. Raises UsageError that names every layer which is not translated.
    """
    values = trace(net, specs, False).values
    modules: dict[str, nn.Module] = {}
    keys: dict[str, str] = {}
    errors = []
    for node in net.nodes:
        key = keys[node.name] = node.weights_key
        if key in modules:
            continue
        layer_weights = {
            n.removeprefix(f"{key}/"): np.asarray(w) for n, w in weights.items() if n.startswith(f"{key}/")
        }
        try:
            modules[key] = translate(
                LayerInstance(node.layer, layer_weights, tuple(values[b].shape for b in node.bottoms))
            )
        except UntranslatableError as reason:
            errors.append(f"{_describe_node(node)}: {reason}")
    if errors:
        raise UsageError(f"{net.name!r} cannot be built in PyTorch here: " + "; ".join(errors))
    return TorchNet(net, modules, keys)


def _describe_node(node: LayerNode) -> str:
    return f"{type(node.layer).__name__} {node.name!r}"


def _module_name(key: str) -> str:
    """A name that PyTorch accepts for a submodule: without dots, and unlike its own attributes."""
    return "layer " + key.replace(".", ":")
