"""What the forward pass computes for new states alone (running statistics, totals of metrics) is deferred to the
update phase.

A state may then be written in place, as in the update itself: the executor's guard has seen the loss before.
"""

from __future__ import annotations

from prototorch.graph.ir import Graph, Node, Value
from prototorch.graph.passes.context import PassContext

__all__ = ["defer_state_updates"]

_MAX_BYTES = 1 << 20  # of the inputs of a node, which stay in memory for it


def defer_state_updates(graph: Graph, context: PassContext) -> bool:
    """Give those nodes the phase "update", in a graph that has this phase."""
    nodes = graph.nodes
    first_update = next((node for node in nodes if node.phase == "update"), None)
    if first_update is None:
        return False
    needed: set[Value] = set(graph.outputs.values())
    deferred: list[Node] = []
    for node in reversed(nodes):
        free = node.phase == "forward" and needed.isdisjoint(node.outputs)
        if free and sum(v.spec.nbytes for v in node.inputs) <= _MAX_BYTES:
            node.phase = "update"
            deferred.append(node)
        elif node.phase != "update":
            needed.update(node.inputs)
    for node in reversed(deferred):
        graph.move_before(first_update, node)
    return bool(deferred)
