"""A recurrent sequence and its gradient become a pair that hands the gates on, where a backend has kernels for both."""

from __future__ import annotations

from collections.abc import Sequence

from prototorch.backends.core import Backend
from prototorch.graph.passes.copies import adopt
from prototorch.graph.record import Node, Value
from prototorch.ops.core import Op
from prototorch.ops.recurrent_kept import lstm_sequence_kept, lstm_sequence_kept_grad

#: the gradient of what -> the op that keeps, its gradient, the outputs that the gradient reads
_PAIRS = {"lstm_sequence_grad": ("lstm_sequence", lstm_sequence_kept, lstm_sequence_kept_grad, (0, 3))}


def keeping(nodes: Sequence[Node], backend: Backend) -> list[Node]:
    """The nodes with such pairs in the place of the ops that compute the gates twice. Changes the nodes."""
    for node in nodes:
        if node.op.name not in _PAIRS:
            continue
        name, keep, grad, read = _PAIRS[node.op.name]
        own = 4 + bool(node.attrs.get("masked"))
        forward = node.inputs[own].node
        if forward is None or forward.op.name not in (name, keep.name) or forward.attrs != node.attrs:
            continue
        same = zip((*forward.inputs, *(forward.outputs[i] for i in read)), node.inputs, strict=False)
        if all(a is b for a, b in same) and _known(forward, node, keep, grad, backend):
            if forward.op.name == name:
                gates = Value(forward.inputs[0].interpreter, forward.inputs[0].spec, "node")
                forward.op, forward.outputs = keep, (*forward.outputs, gates)
                adopt(forward)
            node.op, node.inputs = grad, (forward.outputs[-1], *node.inputs[1:])
    return list(nodes)


def _known(forward: Node, node: Node, keep: Op, grad: Op, backend: Backend) -> bool:
    """Whether the backend has kernels for the pair."""
    ins = tuple(v.spec for v in forward.inputs)
    outs = (*(v.spec for v in forward.outputs), ins[0])[: len(forward.outputs) + (forward.op is not keep)]
    into = ins[:1] + tuple(v.spec for v in node.inputs[1:])
    return backend.accepts(keep, ins, outs, forward.attrs) and backend.accepts(
        grad, into, tuple(v.spec for v in node.outputs), node.attrs
    )
