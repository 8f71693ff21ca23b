"""Transposes that move the channels behind the other axes sink towards those that move them back, and both disappear.

A layer of ``data_format: channels_last`` records a transpose before and one behind its ops, which have the channels
first. Ops between two such layers that commute with a transpose (elementwise ops, normalizations, concatenations, sums)
are computed with the channels first as well. What is left are the transposes where a value enters such layers and where
it is read with the channels last; each is a new label where the value lies as channels_last (`assign_layouts`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from prototorch.graph.ir import Graph, Node, Value
from prototorch.graph.passes.context import PassContext
from prototorch.ops.core import Op
from prototorch.ops.layout import channels_to_last
from prototorch.ops.reduce import Reduction
from prototorch.ops.shape import reshape, transpose

__all__ = ["sink_transposes"]

Order = tuple[int, ...]


def sink_transposes(graph: Graph, context: PassContext) -> bool:
    """Cancel pairs of transposes, also those with ops between them that commute with them."""
    if not any(node.op is transpose for node in graph):
        return False
    changed = False
    useful = _ops_before_inverses(graph)
    for node in graph.nodes:
        if node.op is transpose:
            changed |= _cancel(graph, node)
            continue
        order = _order_to_sink(graph, node, useful)
        if order is not None:
            _sink(graph, node, order)
            changed = True
    return changed


def _inverse(order: Order) -> Order:
    return tuple(sorted(range(len(order)), key=order.__getitem__))


def _moves_back(node: Node) -> bool:
    """Whether a node moves the channels, which are last, behind the batch."""
    return node.op is transpose and node.outputs[0].ndim > 2 and _is_to_last(_inverse(node.attrs["order"]))


def _is_to_last(order: Order) -> bool:
    """Whether an order moves one axis behind all others, and leaves the first where it is: the channels are axis 1, in
    a sequence of images axis 2."""
    moved = order[-1]
    return 0 < moved < len(order) - 1 and order == (*(i for i in range(len(order)) if i != moved), moved)


def _sunk_order(value: Value, is_any: bool = False) -> Order | None:
    """The order of the transpose that gives a value with its channels last, or of any; None for other values."""
    node = value.producer
    if node is None or node.op is not transpose or not (is_any or _is_to_last(node.attrs["order"])):
        return None
    return tuple(node.attrs["order"])


def _commutes(node: Node, order: Order) -> bool:
    return node.op.attrs_before_transpose(node.input_specs, node.attrs, order) is not None


def _ops_before_inverses(graph: Graph) -> set[Node]:
    """The ops whose results, as they are or behind other ops that commute, are transposed back."""
    useful: set[Node] = set()
    for node in reversed(graph.nodes):
        outputs = [v for v in node.outputs if v.ndim > 2]
        if outputs and _commutes(node, channels_to_last(outputs[0].ndim)):
            users = [user for v in outputs for user in v.users]
            if any(_moves_back(user) or user in useful or isinstance(user.op, Reduction) for user in users):
                useful.add(node)
    return useful


def _cancel(graph: Graph, node: Node) -> bool:
    """Let the readers of a transpose read what was before its inverse."""
    source = node.inputs[0].producer
    if source is None or source.op is not transpose or node.attrs["order"] != _inverse(source.attrs["order"]):
        return False
    graph.replace_all_uses(node.outputs[0], source.inputs[0])
    return True


def _order_to_sink(graph: Graph, node: Node, useful: set[Node]) -> Order | None:
    """The order of the transposes that a node's inputs come from, where they are better applied to its outputs."""
    if isinstance(node.op, Reduction):  # it reads the elements in any order
        order = _sunk_order(node.inputs[0], is_any=True)
        return order if order is not None and _commutes(node, order) else None
    ndim = max((v.ndim for v in node.inputs), default=0)
    order = next((o for v in node.inputs if (o := _sunk_order(v)) is not None and len(o) == ndim), None)
    if order is None or any(_full(node, v) and _sunk_order(v) != order for v in node.inputs):
        return None
    if not _commutes(node, order) or any(v.ndim not in (ndim, 1) for v in node.outputs):
        return None
    sunk = [v for v in node.inputs if _sunk_order(v) is not None]
    is_alone = all(graph.has_single_use(v) for v in sunk) and all(v.spec.size == 1 or v in sunk for v in node.inputs)
    return order if node in useful or is_alone else None


def _full(node: Node, value: Value) -> bool:
    """Whether an input is transposed with the others: not a number, a vector of channels, or what broadcasts."""
    if not node.op.elementwise:
        return value.ndim == max(v.ndim for v in node.inputs)
    return value.shape == node.outputs[0].shape


def _sink(graph: Graph, node: Node, order: Order) -> None:
    """Apply a node before the transposes that its inputs come from, and transpose its outputs."""
    attrs = node.op.attrs_before_transpose(node.input_specs, node.attrs, order)
    assert attrs is not None
    with graph.insertion_point(node):
        inputs = [_before(node.op, v, order) for v in node.inputs]
        results = graph.apply(node.op, inputs, dict(attrs))
        for old, new in zip(node.outputs, _as_tuple(results), strict=True):
            assert isinstance(new, Value)
            is_transposed = old.ndim == len(order)
            graph.replace_all_uses(old, transpose(new, order=order) if is_transposed else new)
    graph.erase(node)


def _as_tuple(results: Value | Sequence[Value]) -> Sequence[Value]:
    return (results,) if isinstance(results, Value) else results


def _before(op: Op, value: Value, order: Order) -> Value:
    """An input before the transposition; what broadcasts gets the axes that it needs to broadcast then."""
    if _sunk_order(value, is_any=True) == order:
        assert value.producer is not None
        return value.producer.inputs[0]
    if not op.elementwise or value.spec.size == 1:
        return value
    shape = (*(1,) * (len(order) - value.ndim), *value.shape)
    wide: Value = value if value.ndim == len(order) else reshape(value, shape=shape)
    places = _inverse(order)
    moved = tuple(shape[i] for i in places)
    if sum(n > 1 for n in shape) < 2 or prod(shape) == 1:  # the elements stay in their order
        return reshape(value, shape=moved)
    transposed: Value = transpose(wide, order=places)
    return transposed
