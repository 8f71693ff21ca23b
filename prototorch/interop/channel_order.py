"""A net whose layers over maps all have the channels behind the batch, for systems that know no other order.

Layers with their channels last stand between Permute layers then; where one such layer reads another, there is none.
The axis of layers that have one is stated. Weights and names of outputs are those of the net.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from prototorch.graph.channel_axes import stated_node, value_ranks
from prototorch.graph.net import LayerNode, Net
from prototorch.layers import Permute
from prototorch.layers.channels import ChannelAxisLayer, MapLayer

__all__ = ["channels_first_net"]


def channels_first_net(net: Net, keeps_sequences: bool = False) -> Net:
    """The net itself where there is nothing to do, or where its shapes are not known. keeps_sequences: whether layers
    over sequences (1D) stay as they are."""
    if not any(isinstance(node.layer, ChannelAxisLayer) for node in net.nodes):
        return net
    ranks = value_ranks(net)
    return net if ranks is None else _Rewriting(net, ranks, keeps_sequences).net()


class _Rewriting:
    def __init__(self, net: Net, ranks: Mapping[str, int], keeps_sequences: bool):
        self.old, self.ranks, self.keeps_sequences = net, ranks, keeps_sequences
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
            rank = layer.map_rank(ndim)
            has_no_batch = layer.axes_before_channels == 0  # no Permute moves the axis of the batch
            if (self.keeps_sequences and rank == 1) or has_no_batch:
                self.nodes.append(stated_node(node, self.ranks))
                return
            plain = layer.replace(data_format="channels_first")
            if not layer.has_channels_last(ndim - 1):
                self.nodes.append(replace(node, layer=plain))
                return
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
            self.nodes.append(stated_node(node, self.ranks))
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
