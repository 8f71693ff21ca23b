"""Common subexpressions: an op said twice on the same values with the same attributes is computed once.

Ops are pure (a random op's key is an input), so this never changes a result. Bare constants of one value count as the
same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prototorch.graph.ir import Node, Value


def eliminate_common_subexpressions(nodes: Sequence[Node]) -> tuple[list[Node], dict[int, Value]]:
    """The nodes without repetitions, and for each value that is gone the one that stands for it (by id)."""
    seen: dict[Any, Node] = {}
    constants: dict[Any, Value] = {}
    stands: dict[int, Value] = {}
    kept: list[Node] = []

    def known(value: Value) -> Value:
        value = stands.get(id(value), value)
        if value.kind == "constant" and value.array.size == 1:
            key = (value.spec, value.array.tobytes())
            stands[id(value)] = value = constants.setdefault(key, value)
        return value

    for node in nodes:
        inputs = tuple(known(v) for v in node.inputs)
        key = (node.op.name, tuple(id(v) for v in inputs), tuple(sorted(node.attrs.items())), len(node.outputs))
        try:
            first = seen.setdefault(key, node)
        except TypeError as exc:
            raise TypeError(f"an attribute of {node.op.name} cannot be hashed: {node.attrs}") from exc
        if first is not node:
            for mine, theirs in zip(node.outputs, first.outputs, strict=True):
                stands[id(mine)] = theirs
            continue
        node.inputs = inputs
        kept.append(node)
    return kept, stands
