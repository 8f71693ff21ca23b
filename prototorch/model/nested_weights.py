"""Weights for some layers of a net, those of a net in the net: ``weights { source: "imagenet"  into: "backbone" }``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from prototorch.errors import ModelWarning, UsageError, warn_user
from prototorch.graph.net import InputNode, LayerNode, Net
from prototorch.graph.probe import trace_net
from prototorch.graph.weight_spec import WeightSpec
from prototorch.model.nested_notes import describe_layers
from prototorch.model.weights_block import Weights

if TYPE_CHECKING:
    from prototorch.model.loading.read.source import PublishedSet

__all__ = ["NamesBelow", "part_below", "take_over_below"]


class NamesBelow(Mapping[str, Any]):
    """Weights by the part of their names behind a prefix."""

    def __init__(self, weights: Mapping[str, Any], into: str):
        self.weights, self.prefix = weights, f"{into}/"

    def __getitem__(self, name: str) -> Any:
        return self.weights[self.prefix + name]

    def __iter__(self) -> Iterator[str]:
        return (name.removeprefix(self.prefix) for name in self.weights if name.startswith(self.prefix))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def part_below(net: Net, specs: Mapping[str, WeightSpec], block: Weights) -> tuple[Net, dict[str, WeightSpec]]:
    """The layers of a net whose weights' names begin with ``block.into``, as a net of the names behind that, and the
    specs of its weights.

    Its inputs are what they read of other layers. Raises UsageError where there are none.
    """
    prefix = f"{block.into}/"
    values = trace_net(net, 1).values
    nodes: list[LayerNode] = []
    layers: dict[str, str] = {}  # by the name of a layer that one behind the prefix
    names: dict[str, str] = {}  # the same of outputs
    inputs: dict[str, InputNode] = {}
    for node in net.nodes:
        if not (node.weights_key.startswith(prefix) or node.name.startswith(prefix)):
            continue
        key = node.weights_key.removeprefix(prefix)
        name = node.name.removeprefix(prefix) if node.name.startswith(prefix) else key
        if name in layers.values():
            continue  # it shares its weights with a layer of another use
        layers[node.name] = name
        names.update({top: top.removeprefix(prefix) for top in node.tops})
        for bottom in node.bottoms:
            if bottom not in names:
                value = values[bottom]
                inputs.setdefault(bottom, InputNode(bottom, tuple(value.shape[1:]), value.dtype))
        shares = tuple(s.replace(source=s.source.removeprefix(prefix)) for s in node.layer.share)
        layer = node.layer.replace(weights=None if key == name else key, share=shares)
        bottoms = tuple(names.get(b, b) for b in node.bottoms)
        nodes.append(LayerNode(name, layer, bottoms, tuple(names[t] for t in node.tops)))
    if not nodes:
        folders = dict.fromkeys(node.name.rpartition("/")[0] for node in net.nodes if "/" in node.name)
        has = f"; there are {', '.join(folders)}" if folders else ""
        raise UsageError(f"weights: there are no layers below {block.into!r}{has}")
    weights = {
        name.removeprefix(prefix): replace(w, name=name.removeprefix(prefix), layer=layers[w.layer])
        for name, w in specs.items()
        if name.startswith(prefix)
    }
    part = Net(block.model or net.name, tuple(inputs.values()), tuple(nodes), nodes[-1].tops[:1])
    return part, weights


def take_over_below(published: PublishedSet, net: Net, block: Weights, part: Net) -> tuple[Net, str]:
    """A net with what it takes over from a set of published weights for a part of it, and the lines that say so.

    The preprocessing of the set replaces that of the part (``preprocess: set``) where this reads the first input; with
    ``preprocess: text``, where the text around has one, a warning names both if they differ. The names of the classes
    are those of a part that is the end of the net.
    """
    is_first = bool(part.inputs) and bool(net.inputs) and part.inputs[0].name == net.inputs[0].name
    loaded_net, notes = published.take_over(replace(part, preprocess=net.preprocess), block)
    if not is_first or block.preprocess == "text":
        trained_for = published.take_over(part, block.replace(preprocess="set"))[0].preprocess
        if is_first and trained_for and trained_for != net.preprocess:
            warn_user(
                f"the weights {block.source!r} of {block.into!r} were trained for the preprocess "
                f"{describe_layers(trained_for)}, and the text has {describe_layers(net.preprocess)}, which is used: "
                "leave it out to take that of the weights",
                ModelWarning,
            )
        loaded_net = replace(loaded_net, preprocess=net.preprocess)
        notes = notes.splitlines()[0]
    net = replace(net, preprocess=loaded_net.preprocess)
    is_end = not block.partial and all(name.startswith(f"{block.into}/") for name in net.outputs)
    return (replace(net, class_names=loaded_net.class_names) if is_end and loaded_net.class_names else net), notes
