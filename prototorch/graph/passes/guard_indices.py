"""The bounds of indices: what the ops of a step declare (`Op.index_bounds`) becomes one number, the indices outside.

It is an output, which the executor reads before states are written (see `engine.backends.index_guard`); the indices
that are counted are outputs as well, so that the error can name one. Indices that are the same but for their order or
type are counted once, and those that are positions of an axis that is short enough not at all.
"""

from __future__ import annotations

from prototorch import ops
from prototorch.engine.backends.index_guard import COUNT_OUTPUT, IndexCheck, raise_index_error
from prototorch.graph.ir import Graph, Node, Value
from prototorch.graph.passes.context import PassContext
from prototorch.ops.bounded_index import count_outside
from prototorch.spec import Spec

__all__ = ["guard_indices"]


def guard_indices(graph: Graph, context: PassContext) -> bool:
    """Add the count, where an op of the graph reads indices that may lie outside. Raises IndexRangeError for constant
    indices that do."""
    checks: dict[tuple[Value, int, int], IndexCheck] = {}
    order: dict[Value, int] = {}
    for number, node in enumerate(graph.nodes):
        order.update(dict.fromkeys(node.outputs, number))
        for position, (low, high) in node.op.index_bounds(node.input_specs, node.attrs).items():
            value = _source(node.inputs[position])
            check = IndexCheck(low, high, _message(node, low, high), f"{COUNT_OUTPUT}: {len(checks)}")
            if value.kind == "constant":
                raise_index_error([(check, value.array)])
            elif value.spec.size and not _is_inside(value, low, high):
                checks.setdefault((value, low, high), check)
    if not checks:
        return False
    values = tuple(value for value, _, _ in checks)
    last = max(values, key=lambda v: order.get(v, -1)).producer
    count = Value(graph, Spec((), "int32"))
    node = Node(
        count_outside,
        values,
        {"bounds": tuple((low, high) for _, low, high in checks)},
        (count,),
        "",
        "forward" if last is None else last.phase,
    )
    first = next(iter(graph), None)
    if last is not None:
        graph.insert_after(last, node)
    elif first is not None:
        graph.insert_before(first, node)
    context.index_checks = list(checks.values())
    outputs = {check.output: value for (value, _, _), check in checks.items()}
    graph.set_results({**graph.outputs, COUNT_OUTPUT: count, **outputs}, graph.updates)
    return True


def _source(value: Value) -> Value:
    """The value whose elements these are, in another order or of another integer type."""
    while (node := value.producer) is not None:
        source = node.inputs[0] if node.inputs else value
        is_same = (
            node.op.moves_elements
            or (node.op is ops.bounded_index and not node.attrs.get("wraps"))
            or (node.op is ops.cast and not source.spec.is_float and source.dtype != "bool")
        )
        if not is_same:
            break
        value = source
    return value


def _is_inside(value: Value, low: int, high: int) -> bool:
    """Whether the op that gives the indices gives none outside."""
    node = value.producer
    limit = None if node is None else node.op.index_limit(node.input_specs, node.attrs)
    return limit is not None and low <= 0 and limit <= high


def _message(node: Node, low: int, high: int) -> str:
    text = node.attrs.get("message") or (
        f"{node.op.name}: index {{}} is out of range: the valid ones are {low} to {high - 1}"
    )
    return f"{node.scope}: {text}" if node.scope else text
