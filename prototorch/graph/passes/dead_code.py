"""Dead code: nodes that nothing wanted depends on are left out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prototorch.graph.ir import Node, Value


def eliminate_dead_code(nodes: Sequence[Node], live_out: Iterable[Value]) -> list[Node]:
    """The nodes, in their order, that the wanted values depend on."""
    needed = {id(v) for v in live_out}
    kept = []
    for node in reversed(nodes):
        if any(id(v) in needed for v in node.outputs):
            needed.update(id(v) for v in node.inputs)
            kept.append(node)
    return kept[::-1]
