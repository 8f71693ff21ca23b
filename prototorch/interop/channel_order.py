"""A net whose layers over maps all have the channels behind the batch, for systems that know no other order.

Layers with their channels last stand between Permute layers then; where one such layer reads another, there is none.
The axis of layers that have one is stated. Weights and names of outputs are those of the net.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace

from prototorch.errors import ModelError, ModelWarning
from prototorch.graph.net import LayerNode, Net
from prototorch.graph.trace import trace
from prototorch.layers import Permute
from prototorch.layers.channels import ChannelAxisLayer, MapLayer
from prototorch.spec import Spec

__all__ = ["channels_first_net"]

_OPEN_SIZE = 224  # stands for a size that only the data tell


def channels_first_net(net: Net) -> Net:
    """The net itself where there is nothing to do, or where its shapes are not known."""
    if not any(isinstance(node.layer, ChannelAxisLayer) for node in net.nodes):
        return net
    ranks = _ranks(net)
    return net if ranks is None else _Rewriting(net, ranks).net()


def _ranks(net: Net) -> Mapping[str, int] | None:
    """The number of axes of each value, the batch's included; None where the net cannot be traced."""
    specs = {i.name: Spec((1, *(n or _OPEN_SIZE for n in i.shape)), i.dtype) for i in net.inputs}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ModelWarning)
            return {name: value.ndim for name, value in trace(net, specs, training=False).values.items()}
    except ModelError:
        return None


class _Rewriting:
    def __init__(self, net: Net, ranks: Mapping[str, int]):
        self.old, self.ranks = net, ranks
        self.nodes: list[LayerNode] = []
        self.first: dict[str, str] = {}  # a value with its channels last -> the same with its channels first
        self.names = {node.name for node in net.nodes} | {top for node in net.nodes for top in node.tops}
        self.names |= {node.name for node in net.inputs}

    def net(self) -> Net:
        for node in self.old.nodes:
            self._add(node)
        read = {bottom for node in self.nodes for bottom in node.bottoms} | set(self.old.outputs)
        nodes = [n for n in self.nodes if not isinstance(n.layer, Permute) or n.tops[0] in read or n in self.old.nodes]
        return replace(self.old, nodes=tuple(nodes))

    def _add(self, node: LayerNode) -> None:
        layer = node.layer
        if isinstance(layer, MapLayer):
            ndim = self.ranks[node.bottoms[0]]
            plain = layer.replace(data_format="channels_first")
            if not layer.has_channels_last(ndim - 1):
                self.nodes.append(replace(node, layer=plain))
                return
            rank = layer.map_rank(ndim)
            bottoms = tuple(self._with_channels_first(name, rank) for name in node.bottoms)
            inner = tuple(
                self._unused(f"{top}_channels_first") if self._is_map(top, rank) else top for top in node.tops
            )
            self.nodes.append(replace(node, layer=plain, bottoms=bottoms, tops=inner))
            for top, name in zip(node.tops, inner, strict=True):
                if top != name:
                    axis = self.ranks[top] - 1 - rank
                    dims = [*range(1, axis), *range(axis + 1, self.ranks[top]), axis]
                    self._permute(f"{top}_channels_last", name, top, dims)
                    self.first[top] = name
        elif isinstance(layer, ChannelAxisLayer) and "axis" in type(layer).specs():
            axis = layer.channel_axis(self.ranks[node.bottoms[0]])
            self.nodes.append(replace(node, layer=layer.replace(axis=axis, data_format=None)))
        else:
            self.nodes.append(node)

    def _is_map(self, name: str, rank: int) -> bool:
        return rank > 0 and self.ranks[name] - 1 - rank >= 1

    def _with_channels_first(self, name: str, rank: int) -> str:
        if not self._is_map(name, rank):
            return name
        if name not in self.first:
            ndim = self.ranks[name]
            axis = ndim - 1 - rank
            self.first[name] = self._unused(f"{name}_channels_first")
            dims = [*range(1, axis), ndim - 1, *range(axis, ndim - 1)]
            self._permute(self.first[name], name, self.first[name], dims)
        return self.first[name]

    def _permute(self, name: str, bottom: str, top: str, dims: list[int]) -> None:
        unused = name if name == top else self._unused(name)
        self.nodes.append(LayerNode(unused, Permute(dims, name=unused), (bottom,), (top,)))

    def _unused(self, name: str) -> str:
        plain, number = name.replace(":", "_"), 1
        unused = plain
        while unused in self.names:
            number += 1
            unused = f"{plain}_{number}"
        self.names.add(unused)
        return unused
