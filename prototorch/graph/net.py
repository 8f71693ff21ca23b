"""The declared net: layers and their connections, without shapes. Texts and the functional API both become this."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from prototorch.layers.base import Layer


@dataclass(frozen=True)
class InputNode:
    """An input of the net. ``shape`` leaves out the batch dimension; None: a size that is known when data are bound."""

    name: str
    shape: tuple[int | None, ...]
    dtype: str = "float32"
    span: Any = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class LayerNode:
    """A layer in a net: the names of the values that it reads and of its outputs."""

    name: str
    layer: Layer
    bottoms: tuple[str, ...]
    tops: tuple[str, ...]
    span: Any = field(default=None, compare=False, repr=False)
    chain: Any = field(default=None, compare=False, repr=False)
    #: the layer object that was called, from which a model takes the weights it has
    called_layer: Layer | None = field(default=None, compare=False, repr=False)

    @property
    def weights_key(self) -> str:
        """The name in front of its weights' names: its own, or the one it shares them under."""
        return self.layer.weights or self.name


@dataclass(frozen=True)
class Net:
    """Inputs, layers in an order in which each reads only outputs of layers before it, and the names of the outputs.

    ``preprocess`` layers run before the net in training and use alike, ``augment`` layers in training only.
    ``class_names`` are the classes that an output with as many elements tells apart, where they are known. ``imports``
    are the Python modules that its text names, see `graph.net_imports`.
    """

    name: str
    inputs: tuple[InputNode, ...]
    nodes: tuple[LayerNode, ...]
    outputs: tuple[str, ...]
    preprocess: tuple[Layer, ...] = ()
    augment: tuple[Layer, ...] = ()
    class_names: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()

    def node(self, name: str) -> LayerNode:
        """The layer of that name; KeyError if there is none."""
        for node in self.nodes:
            if node.name == name:
                return node
        raise KeyError(name)

    def index_inputs(self) -> dict[str, tuple[str, int]]:
        """The inputs that layers read as integers from 0 on: input -> (layer, exclusive upper bound)."""
        indexed: dict[str, tuple[str, int]] = {}
        names = {i.name for i in self.inputs}
        for node in self.nodes:
            count = node.layer.index_count()
            if count is None:
                continue
            for name in names.intersection(node.bottoms):
                if name not in indexed or count < indexed[name][1]:
                    indexed[name] = (node.name, count)
        return indexed

    def unknown_sizes(self) -> Iterator[InputNode]:
        """The inputs with a size that only the data determine."""
        return (i for i in self.inputs if None in i.shape)
