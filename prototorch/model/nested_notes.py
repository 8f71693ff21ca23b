"""Notes of `check` and `summary` on nets in a text: the parts that it takes over, and those that it leaves out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from prototorch.graph.net import Net
from prototorch.graph.net_writer import layers_field
from prototorch.text.nested_net import NestedNet
from prototorch.text.writer import format_fields

__all__ = ["describe_layers", "with_notes"]


def with_notes(net: Net, nets: Sequence[NestedNet]) -> Net:
    """A net with a sentence for each thing that it has from a net in it, or that this one has and is left out."""
    notes: list[str] = []
    warnings: list[str] = []
    for one in nets:
        place = f"{one.span}: " if one.span is not None else ""
        own = one.preprocess_layers
        if own and not one.reads_first_input:
            warnings.append(
                f"{place}the net {one.title} reads no input of this text, so that its preprocess is left out: "
                f"{describe_layers(own)}"
            )
        elif own and own == net.preprocess:
            notes.append(f"{place}preprocess is that of the net {one.title}: {describe_layers(own)}")
        elif own:
            warnings.append(
                f"{place}the net {one.title} was made for another preprocess, {describe_layers(own)}, than that of "
                f"this text, {describe_layers(net.preprocess)}, which is used: leave it out to take that of the net"
            )
        if one.unused:
            names = ", ".join(one.unused[:-1]) + (" and " if len(one.unused) > 1 else "") + one.unused[-1]
            notes.append(f"{place}of the net {one.title} the layers are used, not its {names}")
    return replace(net, notes=tuple(dict.fromkeys(notes)), warnings=tuple(dict.fromkeys(warnings)))


def describe_layers(layers: Sequence[Any]) -> str:
    """Layers as a text writes them, in one line."""
    return " ".join(format_fields(layers_field("preprocess", layers).value.fields).split())
