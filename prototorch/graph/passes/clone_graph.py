"""A copy of a graph's nodes that passes may change: the graph itself may be planned again, for another backend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from prototorch.graph.ir import Node, Value


def clone_nodes(nodes: Sequence[Node]) -> tuple[list[Node], dict[int, Value]]:
    """The nodes with new values for their outputs, and for each old value (by id) the new one.

    Inputs, states and constants stay the same values.
    """
    stands: dict[int, Value] = {}
    made = []
    for node in nodes:
        outputs = tuple(Value(v.interpreter, v.spec, "node", v.name) for v in node.outputs)
        inputs = tuple(stands.get(id(v), v) for v in node.inputs)
        made.append(Node(node.op, inputs, dict(node.attrs), outputs, node.scope, node.phase))
        set_producer(made[-1])
        stands.update((id(old), new) for old, new in zip(node.outputs, outputs, strict=True))
    return made, stands


def set_producer(node: Node) -> None:
    """Tell a node's outputs where they come from."""
    for i, value in enumerate(node.outputs):
        value.node, value.index = node, i


def replace_values(values: Mapping[str, Value], stands: Mapping[int, Value]) -> dict[str, Value]:
    """The values by name, those that another stands for replaced."""
    return {name: stands.get(id(v), v) for name, v in values.items()}
