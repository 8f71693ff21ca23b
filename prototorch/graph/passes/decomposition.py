"""Decomposition: an op that is defined by others, but has no kernel of its own on the backend, is replaced by those."""

from __future__ import annotations

from prototorch.graph.ir import Graph
from prototorch.graph.passes.context import PassContext

__all__ = ["decompose_ops"]


def decompose_ops(graph: Graph, context: PassContext) -> bool:
    """Replace each such node by what its op decomposes into."""
    without_kernel = [
        node
        for node in graph
        if node.op.decompose_without_kernel
        and not context.kernels.has_kernel(node.op, node.input_specs, node.output_specs, node.attrs)
    ]
    for node in without_kernel:
        with graph.insertion_point(node):
            parts = node.op.decompose(*node.inputs, **node.attrs)
        for value, part in zip(node.outputs, parts if isinstance(parts, tuple) else (parts,), strict=True):
            graph.replace_all_uses(value, part)
        graph.erase(node)
    return bool(without_kernel)
