"""Common subexpression elimination: an op applied twice to the same values with the same attributes is computed once.

Ops are pure (a random op's key is an input), so this never changes a result. Constants of one element and equal value
count as the same.
"""

from __future__ import annotations

from typing import Any

from prototorch.graph.ir import Graph, Node, Value
from prototorch.graph.passes.context import PassContext

__all__ = ["eliminate_common_subexpressions"]


def eliminate_common_subexpressions(graph: Graph, context: PassContext) -> bool:
    """Let readers of a repeated node read the first one. Raises TypeError for an attribute that is not hashable."""
    first_of: dict[Any, Node] = {}
    constants: dict[Any, Value] = {}
    changed = False
    for node in graph:
        inputs = tuple(_canonical(v, constants) if v.kind == "constant" else v for v in node.inputs)
        if inputs != node.inputs:
            graph.set_inputs(node, inputs)
        key = (node.op.name, inputs, tuple(sorted(node.attrs.items())), len(node.outputs))
        try:
            first = first_of.setdefault(key, node)
        except TypeError as exc:
            raise TypeError(f"an attribute of {node.op.name} cannot be hashed: {node.attrs}") from exc
        if first is not node:
            for duplicate, original in zip(node.outputs, first.outputs, strict=True):
                graph.replace_all_uses(duplicate, original)
            graph.erase(node)
            changed = True
    return changed


def _canonical(value: Value, constants: dict[Any, Value]) -> Value:
    """The first constant of one element with this value; any other constant itself."""
    if value.spec.size != 1:
        return value
    return constants.setdefault((value.spec, value.array.tobytes()), value)
