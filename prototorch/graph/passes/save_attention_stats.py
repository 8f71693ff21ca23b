"""Attention saves the statistics of its rows for its gradient, where a backend has kernels for both ops of the pair,
instead of the gradient computing them again."""

from __future__ import annotations

from typing import Any

from prototorch.engine.backends.core import Backend
from prototorch.graph.ir import Graph, Node, Value
from prototorch.graph.passes.context import PassContext
from prototorch.ops.attention import attention_heads, attention_heads_grad
from prototorch.ops.attention_with_stats import attention_heads_with_stats, attention_heads_with_stats_grad
from prototorch.spec import Spec

__all__ = ["save_attention_stats"]


def save_attention_stats(graph: Graph, context: PassContext) -> bool:
    """Put the pair in the place of attention and its gradient."""
    forward_nodes = {_key(node.inputs, node): node for node in graph.nodes if node.op is attention_heads}
    changed = False
    for node in graph.nodes:
        key = _key(node.inputs[1:], node)
        forward = forward_nodes.get(key) if node.op is attention_heads_grad else None
        if forward is None or not _has_kernels(forward, node, context.kernels):
            continue
        outputs = (*forward.outputs, Value(graph, _stats_spec(forward)))
        saving = Node(attention_heads_with_stats, forward.inputs, forward.attrs, outputs, forward.scope, forward.phase)
        graph.replace_node(forward, saving)
        inputs = (*node.inputs, *outputs)
        grad = Node(attention_heads_with_stats_grad, inputs, node.attrs, node.outputs, node.scope, node.phase)
        graph.replace_node(node, grad)
        del forward_nodes[key]
        changed = True
    return changed


def _key(inputs: tuple[Value, ...], node: Node) -> tuple[Any, ...]:
    return inputs, frozenset(node.attrs.items())


def _stats_spec(forward: Node) -> Spec:
    return attention_heads_with_stats.infer_spec(*forward.input_specs, **forward.attrs)[1]


def _has_kernels(forward: Node, grad: Node, backend: Backend) -> bool:
    """Whether the backend has kernels for the pair."""
    outs = (*forward.output_specs, _stats_spec(forward))
    return backend.has_kernel(attention_heads_with_stats, forward.input_specs, outs, forward.attrs) and (
        backend.has_kernel(attention_heads_with_stats_grad, (*grad.input_specs, *outs), grad.output_specs, grad.attrs)
    )
