"""Weights that no run changes are brought into the order in which kernels read them once, not in each run.

Only plans without a backward pass: in training weights change with each step, and what a frozen one would save there is
small beside the memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from prototorch.backends.core import Backend
from prototorch.graph.ir import Node, Value
from prototorch.graph.passes.clone_graph import set_producer
from prototorch.graph.passes.runtime_constant_folding import SETUP
from prototorch.ops.prepack import OperandUse, apply_prepacked, prepack


def prepack_weights(nodes: Sequence[Node], updates: Mapping[str, Value], backend: Backend) -> list[Node]:
    """The nodes with `prepack` nodes of the phase "once" among them, where the backend has a use for it."""
    if any(node.phase == "backward" for node in nodes):
        return list(nodes)
    known = {id(v) for node in nodes if node.phase == SETUP for v in node.outputs}
    after: dict[int, list[Node]] = {}  # the new nodes by what they read, so that it need not wait long in memory
    made: dict[tuple[int, Any, int], Value] = {}
    others = []
    for node in nodes:
        if node.phase == SETUP:
            continue
        others.append(node)
        ins, outs = tuple(v.spec for v in node.inputs), tuple(v.spec for v in node.outputs)
        found = backend.pack_request(node.op, ins, outs, node.attrs)
        if found is None:
            continue
        w = node.inputs[found.operand]
        if not (w.kind == "constant" or (w.kind == "state" and w.name not in updates) or id(w) in known):
            continue
        use = OperandUse(node.op.name, tuple(sorted(node.attrs.items())), ins, outs, found.operand, found.level)
        key = (id(w), found.layout_key or use, found.size)
        held = made.get(key)
        if held is None:
            spec = prepack.infer_spec(w.spec, use=use, size=found.size)
            held = made[key] = Value(w.interpreter, spec, "node")
            new = Node(
                prepack, (w,), {"use": use, "size": found.size, "form": found.layout_key}, (held,), node.scope, SETUP
            )
            set_producer(new)
            after.setdefault(id(w), []).append(new)
        inputs = (*node.inputs[: found.operand], held, *node.inputs[found.operand + 1 :])
        others[-1] = Node(
            apply_prepacked, inputs, {"use": use}, node.outputs, node.scope, node.phase, node.scopes, loop=node.loop
        )
        set_producer(others[-1])
    once: list[Node] = []
    for node in nodes:
        if node.phase == SETUP:
            once.append(node)
            for v in node.outputs:
                once += after.pop(id(v), ())
    return [*once, *(new for few in after.values() for new in few), *others]
