"""Constant folding: small nodes whose inputs are all known are computed now."""

from __future__ import annotations

import numpy as np

from prototorch.graph.ir import Graph, Value
from prototorch.graph.passes.context import PassContext

__all__ = ["fold_constants"]

_MAX_ELEMENTS = 4096  # of an output; larger constants would only take memory


def fold_constants(graph: Graph, context: PassContext) -> bool:
    """Replace the outputs of such nodes by constants."""
    changed = False
    for node in graph:
        has_constant_inputs = all(v.kind == "constant" for v in node.inputs)
        if not has_constant_inputs or any(v.spec.size > _MAX_ELEMENTS for v in (*node.outputs, *node.inputs)):
            continue
        results = node.op.reference(np, *(v.array for v in node.inputs), **node.attrs)
        for value, array in zip(node.outputs, results if isinstance(results, tuple) else (results,), strict=True):
            constant = np.array(array, dtype=value.dtype, order="C")
            graph.replace_all_uses(value, Value(graph, value.spec, "constant", value.name, constant))
        graph.erase(node)
        changed = True
    return changed
