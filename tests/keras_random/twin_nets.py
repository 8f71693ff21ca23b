"""Random nets made twice, here and in Keras: branches, shared layers, merges, recurrent stacks, masks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np

import prototorch as pt
from prototorch.layers.base import Layer
from tests.keras_random.differences import differs
from tests.keras_random.draw import Draw
from tests.keras_random.layer_cases import keras_layer
from tests.layers.kernel_layouts import moved, split

L = pt.layers
BATCH = 5


@dataclass
class Twin:
    """A value of the net on both sides. is_read: whether a layer reads it."""

    ours: Any
    peer: Any
    shape: tuple[int, ...]
    is_read: bool = False


@dataclass
class TwinNet:
    """The net as it grows. ``layers`` are pairs of our layer and Keras'; ``lines`` tell how they are connected."""

    draw: Draw
    values: list[Twin] = field(default_factory=list)
    inputs: list[Twin] = field(default_factory=list)
    layers: dict[str, tuple[Layer, Any, tuple[int, ...]]] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)

    @property
    def is_masked(self) -> bool:
        """Whether a layer masks steps."""
        return any(isinstance(layer, L.Masking) for layer, _, _ in self.layers.values())

    @property
    def has_zeros(self) -> bool:
        """Whether elements of several values may be equal: masked steps are 0, and what a ReLU cuts off."""
        return self.is_masked or any(
            "ReLU" in repr(layer) or "relu" in repr(layer) for layer, _, _ in self.layers.values()
        )

    def input(self, shape: tuple[int, ...]) -> Twin:
        """A new input."""
        name = f"x{len(self.inputs)}"
        self.inputs.append(Twin(pt.Input(shape, name=name), keras.Input(shape, name=name), shape))
        self.values.append(self.inputs[-1])
        self.lines.append(f"{name}: {shape}")
        return self.inputs[-1]

    def add(self, layer: Layer, *inputs: Twin, name: str | None = None) -> Twin:
        """The output of a new layer."""
        name = name or f"l{len(self.layers)}"
        layer = layer.replace(name=name)
        is_last = type(layer).__name__ == "Flatten" or len(inputs[0].shape) == 2
        ndim = len(inputs[0].shape) + 1
        peer = keras_layer(layer, "channels_last" if is_last else "channels_first", ndim, name=name)
        self.layers[name] = (layer, peer, inputs[0].shape)
        return self._apply(name, *inputs)

    def share(self, name: str, value: Twin) -> Twin:
        """The output of a layer that is there, on another value."""
        return self._apply(name, value)

    def _apply(self, name: str, *inputs: Twin) -> Twin:
        layer, peer, _ = self.layers[name]
        one = layer(*[v.ours for v in inputs])
        if type(layer).__name__ == "MultiHeadAttention":
            other = peer(inputs[0].peer, inputs[-1].peer)
        else:
            other = peer([v.peer for v in inputs] if len(inputs) > 1 else inputs[0].peer)
        for value in inputs:
            value.is_read = True
        self.lines.append(f"{layer!r} reads {[tuple(v.shape) for v in inputs]} gives {tuple(other.shape[1:])}")
        self.values.append(Twin(one, other, tuple(other.shape[1:])))
        return self.values[-1]

    def models(self) -> tuple[pt.Model, keras.Model, list[str]]:
        """Both models, with a dense layer behind each loose end, and the names of their outputs."""
        ends = [v for v in self.values if not v.is_read]
        outputs = []
        for i, value in enumerate(ends):
            if len(value.shape) > 1 and self.draw.chance(0.7):
                kinds = [L.Flatten(), L.GRU(2)] if len(value.shape) == 2 else [L.Flatten(), L.GlobalMaxPooling2D()]
                value = self.add(self.draw.choice(kinds), value)
            outputs.append(self.add(L.Dense(2), value, name=f"out{i}"))
        names = [f"out{i}" for i in range(len(outputs))]
        read = [v for v in self.inputs if v.is_read]
        ours = pt.Model([v.ours for v in read], [v.ours for v in outputs])
        theirs = keras.Model([v.peer for v in read], [v.peer for v in outputs])
        self.inputs = read
        return ours, theirs, names


def random_net(draw: Draw) -> TwinNet:
    """A net of some ten layers."""
    net = TwinNet(draw)
    for _ in range(draw.integer(1, 2)):
        kind = draw.integer(1, 3)
        value = net.input({1: (3,), 2: (4, 3), 3: (2, 6, 5)}[kind])
        if kind == 2 and draw.chance():
            net.add(L.Masking(), value)
    for _ in range(draw.integer(4, 9)):
        _grow(net)
    draw.config["net"] = net.lines
    return net


