"""A recurrent sequence and its gradient become a pair that hands the gates on, where a backend has kernels for both."""

from __future__ import annotations

from collections.abc import Sequence

from prototorch.backends.core import Backend
from prototorch.graph.ir import Node, Value
from prototorch.graph.passes.clone_graph import set_producer
from prototorch.ops.core import Op
from prototorch.ops.recurrent_with_gates import lstm_sequence_with_gates, lstm_sequence_with_gates_grad

#: the gradient of what -> the op that keeps, its gradient, the outputs that the gradient reads
_GATED_PAIRS = {
    "lstm_sequence_grad": ("lstm_sequence", lstm_sequence_with_gates, lstm_sequence_with_gates_grad, (0, 3))
}


def save_gates(nodes: Sequence[Node], backend: Backend) -> list[Node]:
    """The nodes with such pairs in the place of the ops that compute the gates twice. Changes the nodes."""
    for node in nodes:
        if node.op.name not in _GATED_PAIRS:
            continue
        name, keep, grad, read = _GATED_PAIRS[node.op.name]
        own = 4 + bool(node.attrs.get("masked"))
        forward = node.inputs[own].node
        if forward is None or forward.op.name not in (name, keep.name) or forward.attrs != node.attrs:
            continue
        same = zip((*forward.inputs, *(forward.outputs[i] for i in read)), node.inputs, strict=False)
        if all(a is b for a, b in same) and _has_kernels(forward, node, keep, grad, backend):
            if forward.op.name == name:
                gates = Value(forward.inputs[0].interpreter, forward.inputs[0].spec, "node")
                forward.op, forward.outputs = keep, (*forward.outputs, gates)
                set_producer(forward)
            node.op, node.inputs = grad, (forward.outputs[-1], *node.inputs[1:])
    return list(nodes)


def _has_kernels(forward: Node, node: Node, keep: Op, grad: Op, backend: Backend) -> bool:
    """Whether the backend has kernels for the pair."""
    ins = tuple(v.spec for v in forward.inputs)
    outs = (*(v.spec for v in forward.outputs), ins[0])[: len(forward.outputs) + (forward.op is not keep)]
    into = ins[:1] + tuple(v.spec for v in node.inputs[1:])
    return backend.has_kernel(keep, ins, outs, forward.attrs) and backend.has_kernel(
        grad, into, tuple(v.spec for v in node.outputs), node.attrs
    )
