"""A net as the layers of a functional model of Keras.

Most of our layers are one of Keras'; an activation with settings and an explicit padding become layers of their own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

from prototorch import layers
from prototorch.graph.net import LayerNode, Net
from prototorch.interop.channel_order import channels_first_net
from prototorch.interop.counterparts.keras.row import keras_row
from prototorch.interop.counterparts.row import write_fields
from prototorch.interop.keras.default_names import default_names
from prototorch.interop.keras.feature_orders import NetOrders
from prototorch.interop.keras.layer_config import activation_function, has_channels_last, layer_config
from prototorch.layers.activation import ActivationLayer
from prototorch.layers.base import Layer
from prototorch.layers.gated_unit import RecurrentWeights
from prototorch.model.loading.layout.layout_table import NotExpressibleError

__all__ = ["KerasCall", "KerasLayer", "KerasTensor", "keras_layers"]


@dataclass(frozen=True)
class KerasTensor:
    """An output of a call of a layer: the layer's name, the number of the call and of the output. shape: with None for
    the batch and for sizes that are open."""

    layer: str
    call: int = 0
    output: int = 0
    shape: tuple[int | None, ...] = (None,)
    dtype: str = "float32"


@dataclass(frozen=True)
class KerasCall:
    """A call of a layer: positional and named arguments are tensors, lists of them, or numbers."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class KerasLayer:
    """A layer of a model of Keras. node: that of our net whose weights it has; is_activation: whether these are the
    weights of its activation alone, which is a layer of its own."""

    name: str
    kind: str
    config: dict[str, Any]
    calls: list[KerasCall]
    node: LayerNode | None = None
    is_activation: bool = False


@dataclass
class KerasModel:
    """The layers of a model in the order of the net, its inputs and outputs."""

    layers: dict[str, KerasLayer]
    inputs: list[KerasTensor]
    outputs: list[KerasTensor]


def keras_layers(net: Net) -> KerasModel:
    """The layers of a net for Keras; those with automatic names have Keras' (``dense``, ``dense_1``).

    Raises NotExpressibleError that lists every layer that cannot be one.
    """
    model = _Conversion(net, {}).run()
    names = default_names({layer.name: (layer.kind, layer.node) for layer in model.layers.values()})
    return _Conversion(net, names).run() if names else model


