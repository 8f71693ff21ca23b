"""What follows from the states alone, and from states that the plan does not change, is computed once.

Such nodes get the phase "once". They run before all others, and again only where the states have changed since.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from prototorch.graph.ir import Node, Value

SETUP = "setup"
_CHEAP_OPS = ("full",)  # quicker to write again than to keep


def mark_setup_nodes(nodes: Sequence[Node], outputs: Mapping[str, Value], updates: Mapping[str, Value]) -> None:
    """Give those nodes their phase. What is wanted itself is computed in every run, into memory that the run owns."""
    wanted: set[int] = set()
    for v in (*outputs.values(), *updates.values()):
        wanted.add(id(v))
        while v.node is not None and v.node.op.is_view:
            v = v.node.inputs[0]
            wanted.add(id(v))
    known: set[int] = set()
    for node in nodes:
        fixed = (
            v.kind == "constant" or (v.kind == "state" and v.name not in updates) or id(v) in known for v in node.inputs
        )
        if all(fixed) and node.op.name not in _CHEAP_OPS and not any(id(v) in wanted for v in node.outputs):
            known.update(id(v) for v in node.outputs)
            node.phase = SETUP
