"""What a net takes over from a weight set besides the weights: its preprocessing, and the names of its classes."""

from __future__ import annotations

from dataclasses import replace

from prototorch.graph.net import Net
from prototorch.interop.weight_sets.declaration import describe_layers
from prototorch.interop.weight_sets.registry import DeclaredSet
from prototorch.model.weights_block import Weights

__all__ = ["assign_set"]


def assign_set(net: Net, declared: DeclaredSet, block: Weights) -> tuple[Net, str]:
    """The net with the preprocessing and the class names of a weight set, and the lines that say so.

    The names of the classes are left out where weights are, by ``except``: what the outputs mean is then not known.
    """
    weights = declared.weights
    notes = [f"weights: {weights.name} ({weights.describe()})"]
    if block.preprocess == "set" and weights.preprocess and tuple(weights.preprocess) != net.preprocess:
        replaced = " replaces that of the text" if net.preprocess else ""
        notes.append(f"preprocess: {describe_layers(tuple(weights.preprocess))}{replaced}")
        net = replace(net, preprocess=tuple(weights.preprocess))
    names = () if block.except_ else declared.class_names()
    if names:
        net = replace(net, class_names=names)
    return net, "\n".join(notes)
