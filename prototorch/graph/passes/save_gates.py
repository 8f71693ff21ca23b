"""The gates of a recurrent sequence are saved for its gradient, where a backend has kernels for both ops of the pair,
instead of being computed again in the backward pass."""

from __future__ import annotations

from prototorch.engine.backends.core import Backend
from prototorch.graph.ir import Graph, Node, Value
from prototorch.graph.passes.context import PassContext
from prototorch.ops.core import Op
from prototorch.ops.recurrent import lstm_sequence
from prototorch.ops.recurrent_grad import lstm_sequence_grad
from prototorch.ops.recurrent_with_gates import lstm_sequence_with_gates, lstm_sequence_with_gates_grad

__all__ = ["save_gates"]

#: the gradient of which op -> the op, the op that saves its gates, the gradient of that, the outputs that it reads
_PAIRS: dict[Op, tuple[Op, Op, Op, tuple[int, ...]]] = {
    lstm_sequence_grad: (lstm_sequence, lstm_sequence_with_gates, lstm_sequence_with_gates_grad, (0, 3)),
}


def save_gates(graph: Graph, context: PassContext) -> bool:
    """Put such pairs in the place of a sequence and its gradient."""
    changed = False
    for node in graph.nodes:
        if node.op not in _PAIRS:
            continue
        plain, saving, saving_grad, read = _PAIRS[node.op]
        states = 4 + bool(node.attrs.get("masked"))
        forward = node.inputs[states].producer
        if forward is None or forward.op not in (plain, saving) or forward.attrs != node.attrs:
            continue
        operands = zip((*forward.inputs, *(forward.outputs[i] for i in read)), node.inputs, strict=False)
        if not all(a is b for a, b in operands) or not _has_kernels(
            forward, node, saving, saving_grad, context.kernels
        ):
            continue
        if forward.op is plain:
            gates = Value(graph, forward.inputs[0].spec)
            outputs = (*forward.outputs, gates)
            new = Node(saving, forward.inputs, forward.attrs, outputs, forward.scope, forward.phase)
            graph.replace_node(forward, new)
            forward = new
        inputs = (forward.outputs[-1], *node.inputs[1:])
        graph.replace_node(node, Node(saving_grad, inputs, node.attrs, node.outputs, node.scope, node.phase))
        changed = True
    return changed


def _has_kernels(forward: Node, grad: Node, saving: Op, saving_grad: Op, backend: Backend) -> bool:
    """Whether the backend has kernels for the pair."""
    ins = forward.input_specs
    outs = (*forward.output_specs, ins[0])[: len(forward.outputs) + (forward.op is not saving)]
    grad_ins = (ins[0], *grad.input_specs[1:])
    return backend.has_kernel(saving, ins, outs, forward.attrs) and backend.has_kernel(
        saving_grad, grad_ins, grad.output_specs, grad.attrs
    )
