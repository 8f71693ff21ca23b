"""The declared net: layers and their connections, without shapes. Texts and the functional API both become this."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from prototorch.layers.base import Layer
from prototorch.layers.channels import DataFormat, default_data_format
from prototorch.layers.tokenizer import Tokenizer


@dataclass(frozen=True)
class InputNode:
    """An input of the net. ``shape`` leaves out the batch dimension; None: a size that is known when data are bound.

    data_format: which of its axes the channels are; None: what `layers.channels.default_data_format` says.
    """

    name: str
    shape: tuple[int | None, ...]
    dtype: str = "float32"
    data_format: DataFormat | None = None
    span: Any = field(default=None, compare=False, repr=False)

    @property
    def has_channels_last(self) -> bool:
        """Whether the channels are the last axis of its samples."""
        return (self.data_format or default_data_format(len(self.shape))) == "channels_last"


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


def in_input_format(layers: Iterable[Layer], inputs: Sequence[InputNode]) -> tuple[Layer, ...]:
    """Layers of ``preprocess`` or ``augment``, which have the channels where the first input has them unless they say
    otherwise."""
    stated = inputs[0].data_format if inputs else None
    return tuple(layers) if stated is None else tuple(layer.with_data_format(stated) for layer in layers)


@dataclass(frozen=True)
class Net:
    """Inputs, layers in an order in which each reads only outputs of layers before it, and the names of the outputs.

    ``preprocess`` layers run before the net in training and use alike, ``augment`` layers in training only.
    ``class_names`` are the classes that an output with as many elements tells apart, where they are known. ``imports``
    are the Python modules that its text names, see `graph.net_imports`. ``notes`` say what a text takes over from the
    nets in it and what it leaves out, ``warnings`` what does not fit together, a sentence each.
    """

    name: str
    inputs: tuple[InputNode, ...]
    nodes: tuple[LayerNode, ...]
    outputs: tuple[str, ...]
    preprocess: tuple[Layer, ...] = ()
    augment: tuple[Layer, ...] = ()
    class_names: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=(), compare=False, repr=False)
    warnings: tuple[str, ...] = field(default=(), compare=False, repr=False)

    def node(self, name: str) -> LayerNode:
        """The layer of that name; KeyError if there is none."""
        for node in self.nodes:
            if node.name == name:
                return node
        raise KeyError(name)

    def tokenizers(self) -> dict[str, Tokenizer]:
        """The inputs that are texts: input -> its tokenizer; empty for a net that reads no texts."""
        return self._tokenizers

    @cached_property
    def _tokenizers(self) -> dict[str, Tokenizer]:
        names = [i.name for i in self.inputs]
        tokenizers: dict[str, Tokenizer] = {}
        if self.preprocess and isinstance(first := self.preprocess[0], Tokenizer):
            tokenizers[names[0]] = first
        for node in self.nodes:
            if isinstance(node.layer, Tokenizer) and node.bottoms[0] in names:
                tokenizers.setdefault(node.bottoms[0], node.layer)
        if not tokenizers:
            return {}
        shared = next(iter(tokenizers.values()))
        indexed = {name for node in self.nodes if node.layer.index_count() is not None for name in node.bottoms}
        return {n: tokenizers.get(n, shared) for n in names if n in tokenizers or n in indexed}

    def index_inputs(self) -> dict[str, tuple[str, int]]:
        """The inputs that layers read as integers from 0 on: input -> (layer, exclusive upper bound)."""
        indexed: dict[str, tuple[str, int]] = {}
        source = {i.name: i.name for i in self.inputs}  # a value -> the input that it is
        for node in self.nodes:
            if isinstance(node.layer, Tokenizer) and node.bottoms[0] in source:
                source[node.tops[0]] = source[node.bottoms[0]]
                continue
            count = node.layer.index_count()
            if count is None:
                continue
            for name in {source[bottom] for bottom in node.bottoms if bottom in source}:
                if name not in indexed or count < indexed[name][1]:
                    indexed[name] = (node.name, count)
        return indexed

    def unknown_sizes(self) -> Iterator[InputNode]:
        """The inputs with a size that only the data determine."""
        return (i for i in self.inputs if None in i.shape)
