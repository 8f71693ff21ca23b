"""The bounds of values: what the ops of a step declare (`Op.value_bounds`) becomes one number, the values outside.

It is an output, which the executor reads before states are written (see `engine.backends.value_guard`); the values that
are counted are outputs as well, so that the error can name one. Indices that are the same but for their order or type
are counted once, and those that are positions of an axis that is short enough not at all.
"""

from __future__ import annotations

import numpy as np

from prototorch import ops
from prototorch.engine.backends.value_guard import COUNT_OUTPUT, ValueCheck, raise_value_error
from prototorch.graph.ir import Graph, Node, Value
from prototorch.graph.passes.context import PassContext
from prototorch.ops.facts import ValueLimits, within
from prototorch.ops.value_bounds import count_outside, is_outside
from prototorch.spec import Spec

__all__ = ["guard_values"]


def guard_values(graph: Graph, context: PassContext) -> bool:
    """Add the count, where an op of the graph reads values that may lie outside. Raises as `raise_value_error` for
    constants that do."""
    checks: dict[tuple[Value, ValueLimits], ValueCheck] = {}
    order: dict[Value, int] = {}
    for number, node in enumerate(graph.nodes):
        order.update(dict.fromkeys(node.outputs, number))
        for position, bounds in node.op.value_bounds(node.input_specs, node.attrs).items():
            value = _source(node.inputs[position], bounds)
            text, bounds = _message(node, bounds), within(bounds, value.dtype)
            if bounds[:3] == (None, None, False):
                continue
            check = ValueCheck(bounds, text, f"{COUNT_OUTPUT}: {len(checks)}")
            if value.kind == "constant":
                raise_value_error([(check, value.array)])
            elif value.spec.size and not _is_inside(value, bounds):
                checks.setdefault((value, bounds), check)
    if not checks:
        return False
    values = tuple(value for value, _ in checks)
    last = max(values, key=lambda v: order.get(v, -1)).producer
    count = Value(graph, Spec((), "int32"))
    node = Node(
        count_outside,
        values,
        {"bounds": tuple(bounds for _, bounds in checks)},
        (count,),
        "",
        "forward" if last is None else last.phase,
    )
    first = next(iter(graph), None)
    if last is not None:
        graph.insert_after(last, node)
    elif first is not None:
        graph.insert_before(first, node)
    context.value_checks = list(checks.values())
    outputs = {check.output: value for (value, _), check in checks.items()}
    graph.set_results({**graph.outputs, COUNT_OUTPUT: count, **outputs}, graph.updates)
    return True


def _source(value: Value, bounds: ValueLimits) -> Value:
    """The value whose elements these are, in another order or, of indices, of another integer type."""
    while (node := value.producer) is not None:
        source = node.inputs[0] if node.inputs else value
        is_same = (
            node.op.moves_elements
            or node.op is ops.bounded_values
            or (node.op is ops.bounded_index and not node.attrs.get("wraps"))
            or (bounds.are_indices and node.op is ops.cast and not source.spec.is_float and source.dtype != "bool")
        )
        if not is_same:
            break
        value = source
    return value


def _is_inside(value: Value, bounds: ValueLimits) -> bool:
    """Whether the op that gives the values gives none outside."""
    node = value.producer
    if node is None:
        return False
    if node.op is ops.full:
        return not is_outside(np.asarray(node.attrs["value"], value.dtype), bounds)
    limit = node.op.index_limit(node.input_specs, node.attrs)
    return (
        limit is not None
        and bounds.are_indices
        and (bounds.low or 0) <= 0
        and (bounds.high is None or limit <= bounds.high + 1)
    )


def _message(node: Node, bounds: ValueLimits) -> str:
    text = node.attrs.get("message")
    if text is None and bounds.are_indices:
        text = f"{node.op.name}: index {{}} is out of range: the valid ones are {bounds.low} to {bounds.high}"
    elif text is None:
        text = f"{node.op.name}: division of integers by 0"
    return f"{node.scope}: {text}" if node.scope else text
