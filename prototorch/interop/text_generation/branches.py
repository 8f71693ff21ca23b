"""The layers of a net as nested sequences: a merging layer holds the layers between it and where its branches part.

The branches of a merging layer are found by a walk back from its inputs in reverse order: a layer belongs to a branch
if all its consumers do; the first layer with consumers in several branches, or outside, must be where all of them part.
What does not nest (skips across, several inputs) is read by name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush

from prototorch.graph.net import LayerNode, Net
from prototorch.interop.text_generation.statements import LAYER, Reference, Statement, StatementList

__all__ = ["nested_statements"]

MAX_DEPTH = 8  # branches inside each other
_WORK_PER_LAYER = 40  # steps of walks that found no branches, for each layer of the net

LayerFields = Callable[[LayerNode], tuple[tuple[str, object], ...]]
LayerName = Callable[[int], "tuple[str, ...] | None"]


@dataclass
class _Region:
    """A layer with the branches that it has taken in. inputs: where these part, for a region with branches."""

    inputs: tuple[Reference, ...]
    readings: int = 0  # by other regions and as outputs of the net
    branches: tuple[list[int], ...] | None = None
    depth: int = 0


def nested_statements(net: Net, fields: LayerFields, name: LayerName) -> tuple[StatementList, list[Reference]]:
    """The layers of a net as statements, and its outputs as references.

    fields: a layer's fields as a statement holds them. name: the name of the layer of this number, None for none.
    """
    builder = _Builder(net)
    for number, node in enumerate(net.nodes):
        if len(node.bottoms) > 1 and getattr(type(node.layer), "accepts_branches", False):
            builder.nest(number)
    outermost = sorted(builder.regions.keys() - builder.nested)
    current = Reference(-1) if len(net.inputs) == 1 else None
    body = StatementList(builder.statements(outermost, current, fields, name))
    return body, [builder.producers[output] for output in net.outputs]


class _Builder:
    def __init__(self, net: Net):
        self.net = net
        self.producers = {value.name: Reference(-1 - i) for i, value in enumerate(net.inputs)}
        self.regions: dict[int, _Region] = {}
        self.nested: set[int] = set()  # the regions inside others
        for number, node in enumerate(net.nodes):
            inputs = tuple(self.producers[bottom] for bottom in node.bottoms)
            self.regions[number] = _Region(inputs)
            self.producers.update({top: Reference(number, i) for i, top in enumerate(node.tops)})
            for reference in inputs:
                self.count(reference.node, 1)
        for output in net.outputs:
            self.count(self.producers[output].node, 1)
        self.spare_work = _WORK_PER_LAYER * len(net.nodes)

    def count(self, node: int, readings: int) -> None:
        if node >= 0:
            self.regions[node].readings += readings

    # ------------------------------------------------------------------ branches

    def nest(self, number: int) -> None:
        """Take the layers between a merging layer and where its branches part into it, where they nest."""
        region = self.regions[number]
        if any(reference.top for reference in region.inputs) or self.spare_work < 0:
            return
        walked = self.walk([reference.node for reference in region.inputs])
        if walked is None:
            return
        start, branches = walked
        inside = [self.regions[node] for branch in branches for node in branch]
        depth = 1 + max((inner.depth for inner in inside), default=0)
        if depth > MAX_DEPTH:
            return
        readings = sum(r.node == start for inner in (region, *inside) for r in inner.inputs)
        self.count(start, 1 - readings)
        region.branches = tuple(sorted(branch) for branch in branches)
        region.inputs, region.depth = (Reference(start),), depth
        self.nested.update(node for branch in branches for node in branch)

    def walk(self, ends: list[int]) -> tuple[int, list[list[int]]] | None:
        """Where the branches that end here part, and the regions of each branch; None where they do not nest."""
        branches: list[list[int]] = [[] for _ in ends]
        labels: dict[int, set[int]] = defaultdict(set)  # region -> the branches that read it
        readings: dict[int, int] = defaultdict(int)  # of a region, inside the branches
        heap: list[int] = []  # regions that are read, the last of them first

        def read(node: int, label: int) -> None:
            if not readings[node]:
                heappush(heap, -node)
            readings[node] += 1
            labels[node].add(label)

        for label, end in enumerate(ends):
            read(end, label)
        while heap:
            self.spare_work -= 1
            node = -heappop(heap)
            if not heap:
                return node, branches
            region = self.regions.get(node)
            if region is None or len(labels[node]) > 1 or region.readings != readings[node] or not region.inputs:
                return None
            if any(reference.top for reference in region.inputs):
                return None
            (label,) = labels[node]
            branches[label].append(node)
            for reference in region.inputs:
                read(reference.node, label)
        return None

    # ------------------------------------------------------------------ statements

    def statements(
        self, numbers: list[int], current: Reference | None, fields: LayerFields, name: LayerName
    ) -> list[Statement]:
        """The statements of some regions, the first of which reads `current` without a name."""
        result = []
        for number in numbers:
            region = self.regions[number]
            node = self.net.nodes[number]
            reads_none = type(node.layer).input_range() == (0, 0)
            is_implicit = reads_none or (current is not None and region.inputs == (current,))
            bottoms = None if is_implicit else region.inputs
            bodies: tuple[StatementList, ...] = ()
            if region.branches is not None:
                start = region.inputs[0]
                bodies = tuple(
                    StatementList(self.statements(branch, start, fields, name)) for branch in region.branches
                )
            nodes = (*(n for body in bodies for item in body.items for n in item.nodes), number)
            head = type(node.layer).__name__
            result.append(Statement(LAYER, head, fields(node), number, nodes, name(number), bottoms, bodies))
            current = Reference(number)
        return result
