"""Sums over many arrays as one node: the norm of all gradients, and the check that all of them are finite.

Both are written as a chain of additions, one sum over an array each. A GPU would launch several kernels for each array,
most of which are small; one sweep over all of them reads every element once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from prototorch.graph.ir import Graph, Node, Value
from prototorch.graph.passes.context import PassContext
from prototorch.ops.elementwise import add, cast, multiply, square
from prototorch.ops.fused import FusedInstruction, OperandRef, fused
from prototorch.ops.reduce import sum_
from prototorch.spec import FLOAT_DTYPES

__all__ = ["group_sums"]


@dataclass(frozen=True)
class _Term:
    """A sum over all elements of an array. term: the op of its elements, "square" or "multiply" (by 0)."""

    term: str
    array: Value
    node: Node


def group_sums(graph: Graph, context: PassContext) -> bool:
    """Replace a chain of additions of two or more such sums by one node, where the backend has a kernel for that."""
    terms: dict[Value, _Term] = {}
    chains: dict[Value, tuple[_Term, ...]] = {}
    for node in graph:
        if node.op is sum_:
            term = _match_sum(graph, node)
            if term is not None:
                terms[node.outputs[0]] = term
        elif node.op is add:
            first, last = node.inputs
            before = chains.get(first) or ((terms[first],) if first in terms else ())
            if before and last in terms and _same_kind(before[0], terms[last], node):
                chains.pop(first, None)
                chains[node.outputs[0]] = (*before, terms[last])
    replaced = [members for total, members in chains.items() if _replace_chain(graph, context, total, members)]
    if replaced:
        graph.erase_dead_nodes()
        for member in (member for members in replaced for member in members):
            _defer_cast(graph, member.array)
    return bool(replaced)


def _match_sum(graph: Graph, node: Node) -> _Term | None:
    """The sum that a node is; None for one over some axes only, or of other terms."""
    source, output = node.inputs[0].producer, node.outputs[0]
    if source is None or output.spec.ndim or output.dtype != "float32" or not graph.has_single_use(output):
        return None
    if not graph.has_single_use(source.outputs[0]) or source.phase != node.phase:
        return None
    if source.op is square or (source.op is multiply and _is_zero(source.inputs[1])):
        array = source.inputs[0]
        return _Term(source.op.name, array, node) if array.spec == source.outputs[0].spec else None
    return None


def _is_zero(value: Value) -> bool:
    return value.kind == "constant" and value.spec.size == 1 and not np.any(value.array)


def _same_kind(first: _Term, last: _Term, total: Node) -> bool:
    return first.term == last.term and first.node.phase == last.node.phase == total.phase


def _replace_chain(graph: Graph, context: PassContext, total: Value, members: Sequence[_Term]) -> bool:
    anchor = total.producer
    assert anchor is not None
    program: list[FusedInstruction] = []
    sums: list[OperandRef] = []
    inputs = []
    for i, member in enumerate(members):
        operand: OperandRef = ("in", i)
        narrow = _before_cast(member.array)
        if narrow is not None:
            program.append((cast.name, (operand,), (("dtype", member.array.dtype),)))
            operand = ("node", len(program) - 1, 0)
        inputs.append(narrow or member.array)
        zero = () if member.term == square.name else (("const", 0.0, member.array.dtype),)
        program.append((member.term, (operand, *zero), ()))
        program.append((sum_.name, (("node", len(program) - 1, 0),), tuple(sorted(member.node.attrs.items()))))
        sums.append(("node", len(program) - 1, 0))
    result = sums[0]
    for one in sums[1:]:
        program.append((add.name, (result, one), ()))
        result = ("node", len(program) - 1, 0)
    attrs = {"program": tuple(program), "outputs": (result,)}
    group = Node(fused, tuple(inputs), attrs, (Value(graph, total.spec),), "", anchor.phase)
    if not context.kernels.has_kernel(fused, group.input_specs, group.output_specs, attrs):
        return False
    graph.insert_before(anchor, group)
    graph.replace_all_uses(total, group.outputs[0])
    return True


def _defer_cast(graph: Graph, value: Value) -> None:
    """Cast a gradient in the update that reads it, with which the cast can be fused, now that the sum does not read
    it."""
    node = value.producer
    if node is None or node.is_erased or node.op is not cast or not graph.has_single_use(value):
        return
    (user,) = value.users
    if user.phase == "update" and node.phase == "backward":
        graph.move_before(user, node)
        node.phase = user.phase


def _before_cast(value: Value) -> Value | None:
    """The value of fewer bits that a value is cast from; None where it is not."""
    node = value.producer
    if node is None or node.op is not cast:
        return None
    source = node.inputs[0]
    return source if source.dtype in FLOAT_DTYPES and source.spec.nbytes < value.spec.nbytes else None
