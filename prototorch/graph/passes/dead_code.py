"""Dead code elimination: nodes that no result depends on are removed."""

from __future__ import annotations

from prototorch.graph.ir import Graph
from prototorch.graph.passes.context import PassContext

__all__ = ["eliminate_dead_code"]


def eliminate_dead_code(graph: Graph, context: PassContext) -> bool:
    """Remove the nodes whose outputs nobody reads, and then those that only these have read."""
    return graph.erase_dead_nodes()
