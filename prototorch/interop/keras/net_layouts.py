"""Layouts of weights that depend on the net: Keras' images are [rows, columns, channels], ours are channels-first.

A Flatten gives their elements in another order, so the rows of a Dense that reads them are in another order there;
what lies between (BatchNormalization, PReLU) has its weights in that order, too. Behind a Reshape from a vector to an
image it is the other way round: the columns of the Dense before it. PReLU and LayerNormalization over an image have
weights of its shape.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from prototorch import layers
from prototorch.graph.net import LayerNode, Net
from prototorch.interop.keras.feature_orders import NetOrders, Order
from prototorch.layers.recurrent import RecurrentLayer
from prototorch.model.loading.layout.layout_table import LayoutTable, WeightLayout
from prototorch.model.loading.layout.transforms import Arrays, Chain, Transform, TransposeArray

__all__ = ["ReorderArray", "net_layouts"]


@dataclass(frozen=True)
class ReorderArray(Transform):
    """The elements along an axis in another order: element i of ours is ``order[i]`` of theirs."""

    order: Order
    axis: int

    def to_ours(self, arrays: Arrays) -> Arrays:
        return tuple(array.take(self.order.indices, axis=self.axis) for array in arrays)

    def to_theirs(self, arrays: Arrays) -> Arrays:
        return tuple(array.take(np.argsort(self.order.indices), axis=self.axis) for array in arrays)

    def their_shapes(self, shapes: Sequence[tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
        return tuple(shapes)

    def __str__(self) -> str:
        name = ("rows", "columns")[self.axis] if self.axis < 2 else f"axis {self.axis}"
        return f"{name} reordered from {self.order}"


def net_layouts(
    table: LayoutTable, net: Net, weight_shapes: Mapping[str, tuple[int, ...]], metadata: Mapping[str, str]
) -> dict[str, Sequence[WeightLayout]]:
    """The layouts that replace those of Keras' table, by the names of the net's layers.

    weight_shapes: of our weights by their full names. metadata: of the file; its ``data_format`` and ``flatten`` tell
    the order of its images and of what its Flatten makes of them, "channels_last" where they are missing.
    """
    are_maps_last = metadata.get("data_format", "channels_last") == "channels_last"
    is_flatten_last = metadata.get("flatten", "channels_last") == "channels_last"
    orders = NetOrders(net, reorders_vectors=is_flatten_last)
    groups = _by_layer(net, weight_shapes)
    replaced: dict[str, Sequence[WeightLayout]] = {}
    for node in net.nodes:
        shapes = groups.get(node.weights_key, {})
        transforms = _transforms(node, shapes, orders, are_maps_last) if shapes else {}
        if transforms:
            replaced[node.name] = [_with(layout, transforms) for layout in table.layouts(node.layer, shapes)]
    return replaced


def _by_layer(net: Net, weight_shapes: Mapping[str, tuple[int, ...]]) -> dict[str, dict[str, tuple[int, ...]]]:
    """The shapes by the key of the layer, the longest that begins the weight's name, and the name below it."""
    keys = {node.weights_key for node in net.nodes}
    groups: dict[str, dict[str, tuple[int, ...]]] = {}
    for name, shape in weight_shapes.items():
        key = name
        while key and key not in keys:
            key = key.rpartition("/")[0]
        groups.setdefault(key, {})[name.removeprefix(f"{key}/")] = shape
    return groups


def _with(layout: WeightLayout, transforms: Mapping[str, list[Transform]]) -> WeightLayout:
    more = transforms.get(layout.ours[0], []) if layout.ours else []
    return WeightLayout(layout.ours, layout.theirs, Chain((layout.transform, *more))) if more else layout


def _transforms(
    node: LayerNode, shapes: Mapping[str, tuple[int, ...]], orders: NetOrders, are_maps_last: bool
) -> dict[str, list[Transform]]:
    """What is done to some of the layer's weights, by their names, from theirs to ours."""
    layer = node.layer
    before, after = orders.order(node.bottoms[0]), orders.order(node.tops[0])
    result: dict[str, list[Transform]] = {}
    if isinstance(layer, layers.Dense | RecurrentLayer):
        if before is not None and len(before.indices) == shapes["kernel"][0]:
            result["kernel"] = [ReorderArray(before, 0)]
        if after is not None and isinstance(layer, layers.Dense) and len(after.indices) == shapes["kernel"][1]:
            result.setdefault("kernel", []).append(ReorderArray(after, 1))
            result["bias"] = [ReorderArray(after, 0)]
        return result
    if before is not None:
        size = len(before.indices)
        return {name: [ReorderArray(before, 0)] for name, shape in shapes.items() if shape == (size,)}
    if are_maps_last and orders.is_map(node.bottoms[0]):
        for name, shape in shapes.items():
            is_map_shape = isinstance(layer, layers.PReLU) or (
                isinstance(layer, layers.LayerNormalization) and orders.has_channel_axis(layer.axis, node.bottoms[0])
            )
            if is_map_shape and len(shape) > 1:
                result[name] = [TransposeArray((len(shape) - 1, *range(len(shape) - 1)))]
        activation = getattr(layer, "activation", None)
        if isinstance(activation, layers.PReLU) and len(shapes.get("activation/alpha", ())) > 1:
            rank = len(shapes["activation/alpha"])
            result["activation/alpha"] = [TransposeArray((rank - 1, *range(rank - 1)))]
    return result
