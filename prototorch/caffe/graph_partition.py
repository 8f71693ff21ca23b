"""The backward part of a graph as a graph of its own, which reads what the forward part has computed as inputs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from prototorch.graph.ir import Graph, Node, Value

__all__ = ["SAVED_PREFIX", "BackwardGraph", "partition_backward"]

#: in front of a number: an input of the backward graph that holds a value of the forward graph that has no name
SAVED_PREFIX = "saved:"


@dataclass
class BackwardGraph:
    """A backward graph. outputs: its results by name. saved: the values of the forward graph that are its inputs with
    `SAVED_PREFIX`, by the input's name; values with a name are inputs by that name."""

    graph: Graph = field(default_factory=Graph)
    outputs: dict[str, Value] = field(default_factory=dict)
    saved: dict[str, Value] = field(default_factory=dict)


def partition_backward(
    results: Mapping[str, Value], value_names: Mapping[Value, str], saves: bool, changed: Collection[str] = ()
) -> BackwardGraph:
    """Cut a graph between its phases "forward" and "backward".

    results: what the backward part gives, by name. value_names: of values of the forward part that are inputs of the
    new graph. With ``saves`` all other values that the backward part reads become inputs, too; without it they are
    computed again from those with a name. What depends on states and constants alone, and views, are computed again in
    either case. changed: names of states that the forward part changes: what they were before is an input with
    ``saves``.
    """
    result = BackwardGraph()
    copies: dict[Value, Value] = {}
    cheap: dict[Value, bool] = {}

    def is_cheap(value: Value) -> bool:
        """Whether a value follows from states and constants, or is a view."""
        if value not in cheap:
            node = value.producer
            is_kept = value.kind == "constant" or (value.kind == "state" and value.name not in changed)
            cheap[value] = is_kept or (node is not None and (node.op.is_view or all(is_cheap(v) for v in node.inputs)))
        return cheap[value]

    def is_source(value: Value) -> bool:
        node = value.producer
        return node is None or value in value_names or (saves and node.phase == "forward" and not is_cheap(value))

    def source(value: Value) -> Value:
        if value in value_names:
            return result.graph.input(value_names[value], value.spec)
        if value.kind == "input":
            return result.graph.input(value.name, value.spec)
        if value.kind == "state" and not (saves and value.name in changed):
            return result.graph.state(value.name, value.spec)
        if value.kind == "constant":
            return Value(result.graph, value.spec, "constant", value.name, value.stored_array)
        name = f"{SAVED_PREFIX}{len(result.saved)}"
        result.saved[name] = value
        return result.graph.input(name, value.spec)

    for node in _needed_nodes(results.values(), is_source):
        for value in node.inputs:
            if value not in copies:
                copies[value] = source(value)
        outputs = tuple(Value(result.graph, v.spec, "node", v.name) for v in node.outputs)
        for value, new in zip(node.outputs, outputs, strict=True):
            copies.setdefault(value, new)
        inputs = tuple(copies[v] for v in node.inputs)
        result.graph.append(Node(node.op, inputs, node.attrs, outputs, node.scope, "backward", node.scopes))
    for name, value in results.items():
        if value not in copies:
            copies[value] = source(value)
        result.outputs[name] = copies[value]
    return result


def _needed_nodes(values, is_source) -> list[Node]:
    """The nodes that these values depend on, in an order in which each reads what is defined before; not those whose
    outputs are sources."""
    order: dict[Node, None] = {}
    stack = [(value.producer, False) for value in values if not is_source(value)]
    while stack:
        node, is_done = stack.pop()
        if node is None or node in order:
            continue
        if is_done:
            order[node] = None
            continue
        stack.append((node, True))
        stack += [(v.producer, False) for v in node.inputs if not is_source(v) and v.producer not in order]
    return list(order)