class _Conversion:
    def __init__(self, net: Net, names: Mapping[str, str]):
        """names: what layers are called in Keras by the names of their nodes, where it is another name."""
        self.net = net = channels_first_net(net, keeps_sequences=True)
        self.names = names
        self.values = NetOrders(net, reorders_vectors=False)
        self.tensors: dict[str, KerasTensor] = {}
        self.bounds: dict[str, tuple[float, float]] = {}
        self.layers: dict[str, KerasLayer] = {}
        self.shared: dict[str, tuple[LayerNode, str]] = {}
        self.problems: list[str] = []

    def run(self) -> KerasModel:
        inputs = []
        for node in self.net.inputs:
            name = self._name(node.name)
            config = {"name": name, "batch_shape": [None, *node.shape], "dtype": node.dtype}
            self.layers[name] = KerasLayer(name, "InputLayer", config, [])
            self.tensors[node.name] = KerasTensor(name, shape=(None, *node.shape), dtype=node.dtype)
            inputs.append(self.tensors[node.name])
        for layer_node in self.net.nodes:
            try:
                self._add(layer_node)
            except NotExpressibleError as error:
                self.problems.append(f"{layer_node.name} ({type(layer_node.layer).__name__}): {error}")
                for top in layer_node.tops:
                    self.tensors[top] = KerasTensor("")
        if self.problems:
            raise NotExpressibleError("; ".join(self.problems))
        return KerasModel(self.layers, inputs, [self.tensors[name] for name in self.net.outputs])

    def _outputs(self, node: LayerNode, name: str, call: int = 0) -> list[KerasTensor]:
        """The tensors of a call of a layer for a node's outputs."""
        shapes = [self.values.shape(top) for top in node.tops]
        return [
            KerasTensor(name, call, number, (None,) if shape is None else (None, *shape[1:]))
            for number, shape in enumerate(shapes)
        ]

    def _name(self, name: str) -> str:
        """A name that Keras takes, which no layer has."""
        plain = re.sub(r"[^A-Za-z0-9_\-]", "_", name)
        number, unused = 1, plain
        while unused in self.layers:
            unused, number = f"{plain}_{number}", number + 1
        return unused

    def _stem(self, node: LayerNode) -> str:
        """What the names of a node's layers in Keras begin with."""
        return self.names.get(node.name, node.name)

    def _add(self, node: LayerNode) -> None:
        layer = node.layer
        inputs = [self.tensors[name] for name in node.bottoms]
        low, high = self._bounds(node)
        if layer.weights is not None:
            first = self.shared.get(layer.weights)
            if first is not None:
                self._add_call(node, *first, inputs)
                return
        layer, inputs = self._with_padding(node, layer, inputs, self._input_bounds(node)[0])
        after = getattr(layer, "activation", None)
        if isinstance(layer, RecurrentWeights | layers.Activation) or (
            after and activation_function(after) is not None
        ):
            after = None
        if after is not None:
            layer = layer.replace(activation="linear")
        there, back = self._transpositions(node, layer)
        if there:
            inputs = [self._add_transposition(f"{self._stem(node)}_before", inputs[0], there)]
            layer = layer.replace(axis=-1) if isinstance(layer, layers.LayerNormalization) else layer
        kind, config = layer_config(layer, self._name(self._stem(node)))
        name = config["name"]
        self.layers[name] = KerasLayer(
            name, kind, config, [_call(layer, inputs)], node, is_activation=isinstance(layer, layers.Activation)
        )
        if node.layer.weights is not None:
            self.shared[node.layer.weights] = (node, name)
        tensors = self._outputs(node, name)
        if back:
            tensors = [self._add_transposition(f"{self._stem(node)}_after", tensors[0], back)]
        if after is not None:
            tensors = [self._add_activation(node, after, tensors[0])]
        self._finish(node, layer, tensors)
        self.bounds.update(dict.fromkeys(node.tops, (low, high)))

    def _add_activation(self, node: LayerNode, activation: ActivationLayer, tensor: KerasTensor) -> KerasTensor:
        kind, config = layer_config(activation, self._name(f"{self._stem(node)}_activation"))
        name = config["name"]
        self.layers[name] = KerasLayer(name, kind, config, [KerasCall((tensor,))], node, is_activation=True)
        return self._outputs(node, name)[0]

    def _finish(self, node: LayerNode, layer: Layer, tensors: Sequence[KerasTensor]) -> None:
        """Enter the outputs; a cropping behind a transposed convolution with explicit padding comes first."""
        if _is_transposed(node.layer):
            crops = _transposed_crops(node.layer)
            if crops is not None:
                name, is_last = f"{self._stem(node)}_crop", has_channels_last(node.layer)
                tensors = [self._add_windows(name, "Cropping", crops, tensors[0], is_last)]
        self.tensors.update(zip(node.tops, tensors, strict=True))

    def _add_windows(
        self, name: str, kind: str, sizes: Sequence[tuple[int, int]], tensor: KerasTensor, is_last: bool
    ) -> KerasTensor:
        """A ZeroPadding or Cropping of these sizes (before, after). is_last: whether the channels are the last axis."""
        rank = len(sizes)
        field_name = "padding" if kind == "ZeroPadding" else "cropping"
        name = self._name(name)
        config: dict[str, Any] = {"name": name, "trainable": True, "dtype": "float32"}
        config[field_name] = list(sizes[0]) if rank == 1 else [list(pair) for pair in sizes]
        is_transposed = rank == 1 and kind == "Cropping" and not is_last
        if is_transposed:
            tensor = self._add_transposition(f"{name}_before", tensor)
        elif rank > 1 or kind == "ZeroPadding":
            config["data_format"] = "channels_last" if is_last else "channels_first"
        self.layers[name] = KerasLayer(name, f"{kind}{rank}D", config, [KerasCall((tensor,))])
        last = KerasTensor(name)
        return self._add_transposition(f"{name}_after", last) if is_transposed else last

    def _transpositions(self, node: LayerNode, layer: Layer) -> tuple[list[int], list[int]]:
        """The axes of Permute before and after a layer that has its channels last there; none for other layers."""
        row = keras_row(type(layer))
        if row is not None and row.is_channels_last(type(layer)):
            return ([], []) if has_channels_last(layer) else ([2, 1], [2, 1])
        shape = self.values.shape(node.bottoms[0])
        if not isinstance(layer, layers.LayerNormalization) or shape is None or len(layer.axis) != 1:
            return [], []
        rank = len(shape)
        axis = layer.axis[0] % rank
        if axis == rank - 1:
            return [], []
        there = [*(i for i in range(1, rank) if i != axis), axis]
        return there, [there.index(i) + 1 for i in range(1, rank)]

    def _add_transposition(self, name: str, tensor: KerasTensor, dims: Sequence[int] = (2, 1)) -> KerasTensor:
        """A Permute."""
        config = {"name": self._name(name), "trainable": True, "dtype": "float32", "dims": list(dims)}
        name = str(config["name"])
        self.layers[name] = KerasLayer(name, "Permute", config, [KerasCall((tensor,))])
        return KerasTensor(name)

    def _with_padding(
        self, node: LayerNode, layer: Layer, inputs: list[KerasTensor], low: float
    ) -> tuple[Layer, list[KerasTensor]]:
        """The layer without explicit padding, behind a layer that pads; a transposed convolution is cropped later."""
        padding = getattr(layer, "padding", None)
        if isinstance(layer, RecurrentWeights) and padding is not None and not isinstance(padding, str):
            raise NotExpressibleError("Keras' ConvLSTM layers have no explicit padding")
        is_window = hasattr(type(layer), "rank") and not type(layer).__name__.startswith("ZeroPadding")
        if not is_window or (isinstance(padding, str) and not getattr(layer, "ceil_mode", False)):
            return layer, inputs
        if padding is None:
            return layer, inputs
        if _is_transposed(layer):
            return layer.replace(padding="valid", output_padding=None), inputs
        rank: int = type(layer).rank  # type: ignore[attr-defined]
        pads = [tuple(pair) for pair in padding] if not isinstance(padding, str) else [(0, 0)] * rank
        changes: dict[str, Any] = {"padding": "valid"}
        if "Pooling" in type(layer).__name__:
            pads = self._pool_pads(node, layer, pads, low)
            changes["ceil_mode"] = False
        new = layer.replace(**changes)
        if not any(map(any, pads)):
            return new, inputs
        windows = self._add_windows(f"{self._stem(node)}_pad", "ZeroPadding", pads, inputs[0], has_channels_last(layer))
        return new, [windows]

    def _pool_pads(self, node: LayerNode, layer: Any, pads: list[Any], low: float) -> list[Any]:
        """The padding of a pooling as zeros around its input, with what `ceil_mode` adds at the end."""
        pads = list(pads)
        if isinstance(layer.padding, str) and layer.padding != "valid":
            raise NotExpressibleError(f"ceil_mode with padding: {layer.padding}")
        if layer.ceil_mode:
            shape = self.values.shape(node.bottoms[0])
            if shape is None:
                raise NotExpressibleError("ceil_mode with an input whose size is open")
            strides = layer.strides or layer.pool_size
            sizes = shape[1:-1] if has_channels_last(layer) else shape[2:]
            for axis, (size, kernel, stride) in enumerate(zip(sizes, layer.pool_size, strides, strict=True)):
                before, after = pads[axis]
                rest = (size + before + after - kernel) % stride
                starts_inside = rest and size + before > ((size + before + after - kernel) // stride + 1) * stride
                pads[axis] = (before, after + (stride - rest if starts_inside else 0))
        padded = any(map(any, pads))
        if padded and "Max" in type(layer).__name__ and low < 0:
            raise NotExpressibleError(
                "its padding is never the largest; Keras has zeros, which are the same behind a ReLU alone"
            )
        if padded and "Average" in type(layer).__name__ and (not layer.count_include_pad or layer.ceil_mode):
            raise NotExpressibleError("its padding does not count in the mean; Keras has zeros, which count")
        return pads

    def _input_bounds(self, node: LayerNode) -> tuple[float, float]:
        return self.bounds.get(node.bottoms[0], (-inf, inf)) if len(node.bottoms) == 1 else (-inf, inf)

    def _bounds(self, node: LayerNode) -> tuple[float, float]:
        """Bounds of the layer's outputs, where they follow from the layers."""
        intervals = [self.bounds.get(name, (-inf, inf)) for name in node.bottoms]
        low, high = min(b[0] for b in intervals), max(b[1] for b in intervals)
        if len(intervals) > 1 and not isinstance(node.layer, layers.Concatenate):
            return -inf, inf
        return node.layer.output_bounds(low, high) or (-inf, inf) if len(intervals) == 1 else (low, high)

    def _add_call(self, node: LayerNode, first: LayerNode, name: str, inputs: list[KerasTensor]) -> None:
        """A further call of a layer whose weights are shared."""
        same = first.layer.replace(name=None) == node.layer.replace(name=None)
        if not same:
            raise NotExpressibleError(
                f"it shares the weights of {first.name!r}, but is another layer; Keras shares whole layers"
            )
        if f"{name}_activation" in self.layers or any(key.startswith(f"{name}_pad") for key in self.layers):
            raise NotExpressibleError("a shared layer with an activation with settings, or with explicit padding")
        keras_layer = self.layers[name]
        number = len(keras_layer.calls)
        keras_layer.calls.append(_call(node.layer, inputs))
        self.tensors.update(zip(node.tops, self._outputs(node, name, number), strict=True))
        self.bounds.update(dict.fromkeys(node.tops, self._bounds(node)))


def _is_transposed(layer: Layer) -> bool:
    """Whether it is a transposed convolution, whose padding cuts its output."""
    return "output_padding" in type(layer).specs()


def _transposed_crops(layer: Any) -> list[tuple[int, int]] | None:
    """What is cut from a transposed convolution with padding "valid" to have that with explicit padding."""
    if isinstance(layer.padding, str):
        return None
    crops = []
    extras = layer.output_padding or (0,) * type(layer).rank
    sizes = zip(layer.kernel_size, layer.strides, layer.dilation_rate, layer.padding, extras, strict=True)
    for kernel, stride, dilation, (before, after), extra in sizes:
        reach = (kernel - 1) * dilation + 1
        crop_after = after - extra + max(stride - reach, 0)
        if crop_after < 0:
            raise NotExpressibleError("output_padding is larger than the padding at the end")
        crops.append((before, crop_after))
    return crops if any(map(any, crops)) else None


def _call(layer: Layer, inputs: list[KerasTensor]) -> KerasCall:
    """How Keras calls the layer on its inputs."""
    row = keras_row(type(layer))
    stated = write_fields(row.call_fields, vars(layer)) if row is not None else {}
    if row is not None and row.call is not None:
        args, kwargs = row.call(layer, inputs)
        return KerasCall(args, {**stated, **kwargs})
    takes_several = type(layer).input_range()[1] != 1
    return KerasCall((list(inputs),) if takes_several else (inputs[0],), stated)
