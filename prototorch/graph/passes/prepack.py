"""Weight prepacking: weights that no run changes are brought into the order in which kernels read them, in the setup
phase instead of in each run.

Only graphs without a backward pass: in training weights change with each step, and what a frozen one would save there
is small beside the memory.
"""

from __future__ import annotations

from typing import Any

from prototorch.graph.ir import SETUP, Graph, Node, Value
from prototorch.graph.passes.context import PassContext
from prototorch.ops.prepack import OperandUse, apply_prepacked, prepack

__all__ = ["prepack_weights"]


def prepack_weights(graph: Graph, context: PassContext) -> bool:
    """Insert `prepack` nodes of the setup phase, where a kernel of the backend requests one, and read their outputs."""
    nodes = graph.nodes
    if any(node.phase == "backward" for node in nodes):
        return False
    setup = [node for node in nodes if node.phase == SETUP]
    setup_values = {v for node in setup for v in node.outputs}
    packing: dict[Value, list[Node]] = {}  # the new nodes by what they read, so that it need not wait long in memory
    packed_values: dict[tuple[Value, Any, int], Value] = {}
    others = []
    for node in nodes:
        if node.phase == SETUP:
            continue
        others.append(node)
        ins, outs = node.input_specs, node.output_specs
        request = context.kernels.pack_request(node.op, ins, outs, node.attrs)
        if request is None:
            continue
        w = node.inputs[request.operand]
        if not (w.kind == "constant" or (w.kind == "state" and w.name not in graph.updates) or w in setup_values):
            continue
        use = OperandUse(node.op.name, tuple(sorted(node.attrs.items())), ins, outs, request.operand, request.level)
        key = (w, request.layout_key or use, request.size)
        if key not in packed_values:
            attrs = {"use": use, "size": request.size, "form": request.layout_key}
            packed_values[key] = Value(graph, prepack.infer_spec(w.spec, use=use, size=request.size))
            packing.setdefault(w, []).append(Node(prepack, (w,), attrs, (packed_values[key],), node.scope, SETUP))
        inputs = (*node.inputs[: request.operand], packed_values[key], *node.inputs[request.operand + 1 :])
        others[-1] = Node(
            apply_prepacked, inputs, {"use": use}, node.outputs, node.scope, node.phase, node.scopes, loop=node.loop
        )
    if not packed_values:
        return False
    nodes_in_order: list[Node] = []
    for node in setup:
        nodes_in_order.append(node)
        for v in node.outputs:
            nodes_in_order += packing.pop(v, ())
    graph.rebuild([*nodes_in_order, *(new for news in packing.values() for new in news), *others])
    return True
