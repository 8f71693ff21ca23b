"""Layers of the declared models as children of modules: `pt.layers.Dense(4)` in `self.hidden`."""

from __future__ import annotations

from copy import deepcopy
from typing import Any
from weakref import WeakValueDictionary

from prototorch.eager.layer_call import layer_state, weights_of
from prototorch.eager.tensor import Tensor
from prototorch.errors import UsageError
from prototorch.layers.base import Layer
from prototorch.nn.module import Module
from prototorch.nn.module_tree import CHILD_WRAPPERS
from prototorch.nn.state_dict import as_tensor_of_state

__all__ = ["LayerChild"]


class LayerChild(Module):
    """The module of a layer. Its parameters and buffers are the layer's weights, from the layer's first call on, named
    by their paths (``kernel``, ``forward_layer.kernel``); its phase is the layer's. Other attributes are the layer's.

    layer: the layer itself.
    """

    def __init__(self, layer: Layer):
        object.__setattr__(self, "layer", layer)

    def forward(self, *inputs: Any, **options: Any) -> Any:
        """The layer's outputs."""
        return self.layer(*inputs, **options)

    @property
    def _parameters(self) -> dict[str, Any]:  # type: ignore[override]
        return self._weights(statistics=False)

    @property
    def _buffers(self) -> dict[str, Any]:  # type: ignore[override]
        return self._weights(statistics=True)

    def _weights(self, statistics: bool) -> dict[str, Any]:
        statistics_names = layer_state(self.layer).statistics
        return {
            name.replace("/", "."): weight
            for name, weight in weights_of(self.layer).items()
            if (name in statistics_names) == statistics
        }

    def _knows(self, first: str, rest: str) -> bool:
        name = f"{first}.{rest}" if rest else first
        weights = {**self._parameters, **self._buffers}
        return name in weights or not weights  # a layer that has not been called takes all

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *arguments: Any) -> None:
        if weights_of(self.layer):
            super()._load_from_state_dict(state_dict, prefix, *arguments)
            return
        for key in [k for k in state_dict if k.startswith(prefix)]:
            value = as_tensor_of_state(state_dict[key])
            if value is None:
                arguments[-1].append(f"{key} is no tensor but a {type(state_dict[key]).__name__}")
                continue
            name = key[len(prefix) :].replace(".", "/")
            state_dict.pending.append(lambda name=name, value=value: self._preset(name, value))

    def _preset(self, name: str, value: Tensor) -> None:
        layer_state(self.layer).preset_weights[name] = value.numpy().copy()

    def _load_later(self, state_dict: Any, name: str, tensor: Any, value: Tensor, take: bool) -> None:
        super()._load_later(state_dict, name, tensor, value, take=False)

    def _own_losses(self) -> list[Tensor]:
        return list(layer_state(self.layer).losses)

    def _apply(self, fn: Any, recurse: bool = True) -> LayerChild:
        for weight in weights_of(self.layer).values():
            weight.data = fn(weight.detach())
            weight.grad = None if weight.grad is None else fn(weight.grad.detach())
        return self

    def register_parameter(self, name: str, param: Any) -> None:
        raise UsageError(f"{name!r}: the parameters of a layer of prototorch.layers are those it creates itself")

    def register_buffer(self, name: str, tensor: Any, persistent: bool = True) -> None:
        raise UsageError(f"{name!r}: the buffers of a layer of prototorch.layers are those it creates itself")

    def __getattr__(self, name: str) -> Any:
        layer = self.__dict__.get("layer")
        if layer is not None and not name.startswith("_"):
            members = {**self._parameters, **self._buffers}
            return members[name] if name in members else getattr(layer, name)
        return super().__getattr__(name)

    def __reduce__(self) -> Any:
        state = layer_state(self.layer)
        return _rebuild, (self.layer, dict(state.weights), set(state.statistics), self.training)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        state = layer_state(self.layer)
        copy = _rebuild(self.layer, deepcopy(state.weights, memo), set(state.statistics), self.training)
        memo[id(self)] = copy
        return copy

    def __repr__(self) -> str:
        return repr(self.layer)


_modules: WeakValueDictionary[int, LayerChild] = WeakValueDictionary()


def layer_module(layer: Layer) -> LayerChild:
    """The module of a layer object, the same one each time."""
    child = _modules.get(id(layer))
    if child is None or child.layer is not layer:
        child = _modules[id(layer)] = LayerChild(layer)
    return child


def _rebuild(layer: Layer, weights: dict[str, Any], statistics: set[str], phase: bool) -> LayerChild:
    child = layer_module(layer.replace())
    state = layer_state(child.layer)
    state.weights.update(weights)
    state.statistics.update(statistics)
    child.training = phase
    return child


CHILD_WRAPPERS[Layer] = layer_module
