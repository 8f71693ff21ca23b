"""The declared net: layers and their wiring, without shapes. Text and Python both become this."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from prototorch.layers.base import Layer


@dataclass(frozen=True)
class InputNode:
    """An input of the net. ``shape`` leaves out the batch dimension; None is a size that is found when data come."""

    name: str
    shape: tuple[int | None, ...]
    dtype: str = "float32"
    span: Any = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class LayerNode:
    """A layer at its place: the names of what it reads and of what it gives."""

    name: str
    layer: Layer
    bottoms: tuple[str, ...]
    tops: tuple[str, ...]
    span: Any = field(default=None, compare=False, repr=False)
    chain: Any = field(default=None, compare=False, repr=False)

    @property
    def weights_key(self) -> str:
        """The name in front of its weights' names: its own, or the one it shares them under."""
        return self.layer.weights or self.name


@dataclass(frozen=True)
class Net:
    """Inputs, layers in an order in which each reads only what is there, and the names of the outputs.

    ``preprocess`` layers run before the net in training and use alike, ``augment`` layers in training only.
    """

    name: str
    inputs: tuple[InputNode, ...]
    nodes: tuple[LayerNode, ...]
    outputs: tuple[str, ...]
    preprocess: tuple[Layer, ...] = ()
    augment: tuple[Layer, ...] = ()

    def node(self, name: str) -> LayerNode:
        """The layer of that name; KeyError if there is none."""
        for node in self.nodes:
            if node.name == name:
                return node
        raise KeyError(name)

    def index_inputs(self) -> dict[str, tuple[str, int]]:
        """The inputs that layers read as whole numbers from 0 on: input -> (layer, how many numbers there may be)."""
        found: dict[str, tuple[str, int]] = {}
        names = {i.name for i in self.inputs}
        for node in self.nodes:
            count = node.layer.index_count()
            if count is None:
                continue
            for name in names.intersection(node.bottoms):
                if name not in found or count < found[name][1]:
                    found[name] = (node.name, count)
        return found

    def unknown_sizes(self) -> Iterator[InputNode]:
        """The inputs with a size that only data tell."""
        return (i for i in self.inputs if None in i.shape)
