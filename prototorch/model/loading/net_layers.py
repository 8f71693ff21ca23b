"""The layers of a net that have weights, as matching sees them."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from prototorch.graph.net import Net
from prototorch.graph.weight_spec import WeightSpec
from prototorch.layers.base import Layer
from prototorch.model.loading.layout.layout_table import LayoutTable, NotExpressibleError, WeightLayout

__all__ = ["NetLayer", "find_net_layers"]


@dataclass(frozen=True)
class NetLayer:
    """A layer with weights. key: what their names begin with. names: the key, and those of the layers that share the
    weights. shapes: of its weights by their names below the key."""

    key: str
    names: tuple[str, ...]
    layer: Layer
    shapes: Mapping[str, tuple[int, ...]]
    reads: tuple[str, ...] = ()
    _replacement: Sequence[WeightLayout] | None = field(default=None, compare=False)
    _shared: Mapping[str, tuple[int, ...]] = field(default_factory=dict, compare=False)  # weights of other layers

    @property
    def kind(self) -> str:
        """The class of the layer, see `Block.type_name`."""
        return self.layer.type_name()

    def weight_names(self) -> list[str]:
        """The full names of its weights."""
        return [f"{self.key}/{name}" for name in self.shapes]

    def reason(self, table: LayoutTable) -> str | None:
        """Why the system has no such layer; None where it has."""
        try:
            return None if any(True for _ in table.variants(self.layer, self.shapes)) else ""
        except NotExpressibleError as error:
            return str(error)

    def variants(self, table: LayoutTable) -> Iterator[Sequence[WeightLayout]]:
        """The forms in which a file of the system may have the weights; none where the system has no such layer.

        Behind those under the system's own names come those under the names of `LayoutTable.vocabularies`, where each
        of the arrays is one weight: a name tells which weight an array is, never its layout.
        """
        forms = list(self._variants(table)) if self._replacement is None else [self._replacement]
        yield from forms
        for vocabulary in table.vocabularies:
            for foreign_form in self._variants(vocabulary):
                names: dict[tuple[str, ...], tuple[str, ...]]
                names = {one.ours: one.theirs for one in foreign_form if len(one.ours) == len(one.theirs) == 1}
                for form in forms:
                    weights = [one for one in form if one.ours]
                    if all(one.ours in names for one in weights):
                        yield [replace(one, theirs=names[one.ours]) for one in weights]

    def _variants(self, table: LayoutTable) -> Iterator[Sequence[WeightLayout]]:
        try:
            for layouts in table.variants(self.layer, {**self._shared, **self.shapes}):
                yield [layout for layout in layouts if all(name in self.shapes for name in layout.ours)]
        except NotExpressibleError:
            return


def find_net_layers(
    net: Net, weights: Mapping[str, WeightSpec], replacements: Mapping[str, Sequence[WeightLayout]]
) -> list[NetLayer]:
    """The layers with weights in the order of the net. replacements: layouts by the names of nodes, see
    `LayoutTable.net_layouts`."""
    nodes = {node.name: node for node in net.nodes}
    sharing: dict[str, list[str]] = {}
    for node in net.nodes:
        sharing.setdefault(node.weights_key, []).append(node.name)
    groups: dict[str, dict[str, tuple[int, ...]]] = {}
    for name, weight in weights.items():
        key = nodes[weight.layer].weights_key
        groups.setdefault(weight.layer, {})[name.removeprefix(f"{key}/")] = weight.spec.shape
    order = {name: number for number, name in enumerate(nodes)}
    sources = _weighted_sources(net, groups)
    result = []
    for name in sorted(groups, key=order.__getitem__):
        node = nodes[name]
        names = (node.weights_key, *(n for n in sharing[node.weights_key] if n != node.weights_key))
        reads = sources.get(name, ())
        shared = {s.weight: weights[s.source].spec.shape for s in node.layer.share if s.source in weights}
        replacement = replacements.get(name)
        result.append(NetLayer(node.weights_key, names, node.layer, groups[name], reads, replacement, shared))
    return result


def _weighted_sources(net: Net, weighted: Container[str]) -> dict[str, tuple[str, ...]]:
    """The keys of the nearest layers with weights before each node, by its name; of single paths only."""
    sources: dict[str, tuple[str, ...]] = {}
    before: dict[str, tuple[str, ...]] = {}
    for node in net.nodes:
        keys = before.get(node.bottoms[0], ()) if len(node.bottoms) == 1 else ()
        sources[node.name] = keys
        own = (node.weights_key,) if node.name in weighted else keys
        before.update(dict.fromkeys(node.tops, own))
    return sources
