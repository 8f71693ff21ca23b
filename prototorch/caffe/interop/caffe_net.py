"""A Caffe net in our layers, with what a net of ours does not tell: blobs, parameter blobs, loss weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from prototorch.caffe.text.message import Message
from prototorch.graph.net import Net
from prototorch.graph.weight_spec import WeightSpec
from prototorch.initializers import Initializer
from prototorch.model.loading.layout.layout_table import WeightLayout
from prototorch.spec import Spec

__all__ = ["CaffeLayer", "CaffeNet", "CaffeParam"]

#: graph: nodes of the net. data: its tops are inputs of the net, which a data source fills. host: computed in Python
#: between two parts of the net (Python, Filter, HDF5Output); its tops are inputs of the net, too.
LayerKind = Literal["graph", "data", "host"]


@dataclass(frozen=True)
class CaffeParam:
    """A parameter blob of a layer.

    layer, index: the Caffe layer's name, and the position among its blobs. node: the node of the net whose weights it
    holds. layout: which of them, and how (see `WeightLayout`; ``theirs`` has one name). weights: their names in the
    net, in the layout's order; those of the owner where it has one. shape: of the blob in Caffe.
    lr_mult, decay_mult: of its ParamSpec. shared_name: ``param { name }``, "" where there is none; is_permissive:
    its share_mode. owner: (layer, index) of the blob whose values it shares, None where it has its own.
    """

    layer: str
    index: int
    node: str
    layout: WeightLayout
    weights: tuple[str, ...]
    shape: tuple[int, ...]
    lr_mult: float = 1.0
    decay_mult: float = 1.0
    shared_name: str = ""
    is_permissive: bool = False
    owner: tuple[str, int] | None = None


@dataclass(frozen=True)
class CaffeLayer:
    """A layer of a Caffe net. nodes: the names of the nodes of the net that compute it, none for data and host layers.

    bottoms, tops: names of blobs. bottom_values, top_values: names of values of the net (an in-place layer reads one
    value of a blob and gives the next). loss_weights: one for each top; 0 where the top is no loss. fillers: one for
    each top that is drawn (DummyData).
    """

    name: str
    type: str
    kind: LayerKind
    message: Message
    nodes: tuple[str, ...]
    bottoms: tuple[str, ...]
    tops: tuple[str, ...]
    bottom_values: tuple[str, ...]
    top_values: tuple[str, ...]
    loss_weights: tuple[float, ...] = ()
    params: tuple[CaffeParam, ...] = ()
    fillers: tuple[Initializer, ...] = ()

    def phase(self, net_phase: str) -> str:
        """The phase that the layer runs in: its own where it states one, else the net's."""
        return str(self.message["phase"]) if self.message.has("phase") else net_phase


@dataclass(frozen=True)
class CaffeNet:
    """A Caffe net for one phase.

    net: our net. Its inputs are the tops of data and host layers and the net's own inputs; shapes there leave out
    axis 0. message: the upgraded NetParameter, filtered by its state. phase: "TRAIN" or "TEST". blobs: for each blob
    the value of the net that it holds at the end, in the order in which blobs are made. specs: of all values, with
    all axes, for the input shapes that the net was translated for. weights: of the net, by name. inputs: the blobs that
    are inputs of our net, with their values; outputs: names of the blobs that nothing reads, in alphabetical order.
    """

    net: Net
    message: Message
    phase: str
    layers: tuple[CaffeLayer, ...]
    blobs: Mapping[str, str]
    specs: Mapping[str, Spec]
    weights: Mapping[str, WeightSpec]
    inputs: Mapping[str, str]
    outputs: tuple[str, ...]

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of all values, with all axes."""
        return {name: spec.shape for name, spec in self.specs.items()}

    @cached_property
    def blob_of_value(self) -> dict[str, str]:
        """The blob that holds a value of the net, for all values of blobs, overwritten ones included."""
        return {v: b for layer in self.layers for b, v in zip(layer.tops, layer.top_values, strict=False)}

    @property
    def params(self) -> tuple[CaffeParam, ...]:
        """The parameter blobs of all layers, shared ones included, in Caffe's order."""
        return tuple(param for layer in self.layers for param in layer.params)
