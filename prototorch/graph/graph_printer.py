"""A graph between two passes as a person reads it: a line for each node. What passes did, as a table.

    %12 fwd conv2d_2  conv %11 ./kernel {strides: (1, 1)} -> 2x50x8x8

is node 12, of the forward pass and the layer conv2d_2: a convolution of what node 11 defines (``%11.1`` would be its
second output) with the layer's own kernel. The words are those of plan_printer.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from prototorch.graph.ir import Graph, Node, Value
from prototorch.graph.pipeline import PassRecord
from prototorch.graph.plan_printer import PHASE_LABELS, format_constant, format_spec, member_ops, shorten_state_name

__all__ = ["describe_graph", "format_graph", "format_passes"]


def describe_graph(graph: Graph) -> dict[str, Any]:
    """The nodes and results of a graph, as JSON types."""
    names = _value_names(graph)

    def name(value: Value, layer: str) -> str:
        if value in names:
            return names[value]
        return format_constant(value) if value.kind == "constant" else shorten_state_name(value.name, layer)

    return {
        "nodes": [
            {
                "number": number,
                "phase": node.phase,
                "layer": node.scope,
                "op": node.op.name,
                "members": list(member_ops(node.op, node.attrs)),
                "inputs": [name(v, node.scope) for v in node.inputs],
                "attributes": {k: repr(v) for k, v in node.attrs.items() if k not in ("program", "outputs", "use")},
                "outputs": [format_spec(v.spec) for v in node.outputs],
            }
            for number, node in enumerate(graph, 1)
        ],
        "outputs": {key: name(v, "") for key, v in graph.outputs.items()},
        "updates": {key: name(v, "") for key, v in graph.updates.items()},
    }


def format_graph(description: dict[str, Any]) -> Iterator[str]:
    """The text of a described graph, line by line."""
    for node in description["nodes"]:
        attributes = ", ".join(f"{k}: {v}" for k, v in node["attributes"].items())
        head = f"%{node['number']:<4} {PHASE_LABELS.get(node['phase'], node['phase'])} {node['layer'] or '-':20}"
        operands = " ".join([" + ".join(node["members"]), *node["inputs"]])
        yield f"{head} {operands}{f' {{{attributes}}}' if attributes else ''} -> {', '.join(node['outputs'])}"
    for kind in ("outputs", "updates"):
        for name, value in description[kind].items():
            yield f"{kind[:-1]} {name} = {value}"


def format_passes(records: Sequence[PassRecord]) -> Iterator[str]:
    """A line for each pass: whether it changed the graph, the nodes before and after, and its time."""
    width = max((len(r.name) for r in records), default=4)
    yield f"{'pass':{width}}  changed  nodes before  nodes after        ms"
    for r in records:
        changed = "yes" if r.changed else "-"
        yield f"{r.name:{width}}  {changed:7}  {r.nodes_before:12}  {r.nodes_after:11}  {r.seconds * 1e3:8.2f}"
    yield f"{len(records)} passes, {sum(r.changed for r in records)} changed the graph, " + (
        f"{sum(r.seconds for r in records) * 1e3:.1f} ms"
    )


def _value_names(graph: Graph) -> dict[Value, str]:
    names: dict[Value, str] = {}
    for number, node in enumerate(graph, 1):
        names.update(_output_names(node, number))
    return names


def _output_names(node: Node, number: int) -> dict[Value, str]:
    return {v: f"%{number}.{k}" if k else f"%{number}" for k, v in enumerate(node.outputs)}
