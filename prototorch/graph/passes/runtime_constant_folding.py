"""Runtime constant folding: what depends only on states that the plan does not change is computed in a setup phase.

Such nodes get the phase "setup". They run before all others, and again only where one of the states has changed since.
"""

from __future__ import annotations

from prototorch.graph.ir import SETUP, Graph, Value
from prototorch.graph.passes.context import PassContext

__all__ = ["mark_setup_nodes"]


def mark_setup_nodes(graph: Graph, context: PassContext) -> bool:
    """Give those nodes their phase, and move them to the beginning. Results themselves are computed in every run, into
    memory that the run owns."""
    owned: set[Value] = set()
    for value in graph.results:
        owned.add(value)
        while value.producer is not None and value.producer.op.is_view:
            value = value.producer.inputs[0]
            owned.add(value)
    setup_values: set[Value] = set()
    changed = False
    first = next(iter(graph), None)
    for node in graph.nodes:
        fixed = all(
            v in setup_values or v.kind == "constant" or (v.kind == "state" and v.name not in graph.updates)
            for v in node.inputs
        )
        if fixed and not node.op.cheap_to_recompute and owned.isdisjoint(node.outputs):
            setup_values.update(node.outputs)
            node.phase = SETUP
            changed = True
            if node is first:
                first = node.next
            elif first is not None:
                graph.move_before(first, node)
    return changed
