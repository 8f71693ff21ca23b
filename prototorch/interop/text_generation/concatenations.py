"""Concatenations that join the same values again and again, as exporters write DenseNet, in terms of each other."""

from __future__ import annotations

from dataclasses import replace

from prototorch.graph.net import LayerNode, Net
from prototorch.layers.merge import Concatenate

__all__ = ["chain_concatenations"]

_LONGEST_REST = 8  # inputs behind those that another one joins


def chain_concatenations(net: Net) -> Net:
    """The net with each `Concatenate` that begins with the inputs of an earlier one reading that one's output.

    ``[a, b]``, ``[a, b, c]`` become ``[a, b]``, ``[[a, b], c]``: the same values.
    """
    concatenations: dict[tuple[object, ...], str] = {}  # axis and inputs of a concatenation -> its output
    nodes: list[LayerNode] = []
    for node in net.nodes:
        new = node
        if isinstance(node.layer, Concatenate):
            axis, bottoms = node.layer.axis, node.bottoms
            for length in range(len(bottoms) - 1, max(1, len(bottoms) - 1 - _LONGEST_REST), -1):
                top = concatenations.get((axis, *bottoms[:length]))
                if top is not None:
                    new = replace(node, bottoms=(top, *bottoms[length:]))
                    break
            concatenations.setdefault((axis, *bottoms), node.tops[0])
        nodes.append(new)
    return replace(net, nodes=tuple(nodes))
