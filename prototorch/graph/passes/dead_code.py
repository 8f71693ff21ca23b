"""Dead code: nodes that nothing wanted depends on are left out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prototorch.graph.record import Node, Value


def live_nodes(nodes: Sequence[Node], wanted: Iterable[Value]) -> list[Node]:
    """The nodes, in their order, that the wanted values depend on."""
    needed = {id(v) for v in wanted}
    kept = []
    for node in reversed(nodes):
        if any(id(v) in needed for v in node.outputs):
            needed.update(id(v) for v in node.inputs)
            kept.append(node)
    return kept[::-1]
