"""A net under change: its layers by name, who reads what, and its weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from prototorch.caffe.interop.caffe_net import CaffeNet
from prototorch.caffe.text.message import Message
from prototorch.graph.net import LayerNode, Net
from prototorch.layers.base import Layer

__all__ = ["Change", "NetDraft"]

Change = Callable[["NetDraft"], None]


@dataclass
class NetDraft:
    """A net that changes rewrite.

    nodes: in their order. weights: by name, None where only the net is known. shapes: of values, with all axes.
    messages: the Caffe layer that a node was made for, by its name. outputs: names of values.
    """

    nodes: list[LayerNode]
    outputs: list[str]
    shapes: dict[str, tuple[int, ...]]
    messages: Mapping[str, Message]
    weights: dict[str, np.ndarray] | None = None
    inputs: tuple[str, ...] = field(default=())

    @classmethod
    def of(cls, caffe: CaffeNet, weights: Mapping[str, np.ndarray] | None) -> NetDraft:
        """The draft of a net and its weights."""
        messages = {node: layer.message for layer in caffe.layers for node in layer.nodes}
        return cls(
            list(caffe.net.nodes),
            list(caffe.net.outputs),
            dict(caffe.shapes),
            messages,
            None if weights is None else dict(weights),
            tuple(i.name for i in caffe.net.inputs),
        )

    def net(self, base: Net) -> Net:
        """The net with the inputs of another."""
        return replace(base, nodes=tuple(self.nodes), outputs=tuple(self.outputs))

    def readers(self, value: str) -> list[LayerNode]:
        """The layers that read a value."""
        return [node for node in self.nodes if value in node.bottoms]

    def only_reader(self, node: LayerNode) -> LayerNode | None:
        """The layer that alone reads the only output of a node; None where there is none, or it is an output."""
        if len(node.tops) != 1 or node.tops[0] in self.outputs:
            return None
        readers = self.readers(node.tops[0])
        alone = len(readers) == 1 and readers[0].bottoms == (node.tops[0],)
        return readers[0] if alone else None

    def set_layer(self, node: LayerNode, layer: Layer) -> LayerNode:
        """Give a node another layer; the new node."""
        place = self.index(node.name)
        self.nodes[place] = replace(self.nodes[place], layer=layer)
        return self.nodes[place]

    def index(self, name: str) -> int:
        """The position of a node."""
        return next(i for i, node in enumerate(self.nodes) if node.name == name)

    def merge_into(self, node: LayerNode, reader: LayerNode) -> None:
        """Take a reader of one input away: who read it reads the node, which does its work now."""
        self._forward(reader.tops[0], node.tops[0])
        del self.nodes[self.index(reader.name)]

    def remove(self, node: LayerNode) -> None:
        """Take a layer of one input and one output away; who read it reads its input."""
        place = self.index(node.name)
        self._forward(node.tops[0], self.nodes[place].bottoms[0])
        del self.nodes[place]

    def _forward(self, old: str, new: str) -> None:
        shape = self.shapes.get(old)
        if shape is not None and new not in self.inputs:
            self.shapes[new] = shape
        self.outputs = [new if value == old else value for value in self.outputs]
        for i, node in enumerate(self.nodes):
            if old in node.bottoms:
                self.nodes[i] = replace(node, bottoms=tuple(new if b == old else b for b in node.bottoms))

    def owns_weights(self, node: LayerNode) -> bool:
        """Whether no other layer shares the weights of a node."""
        return node.layer.weights is None and sum(n.weights_key == node.weights_key for n in self.nodes) == 1

    def take_weights(self, node: LayerNode, names: Sequence[str]) -> dict[str, np.ndarray]:
        """The weights of a node by their names below it, out of the draft's; none where only the net is known."""
        if self.weights is None:
            return {}
        return {name: self.weights.pop(f"{node.name}/{name}") for name in names}

    def put_weights(self, node: LayerNode, weights: Mapping[str, np.ndarray]) -> None:
        """Give a node its weights."""
        if self.weights is not None:
            self.weights.update({f"{node.name}/{name}": array for name, array in weights.items()})
