"""Constant folding: small nodes whose inputs are all known are computed now."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prototorch.graph.ir import Node

_MAX_ELEMENTS = 4096  # elements; larger constants would only take memory


def fold_constants(nodes: Sequence[Node]) -> list[Node]:
    """The nodes that remain; the others' outputs have become constants."""
    kept = []
    for node in nodes:
        known = all(v.kind == "constant" for v in node.inputs)
        if not known or any(v.spec.size > _MAX_ELEMENTS for v in node.outputs):
            kept.append(node)
            continue
        made = node.op.reference(np, *(v.array for v in node.inputs), **node.attrs)
        for value, array in zip(node.outputs, made if isinstance(made, tuple) else (made,), strict=True):
            value.kind, value.node, value.array = "constant", None, np.array(array, dtype=value.dtype, order="C")
    return kept
