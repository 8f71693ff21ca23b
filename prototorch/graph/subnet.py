"""Parts of a net: the outputs that names and patterns mean, and the layers that compute them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from prototorch.errors import UsageError
from prototorch.graph.net import Net
from prototorch.schema.patterns import check_matches, matches

__all__ = ["find_outputs", "subnet"]


def find_outputs(net: Net, patterns: Sequence[str]) -> tuple[str, ...]:
    """The values of a net that names or patterns mean, in the net's order: the outputs of the layers that match, and of
    a block of a text (``stage1``) that of its last layer.

    A layer's further outputs have names of their own (``lstm:1``). Raises UsageError, with a suggestion, for a pattern
    that matches nothing.
    """
    order = {top: number for number, node in enumerate(net.nodes) for top in node.tops}
    last_layers: dict[str, str] = {}  # the output of each block: of the last layer in it
    for node in net.nodes:
        parts = node.name.split("/")
        last_layers.update({"/".join(parts[:i]): node.tops[0] for i in range(1, len(parts))})
    names = {**last_layers, **{node.name: node.tops[0] for node in net.nodes}, **{top: top for top in order}}
    needed_tops: set[str] = set()
    for pattern in patterns:
        tops = {top for name, top in names.items() if matches(pattern, name)}
        if not tops:
            check_matches(pattern, names, "layer")
            raise UsageError(f"{pattern!r} matches no layer and no block")
        needed_tops |= tops
    return tuple(sorted(needed_tops, key=lambda top: (order[top], top)))


def subnet(net: Net, outputs: Sequence[str]) -> Net:
    """The part of a net that computes these of its values; its layers bring their weights along."""
    needed, nodes = set(outputs), []
    for node in reversed(net.nodes):
        if needed.intersection(node.tops):
            needed.update(node.bottoms)
            nodes.append(replace(node, called_layer=node.layer))
    inputs = tuple(node for node in net.inputs if node.name in needed)
    is_preprocessed = bool(inputs) and inputs[0] == net.inputs[0]  # the layers of preprocess are for the first input
    return Net(
        net.name,
        inputs,
        tuple(reversed(nodes)),
        tuple(outputs),
        preprocess=net.preprocess if is_preprocessed else (),
        augment=net.augment if is_preprocessed else (),
        imports=net.imports,
    )
