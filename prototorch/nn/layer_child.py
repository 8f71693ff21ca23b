"""Layers of the declared models as children of modules: `pt.layers.Dense(4)` in `self.hidden`."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from prototorch.eager.layer_call import layer_state, weights_of
from prototorch.eager.tensor import Tensor
from prototorch.errors import UsageError
from prototorch.layers.base import Layer
from prototorch.nn.declared_child import DeclaredChild, child_of
from prototorch.nn.module_tree import CHILD_WRAPPERS

__all__ = ["LayerChild"]


class LayerChild(DeclaredChild):
    """The module of a layer. Its parameters and buffers are the layer's weights, from the layer's first call on, named
    by their paths (``kernel``, ``forward_layer.kernel``); its phase is the layer's. Other attributes are the layer's.

    layer: the layer itself.
    """

    def __init__(self, layer: Layer):
        object.__setattr__(self, "layer", layer)

    def forward(self, *inputs: Any, **options: Any) -> Any:
        """The layer's outputs."""
        return self.layer(*inputs, **options)

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

    def _has_weights(self) -> bool:
        return bool(weights_of(self.layer))

    def _preset(self, name: str, value: Tensor) -> None:
        layer_state(self.layer).preset_weights[name] = value.numpy().copy()

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


def layer_module(layer: Layer) -> LayerChild:
    """The module of a layer object, the same one each time."""
    return child_of(LayerChild, "layer", layer)


def _rebuild(layer: Layer, weights: dict[str, Any], statistics: set[str], phase: bool) -> LayerChild:
    child = layer_module(layer.replace())
    state = layer_state(child.layer)
    state.weights.update(weights)
    state.statistics.update(statistics)
    child.training = phase
    return child


CHILD_WRAPPERS[Layer] = layer_module
