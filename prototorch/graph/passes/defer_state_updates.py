"""What the forward pass computes for new states alone (running statistics, totals of metrics) waits for the update.

A state may then be written in place, as in the update itself: the guard of the runner has seen the loss before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from prototorch.graph.ir import Node, Value

_MAX_BYTES = 1 << 20  # bytes that may stay in memory for it


def defer_state_updates(nodes: Sequence[Node], outputs: Mapping[str, Value]) -> None:
    """Give those nodes the phase "update", in a plan that has this phase."""
    if not any(node.phase == "update" for node in nodes):
        return
    needed = {id(v) for v in outputs.values()}
    for node in reversed(nodes):
        free = node.phase == "forward" and not any(id(v) in needed for v in node.outputs)
        if free and sum(v.spec.nbytes for v in node.inputs) <= _MAX_BYTES:
            node.phase = "update"
        elif node.phase != "update":
            needed.update(id(v) for v in node.inputs)
