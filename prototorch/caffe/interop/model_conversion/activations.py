"""Activations as the ``activation`` of the layer before them; identities taken away."""

from __future__ import annotations

from typing import Any

from prototorch.caffe.interop.model_conversion.draft import NetDraft
from prototorch.layers import Linear, Softmax
from prototorch.layers.activation import ActivationLayer

__all__ = ["join_activations", "remove_identities", "use_default_axes"]


def join_activations(draft: NetDraft) -> None:
    """Give a convolution or a dense layer the activation that alone reads it, unless that has weights or an axis."""
    for node in list(draft.nodes):
        if all(other.name != node.name for other in draft.nodes):
            continue  # joined to the one before
        layer: Any = node.layer
        if "activation" not in type(layer).specs() or not isinstance(getattr(layer, "activation", None), Linear):
            continue
        reader = draft.only_reader(node)
        activation: Any = reader.layer if reader is not None else None
        if reader is None or not isinstance(activation, ActivationLayer) or not activation.elementwise:
            continue
        draft.merge_into(draft.set_layer(node, layer.replace(activation=activation)), reader)


def use_default_axes(draft: NetDraft) -> None:
    """Leave out the axis of a Softmax over the last axis."""
    for node in list(draft.nodes):
        layer: Any = node.layer
        if isinstance(layer, Softmax) and layer.axis == len(draft.shapes[node.bottoms[0]]) - 1:
            draft.set_layer(node, layer.replace(axis=-1))


def remove_identities(draft: NetDraft) -> None:
    """Take layers away that give what they read, where no output is lost."""
    for node in list(draft.nodes):
        is_alone = node.tops[0] in draft.outputs and node.bottoms[0] in (*draft.outputs, *draft.inputs)
        if isinstance(node.layer, Linear) and not is_alone:
            draft.remove(node)
