"""Which axes the layers of a net take for the channels, found by tracing it, and a net in which each layer says so."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace

from prototorch.errors import ModelError, ModelWarning
from prototorch.graph.net import LayerNode, Net
from prototorch.graph.trace import trace
from prototorch.layers.channels import ChannelAxisLayer
from prototorch.spec import Spec

__all__ = ["stated_node", "value_ranks", "with_stated_channels"]

_OPEN_SIZE = 224  # stands for a size that only the data tell


def value_ranks(net: Net) -> Mapping[str, int] | None:
    """The number of axes of each value, the batch's included; None where the net cannot be traced."""
    specs = {i.name: Spec((1, *(n or _OPEN_SIZE for n in i.shape)), i.dtype) for i in net.inputs}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ModelWarning)
            return {name: value.ndim for name, value in trace(net, specs, training=False).values.items()}
    except ModelError:
        return None


def with_stated_channels(net: Net) -> Net:
    """The net with the axis of the channels stated by each layer that has one: two nets that mean the same are equal.

    The net itself where its shapes are not known.
    """
    ranks = value_ranks(net)
    return net if ranks is None else replace(net, nodes=tuple(stated_node(node, ranks) for node in net.nodes))


def stated_node(node: LayerNode, ranks: Mapping[str, int]) -> LayerNode:
    """A node whose layer states the axis of its channels, where it has one."""
    layer = node.layer
    if not isinstance(layer, ChannelAxisLayer) or not node.bottoms:
        return node
    ndim = ranks[node.bottoms[0]]
    if "axis" in type(layer).specs():
        return replace(node, layer=layer.replace(axis=layer.channel_axis(ndim) % ndim, data_format=None))
    is_last = layer.has_channels_last(ndim - 1)
    return replace(node, layer=layer.replace(data_format="channels_last" if is_last else "channels_first"))