def _grow(net: TwinNet) -> None:
    draw = net.draw
    value = draw.choice(net.values[-4:])
    same = [v for v in net.values if v.shape == value.shape and v is not value]
    shared = [n for n, (layer, _, shape) in net.layers.items() if shape == value.shape and _can_share(layer)]
    if same and draw.chance(0.35):
        merges = ["Add", "Multiply", "Average", "Subtract", "Concatenate", "Maximum", "Minimum"]
        has_ties = net.has_zeros and differs("Gradient of a maximum of equal inputs")
        merge = draw.choice(merges[:-2] if has_ties else merges)
        layer = L.Concatenate(axis=-1) if merge == "Concatenate" and len(value.shape) > 2 else Layer.lookup(merge)()
        net.add(layer, value, draw.choice(same))
    elif shared and draw.chance(0.3):
        net.share(draw.choice(shared), value)
    else:
        layer = _layer_for(draw, value.shape)
        if net.is_masked and isinstance(layer, L.MultiHeadAttention) and differs("Queries that see nothing"):
            layer = L.LayerNormalization()  # what reads an attention's output may not know its mask
        context = [v for v in net.values if len(v.shape) == 2]  # an attention may read another sequence
        attends = type(layer).__name__ == "MultiHeadAttention" and draw.chance()
        net.add(layer, value, *([draw.choice(context)] if attends else []))


def _can_share(layer: Layer) -> bool:
    return type(layer).__name__ in ("Dense", "Conv2D", "GRU", "LSTM", "BatchNormalization", "LayerNormalization")


def _layer_for(draw: Draw, shape: tuple[int, ...]) -> Layer:
    """A layer for a value of this shape."""
    activation = draw.choice(["linear", "relu", "tanh", "silu"])
    units = draw.integer(2, 4)
    if len(shape) == 1:
        return draw.choice(
            [
                L.Dense(units, activation),
                L.BatchNormalization(),
                L.RepeatVector(3),
                L.Reshape([shape[0], 1]),
                L.Activation("gelu"),
                L.LayerNormalization(),
                L.Dense(units, activation, kernel_regularizer="l2"),
            ]
        )
    if len(shape) == 2:
        recurrent = draw.choice([L.GRU, L.LSTM, L.SimpleRNN])
        every = draw.chance(0.7)
        return draw.choice(
            [
                recurrent(units, return_sequences=every),
                recurrent(units, return_sequences=every),
                L.Bidirectional(recurrent(units, return_sequences=every)),
                L.Dense(units, activation),
                L.LayerNormalization(),
                L.MultiHeadAttention(2, 2),
                L.TimeDistributed(L.Dense(units, activation)),
                L.Flatten(),
                L.Conv1D(units, 2, padding="same"),
                L.BatchNormalization(),
                L.MaxPooling1D(2, padding="same"),
                L.GlobalMaxPooling1D(),
            ]
        )
    small = min(shape[1:]) < 4
    return draw.choice([
        L.Conv2D(units, draw.choice([1, 2, 3]), padding="same", activation=activation), L.BatchNormalization(),
        L.DepthwiseConv2D(2, padding="same"), L.Flatten() if small else L.MaxPooling2D(2),
        L.GlobalAveragePooling2D(), L.Activation("relu") if small else L.AveragePooling2D(2),
        L.SeparableConv2D(units, 2, padding="same"), L.Conv2D(units, 2, strides=2, padding="same"),
    ])  # fmt: skip


def give_weights(model: pt.Model, net: TwinNet) -> None:
    """Our weights for Keras' layers."""
    for name, variable, to, _ in weight_pairs(model, net):
        array = np.array(model.weights[name])
        variable.assign(to(array).reshape(tuple(variable.shape)).copy())


def weight_pairs(model: pt.Model, net: TwinNet) -> list[Any]:
    """(the name of our weight, Keras' variable, the layout there, and back) of all weights."""
    pairs = []
    for layer_name, (layer, peer, shape) in net.layers.items():
        names = [n for n in model.weights if n.startswith(f"{layer_name}/")]
        variables = {_key(v.path): v for v in peer.weights if "seed" not in v.path}
        assert len(variables) == len(names) == len([v for v in peer.weights if "seed" not in v.path]), layer_name
        for name in names:
            array = np.array(model.weights[name])
            to, back = _layout(layer, name.rsplit("/", 1)[1], array, shape)
            pairs.append((name, variables[_key(name)], to, back))
    return pairs


def _key(path: str) -> tuple[str, str]:
    """What tells a weight from the others of its layer: the direction or the projection it is in, and its name."""
    words = ("forward", "backward", "query", "key", "value", "attention_output")
    steps = path.split("/")
    return next((w for step in steps[1:-1] for w in words if step.startswith(w)), ""), steps[-1]


def _layout(layer: Layer, name: str, array: np.ndarray, shape: tuple[int, ...]) -> Any:
    if "Conv" not in type(layer).__name__ or array.ndim < 3:
        return (lambda a: a, lambda a: a)
    is_depthwise = name.startswith("depthwise") or (name == "kernel" and "Depthwise" in type(layer).__name__)
    channels = shape[-1] if len(shape) == 2 else shape[0]
    return split(array.ndim - 2, channels) if is_depthwise else moved(array.ndim - 2)
