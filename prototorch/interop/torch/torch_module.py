"""A net as a `torch.nn.Module`, layer by layer, with the same weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from prototorch.errors import UsageError
from prototorch.graph.net import LayerNode, Net
from prototorch.graph.trace import trace
from prototorch.interop.counterparts.torch.row import ModuleCall, TorchLayer, TorchLayerExport
from prototorch.interop.torch.layer_lookup import find_layer_or_ops
from prototorch.model.loading.layout.layout_table import NotExpressibleError
from prototorch.spec import Spec

__all__ = ["LayerModule", "TorchNet", "make_module", "torch_net"]


class _Functions:
    """What an entry computes with: PyTorch itself (see `TorchLayer`)."""

    torch, F = torch, F

    def __init__(self, module: nn.Module):
        self.module = module
        self.inputs: tuple[Tensor, ...] = ()

    def let(self, value: Any, name: str) -> Any:
        """The value itself: a module that runs needs no line for it."""
        return value

    def unpack(self, value: Any, count: int) -> Any:
        """The elements of a tuple."""
        return value

    def in_training(self, value: Any, otherwise: Any) -> Any:
        """One of the two by the phase."""
        return value if self.module.training else otherwise

    def device(self) -> torch.device:
        """The device of the tensors that are read."""
        return self.inputs[0].device


class LayerModule(nn.Module):
    """A layer that is more than one module: its modules below ``root``, and what it computes with them."""

    def __init__(self, torch_layer: TorchLayer):
        super().__init__()
        self.root = _build(torch_layer)
        self.compute = torch_layer.compute
        self.functions = [_Functions(self)]  # in a list: a module is no child of its own child
        self.parts = [{"": self.root, **{name: self.root.get_submodule(name) for name in torch_layer.modules if name}}]

    def forward(self, *inputs: Tensor) -> Any:
        """Tensors of the outputs, in the order of the net's outputs."""
        self.functions[0].inputs = inputs
        return self.compute(self.functions[0], self.parts[0].__getitem__, *inputs)


def _build(torch_layer: TorchLayer) -> nn.Module:
    root = _construct(torch_layer.modules[""]) if "" in torch_layer.modules else nn.Module()
    for name, call in torch_layer.modules.items():
        if name:
            parent, _, last = name.rpartition(".")
            root.get_submodule(parent).add_module(last, _construct(call))
    for name, array in torch_layer.constants.items():
        root.register_buffer(name, torch.from_numpy(np.array(array)), persistent=False)
    return root


def _construct(call: ModuleCall) -> nn.Module:
    module: nn.Module = getattr(nn, call.kind)(*call.arguments.values(), **call.options)
    return module


def make_module(layer: Any, weights: Mapping[str, np.ndarray], specs: Sequence[Spec]) -> LayerModule:
    """The module of a layer with its weights, by their names in the layer, for inputs of these specs.

    Elements that our layer does not have (a second bias, a shift of 0) are not trained, nor is a layer with
    ``trainable: false``. Raises NotExpressibleError.
    """
    for name in type(layer).specs():
        if name.endswith(("regularizer", "constraint")) and getattr(layer, name) is not None:
            raise NotExpressibleError(name)
    weight_shapes = {n: tuple(w.shape) for n, w in weights.items()}
    shapes, dtypes = tuple(s.shape for s in specs), tuple(s.dtype for s in specs)
    torch_layer = find_layer_or_ops(TorchLayerExport(layer, weight_shapes, shapes, dtypes))
    module = LayerModule(torch_layer)
    for layout in torch_layer.layouts:
        arrays = [weights[name] for name in layout.ours]
        theirs = layout.transform.to_theirs(tuple(arrays))
        surplus = sum(a.size for a in theirs) - sum(a.size for a in arrays)
        for name, array in reversed(list(zip(layout.theirs, theirs, strict=True))):
            _assign(module.root, name, array, fixed=surplus > 0)
            surplus -= array.size
    if not layer.trainable:
        module.requires_grad_(False)
    return module


def _assign(module: nn.Module, name: str, array: np.ndarray, fixed: bool) -> None:
    parent, _, last = name.rpartition(".")
    tensor: Tensor = getattr(module.get_submodule(parent), last)
    with torch.no_grad():
        tensor.copy_(torch.from_numpy(np.array(array)))
    if fixed and isinstance(tensor, nn.Parameter):
        tensor.requires_grad_(False)


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

    Layers that share weights share a module. Raises UsageError that names every layer which PyTorch cannot express.
    """
    traced = trace(net, specs, False)
    modules: dict[str, nn.Module] = {}
    keys: dict[str, str] = {}
    errors = []
    for node in net.nodes:
        key = keys[node.name] = node.weights_key
        if key in modules:
            continue
        own = {n.removeprefix(f"{key}/"): np.asarray(w) for n, w in weights.items() if n.startswith(f"{key}/")}
        try:
            if any(traced.values[t] in traced.masks for t in (*node.bottoms, *node.tops)):
                raise NotExpressibleError("masks")
            modules[key] = make_module(node.layer, own, [traced.values[b].spec for b in node.bottoms])
        except NotExpressibleError as reason:
            errors.append(f"{_describe_node(node)}: {reason}")
    if errors:
        raise UsageError(f"{net.name!r} cannot be built in PyTorch here: " + "; ".join(errors))
    return TorchNet(net, modules, keys)


def _describe_node(node: LayerNode) -> str:
    return f"{type(node.layer).__name__} {node.name!r}"


def _module_name(key: str) -> str:
    """A name that PyTorch accepts for a submodule: without dots, and unlike its own attributes."""
    return "layer " + key.replace(".", ":")
