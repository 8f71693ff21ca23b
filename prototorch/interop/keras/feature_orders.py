"""Which values of a net are images (maps of channels), and in which order Keras has the elements of its vectors.

Both follow from the layers: a convolution reads and gives maps, elementwise layers give what they read, a Flatten makes
a vector of a map whose elements Keras has with the channels last.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from prototorch import layers
from prototorch.graph.net import LayerNode, Net
from prototorch.graph.trace import trace
from prototorch.interop.channel_order import channels_first_net
from prototorch.spec import Spec

__all__ = ["NetOrders", "Order"]

_RESHAPING = (layers.Flatten, layers.Reshape)


@dataclass(frozen=True, eq=False)
class Order:
    """The order of a vector's elements: element i of ours is ``indices[i]`` of Keras'. text: what they come from."""

    indices: np.ndarray
    text: str

    def __str__(self) -> str:
        return self.text


def _order_of_map(shape: tuple[int, ...]) -> Order:
    """For a map [channels, *size] that is flattened."""
    channels, *size = shape
    indices = np.arange(prod(shape)).reshape(*size, channels)
    return Order(np.moveaxis(indices, -1, 0).ravel(), f"{[*size, channels]} to {[channels, *size]}")


class NetOrders:
    """Maps and orders of a net's values by their names.

    reorders_vectors: whether a Flatten gives its elements with the channels last; otherwise no vector has an order of
    its own.
    """

    def __init__(self, net: Net, reorders_vectors: bool = True):
        self.net = net = channels_first_net(net)
        self._orders: dict[str, Order] = {}
        if reorders_vectors and any(isinstance(node.layer, _RESHAPING) for node in net.nodes):
            self._find_orders()

    def order(self, name: str) -> Order | None:
        """The order of a vector; None where Keras has the same."""
        return self._orders.get(name)

    def is_map(self, name: str) -> bool:
        """Whether a value is a map of channels, [batch, channels, ...]."""
        return name in self._maps

    def shape(self, name: str) -> tuple[int, ...] | None:
        """The shape of a value for a batch of one; None where only the data tell it."""
        return self._shapes.get(name)

    def has_channel_axis(self, axes: Iterable[int], name: str) -> bool:
        """Whether the channels are among these axes of a map; of one with an open size, whether axis 1 is."""
        rank = len(self._shapes.get(name, ()))
        return any((axis % rank if rank else axis) == 1 for axis in axes)

    @cached_property
    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of all values for a batch of one; none for a net with sizes that only the data tell."""
        if any(True for _ in self.net.unknown_sizes()):
            return {}
        specs = {node.name: Spec((1, *(n or 1 for n in node.shape)), node.dtype) for node in self.net.inputs}
        return {name: tuple(value.shape) for name, value in trace(self.net, specs, training=False).values.items()}

    @cached_property
    def _maps(self) -> set[str]:
        maps = {node.name for node in self.net.inputs if len(node.shape) > 2}
        for node in self.net.nodes:
            if _is_spatial(node):
                maps.update(node.bottoms)
                if getattr(node.layer, "keepdims", True):  # a global pooling gives a vector without
                    maps.update(node.tops)
        changed = True
        while changed:
            changed = False
            for node in self.net.nodes:
                names = {*node.bottoms, *node.tops}
                if _is_elementwise(node) and names & maps and not names <= maps and self._has_one_rank(names):
                    maps |= names
                    changed = True
        return maps

    def _has_one_rank(self, names: Iterable[str]) -> bool:
        """Whether values have as many axes each; a reduction of a map is none, whose axes are others."""
        return len({len(self._shapes[name]) for name in names if name in self._shapes}) <= 1

    def _find_orders(self) -> None:
        shapes = self._shapes
        if not shapes:
            return
        for node in self.net.nodes:
            if isinstance(node.layer, _RESHAPING):
                before, after = shapes[node.bottoms[0]], shapes[node.tops[0]]
                if self.is_map(node.bottoms[0]) and len(before) > 2 and _is_vector(after):
                    self._set(node.tops[0], _order_of_map(before[1:]))
                elif self.is_map(node.tops[0]) and len(after) > 2 and _is_vector(before):
                    self._set(node.bottoms[0], _order_of_map(after[1:]))
        while sum(self._propagate(node) for node in self.net.nodes):
            pass

    def _set(self, name: str, order: Order) -> bool:
        if name in self._orders or np.array_equal(order.indices, np.arange(len(order.indices))):
            return False
        self._orders[name] = order
        return True

    def _propagate(self, node: LayerNode) -> bool:
        """Bring orders through one layer; whether one is new."""
        shapes, layer = self._shapes, node.layer
        names = (*node.bottoms, *node.tops)
        if isinstance(layer, layers.Concatenate):
            return self._propagate_through_concatenation(node)
        if isinstance(layer, _RESHAPING) and not all(_is_vector(shapes[name]) for name in names):
            return False
        if not _is_elementwise(node) and not isinstance(layer, _RESHAPING):
            return False
        order = next((self._orders[name] for name in names if name in self._orders), None)
        if order is None:
            return False
        return sum(self._set(name, order) for name in names if prod(shapes[name]) == len(order.indices)) > 0

    def _propagate_through_concatenation(self, node: LayerNode) -> bool:
        shapes = [self._shapes[name] for name in node.bottoms]
        if node.tops[0] in self._orders or not any(name in self._orders for name in node.bottoms):
            return False
        if not all(_is_vector(shape) for shape in shapes):
            return False
        parts, start = [], 0
        for name, shape in zip(node.bottoms, shapes, strict=True):
            size = prod(shape)
            indices = self._orders[name].indices if name in self._orders else np.arange(size)
            parts.append(indices + start)
            start += size
        text = "; ".join(str(self._orders[name]) for name in node.bottoms if name in self._orders)
        return self._set(node.tops[0], Order(np.concatenate(parts), text))


def _is_vector(shape: tuple[int, ...]) -> bool:
    """Whether a value [1, ...] has at most one axis of more than one element."""
    return sum(n > 1 for n in shape[1:]) <= 1


def _is_spatial(node: LayerNode) -> bool:
    """Whether the layer is one over the dimensions behind the channels: a convolution, a pooling."""
    return hasattr(type(node.layer), "rank")


def _is_elementwise(node: LayerNode) -> bool:
    """Whether the layer gives a value of the kind that it reads, element by element or channel by channel."""
    return not (_is_spatial(node) or node.layer.consumes_features or isinstance(node.layer, _RESHAPING))
