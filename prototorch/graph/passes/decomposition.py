"""Lowering: an op that stands for several, but has no kernel of its own here, is said in those."""

from __future__ import annotations

from collections.abc import Sequence

from prototorch.backends.core import Backend
from prototorch.graph.ir import Graph, Node, Value
from prototorch.graph.passes.clone_graph import clone_nodes
from prototorch.ops.core import use_interpreter


def decompose_ops(graph: Graph, nodes: Sequence[Node], backend: Backend) -> tuple[list[Node], dict[int, Value]]:
    """The nodes with such ops expanded, and for each value that is gone the one that stands for it (by id)."""
    if not any(_lacks_kernel(node, backend) for node in nodes):
        return list(nodes), {}
    old = [v for node in nodes for v in node.outputs]
    copies, stands = clone_nodes(nodes)
    made: list[Node] = []
    said: dict[int, Value] = {}
    for node in copies:
        node.inputs = tuple(said.get(id(v), v) for v in node.inputs)
        if not _lacks_kernel(node, backend):
            made.append(node)
            continue
        start = len(graph.nodes)
        with use_interpreter(graph), graph.scope(node.scope), graph.phase(node.phase):
            found = node.op.decompose(*node.inputs, **node.attrs)
        made += graph.nodes[start:]
        del graph.nodes[start:]  # the graph stays as it was said
        found = found if isinstance(found, tuple) else (found,)
        said.update((id(v), new) for v, new in zip(node.outputs, found, strict=True))
    return made, {id(v): said.get(id(stands[id(v)]), stands[id(v)]) for v in old}


def _lacks_kernel(node: Node, backend: Backend) -> bool:
    specs = tuple(v.spec for v in node.inputs), tuple(v.spec for v in node.outputs)
    return node.op.decompose_without_kernel and not backend.has_kernel(node.op, *specs, node.attrs)
