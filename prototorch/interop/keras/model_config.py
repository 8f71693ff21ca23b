"""The JSON of a functional model of Keras 3, and the order in which Keras has its layers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prototorch.interop.keras.layer_config import serialized
from prototorch.interop.keras.model_layers import KerasCall, KerasLayer, KerasModel, KerasTensor

__all__ = ["functional_config", "layers_in_order"]


def functional_config(model: KerasModel, name: str) -> dict[str, Any]:
    """The config as ``Model.to_json`` of Keras 3 gives it."""
    config = {
        "name": name,
        "trainable": True,
        "layers": [_layer_entry(layer) for layer in model.layers.values()],
        "input_layers": [_reference(tensor) for tensor in model.inputs],
        "output_layers": [_reference(tensor) for tensor in model.outputs],
    }
    return serialized("keras.src.models.functional", "Functional", config) | {"registered_name": "Functional"}


def _layer_entry(layer: KerasLayer) -> dict[str, Any]:
    entry = serialized("keras.layers", layer.kind, layer.config)
    return entry | {"name": layer.name, "inbound_nodes": [_node(call) for call in layer.calls]}


def _node(call: KerasCall) -> dict[str, Any]:
    return {
        "args": [_argument(value) for value in call.args],
        "kwargs": {name: _argument(value) for name, value in call.kwargs.items()},
    }


def _argument(value: Any) -> Any:
    if isinstance(value, KerasTensor):
        config = {"shape": list(value.shape), "dtype": value.dtype, "keras_history": _reference(value)}
        return {"class_name": "__keras_tensor__", "config": config}
    return [_argument(item) for item in value] if isinstance(value, list) else value


def _reference(tensor: KerasTensor) -> list[Any]:
    return [tensor.layer, tensor.call, tensor.output]


def _tensors(value: Any) -> Iterator[KerasTensor]:
    if isinstance(value, KerasTensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(item)


def _inputs_of_call(layer: KerasLayer, number: int) -> list[KerasTensor]:
    if not layer.calls:
        return []
    call = layer.calls[number]
    return [*_tensors(list(call.args)), *_tensors(list(call.kwargs.values()))]


def layers_in_order(model: KerasModel) -> list[KerasLayer]:
    """The layers in the order of ``model.layers`` in Keras: by their distance from the outputs, the farthest first, at
    the same distance in the order in which a search from the outputs meets them. Its files count layers by it."""
    first_met: dict[str, int] = {}
    finished: list[tuple[str, int]] = []
    seen: set[tuple[str, int]] = set()
    for output in model.outputs:
        stack: list[tuple[tuple[str, int], Iterator[KerasTensor]]] = []
        _visit((output.layer, output.call), model, first_met, seen, stack)
        while stack:
            node, inputs = stack[-1]
            tensor = next(inputs, None)
            if tensor is None:
                finished.append(node)
                stack.pop()
            else:
                _visit((tensor.layer, tensor.call), model, first_met, seen, stack)
    depth_of_node: dict[tuple[str, int], int] = {}
    depth: dict[str, int] = {}
    for node in reversed(finished):
        own = max(depth_of_node.setdefault(node, 0), depth.get(node[0], 0))
        depth[node[0]] = depth_of_node[node] = own
        for tensor in _inputs_of_call(model.layers[node[0]], node[1]):
            parent = (tensor.layer, tensor.call)
            depth_of_node[parent] = max(own + 1, depth_of_node.get(parent, 0))
    for tensor in model.inputs:
        if tensor.layer not in depth:
            depth[tensor.layer] = 0
            first_met[tensor.layer] = -1
    return [model.layers[name] for name in sorted(depth, key=lambda name: (-depth[name], first_met[name]))]


def _visit(
    node: tuple[str, int],
    model: KerasModel,
    first_met: dict[str, int],
    seen: set[tuple[str, int]],
    stack: list[tuple[tuple[str, int], Iterator[KerasTensor]]],
) -> None:
    if node in seen:
        return
    seen.add(node)
    first_met.setdefault(node[0], len(first_met))
    stack.append((node, iter(_inputs_of_call(model.layers[node[0]], node[1]))))
