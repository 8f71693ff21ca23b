"""Whether two nets are equal up to the names of their layers."""

from __future__ import annotations

from collections.abc import Sequence

from prototorch.graph.net import Net
from prototorch.layers.base import Layer

__all__ = ["find_difference", "normal_layer"]


def normal_layer(layer: Layer) -> Layer:
    """The layer without its name, and with ``valid`` in the place of a padding of 0."""
    changes: dict[str, object] = {"name": None}
    padding = getattr(layer, "padding", None)
    if isinstance(padding, tuple) and "padding" in type(layer).specs() and not any(map(any, padding)):
        changes["padding"] = "valid"
    try:
        return layer.replace(**changes)
    except ValueError:
        return layer.replace(name=None)


def find_difference(net: Net, other: Net, order: Sequence[int]) -> str | None:
    """The first difference of two nets, None where they are equal up to names.

    order: for each layer of `other` the number of the layer of `net` that it must equal.
    """
    if sorted(order) != list(range(len(net.nodes))) or len(other.nodes) != len(net.nodes):
        return f"{len(other.nodes)} layers, not {len(net.nodes)}"
    if [(i.shape, i.dtype, i.name) for i in net.inputs] != [(i.shape, i.dtype, i.name) for i in other.inputs]:
        return "the inputs"
    if net.preprocess != other.preprocess or net.augment != other.augment:
        return "preprocess or augment"
    values = {value.name: value.name for value in net.inputs}
    keys: dict[str, str] = {}
    for number, two in zip(order, other.nodes, strict=True):
        one = net.nodes[number]
        if normal_layer(one.layer) != normal_layer(two.layer):
            return f"the layer {one.name!r}: {normal_layer(one.layer)!r} and {normal_layer(two.layer)!r}"
        if tuple(values.get(bottom) for bottom in one.bottoms) != two.bottoms or len(one.tops) != len(two.tops):
            return f"what the layer {one.name!r} reads: {two.bottoms}"
        if keys.setdefault(one.weights_key, two.weights_key) != two.weights_key:
            return f"the weights that {one.name!r} shares"
        values.update(zip(one.tops, two.tops, strict=True))
    if len(set(keys.values())) != len(keys):
        return "weights that are shared in the text only"
    if tuple(values[output] for output in net.outputs) != other.outputs:
        return f"the outputs: {other.outputs}"
    return None
