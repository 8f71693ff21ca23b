"""Whether the samples of a batch go through a graph side by side, each for itself.

Where they do, a batch with too few samples can be filled up, and the places that were filled in are left out of what
comes of it: a plan for the whole batch is as good for a smaller one. Batch statistics, means over the batch and
whatever is not known here say no.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from prototorch.graph.record import Graph, Node, Value
from prototorch.graph.trace import KEY
from prototorch.ops.core import interpreting
from prototorch.ops.reduce import axes

#: how a value depends on the samples: not at all; not at all, and it is the same at all places of its first axis; its
#: first axis goes through the samples in their order, as many places for each; in any other way
FREE, SAME, ROWS, MIXED = "free", "same", "rows", "mixed"
#: ops of which the first input alone goes by samples
_ALONE = (
    "conv",
    "conv_input_grad",
    "max_pool",
    "avg_pool",
    "one_hot",
    "channel_window_sum",
)  # the first input alone goes by samples
_ALONG = ("sum", "mean", "max", "min", "prod", "all", "any", "argmax", "argmin", "cumsum", "softmax", "log_softmax",
          "gather", "scatter_rows", "flip", "concat")  # fmt: skip
_LAST = ("top_k", "take_along", "put_along")
_DRAWN = ("random_bits", "random_uniform")  # the n-th number drawn is the same however many there are


def kinds(nodes: Iterable[Node], batch: int, given: Mapping[int, str]) -> dict[int, str]:
    """How each value depends on the samples of a batch, by id; ``given`` says it of inputs. States are free."""
    found = dict(given)

    def kind(value: Value) -> str:
        if value.kind == "constant":
            array = np.asarray(value.array)
            return SAME if array.ndim and len(array) and bool((array == array[:1]).all()) else FREE
        return found.get(id(value), FREE)

    for node in nodes:
        read = [kind(v) for v in node.inputs]
        for value, how in zip(node.outputs, _kinds(node, read, batch), strict=True):
            found[id(value)] = how
    return found


def of_samples(graph: Graph, batch: int) -> dict[int, str]:
    """`kinds` of a traced graph, whose inputs begin with the batch's axis, all but the random key."""
    given = {id(v): FREE if name == KEY else ROWS for name, v in graph.inputs.items()}
    return kinds(graph.nodes, batch, given)


def alike(one: Graph, other: Graph) -> bool:
    """Whether two graphs, traced for batches of two sizes, say the same: no number in them follows from the size."""
    if len(one.nodes) != len(other.nodes):
        return False
    return all(_alike(a, b) for a, b in zip(one.nodes, other.nodes, strict=True))


def _alike(a: Node, b: Node) -> bool:
    if a.op is not b.op or a.attrs.keys() != b.attrs.keys() or len(a.inputs) != len(b.inputs):
        return False
    numbers = ((v, b.attrs[k]) for k, v in a.attrs.items() if isinstance(v, int | float))
    known = [(v, w) for v, w in zip(a.inputs, b.inputs, strict=True) if "constant" in (v.kind, w.kind)]
    return all(v == w for v, w in numbers) and all(v.kind == w.kind and _same(v.array, w.array) for v, w in known)


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two constants hold the same; one that has the batch's axis is held against the rows of the other."""
    if a.ndim != b.ndim or a.shape[1:] != b.shape[1:]:
        return False
    count = min(len(a), len(b)) if a.ndim else 1
    return np.array_equal(a[:count], b[:count]) if a.ndim else bool(a == b)


def _kinds(node: Node, read: Sequence[str], batch: int) -> list[str]:
    outs = node.outputs
    if MIXED in read:
        return [MIXED] * len(outs)
    if ROWS not in read:
        return [_free(node, read, v, batch) for v in outs]
    rule = _RULES.get(node.op.name)
    if rule is None and node.op.elementwise:
        rule = _elementwise
    if rule is None and node.op.composite:
        return _inside(node, read, batch)
    fits = rule is not None and rule(node, read) and all(v.ndim > 0 and v.shape[0] % batch == 0 for v in outs)
    return [ROWS if fits else MIXED] * len(outs)


def _free(node: Node, read: Sequence[str], value: Value, batch: int) -> str:
    if node.op.name in _DRAWN and value.ndim and value.shape[0] % batch == 0:
        return ROWS
    if node.op.name in ("full", "broadcast_to") and value.ndim:
        return SAME if node.op.name == "full" or (value.ndim > node.inputs[0].ndim) else FREE
    alike = (how == SAME or v.ndim < value.ndim or v.shape[:1] == (1,)
             for v, how in zip(node.inputs, read, strict=True))  # fmt: skip
    return SAME if node.op.elementwise and value.ndim and all(alike) else FREE


def _inside(node: Node, read: Sequence[str], batch: int) -> list[str]:
    """A composite is what it says in other ops."""
    graph = Graph()
    values = [graph.input(str(i), v.spec) for i, v in enumerate(node.inputs)]
    with interpreting(graph):
        made = node.op.expand(*values, **node.attrs)
    found = kinds(graph.nodes, batch, {id(v): how for v, how in zip(values, read, strict=True)})
    return [found.get(id(v), MIXED) for v in (made if isinstance(made, tuple) else (made,))]


def _others_free(node: Node, read: Sequence[str]) -> bool:
    return read[0] == ROWS and all(how in (FREE, SAME) for how in read[1:])


def _elementwise(node: Node, read: Sequence[str]) -> bool:
    out = node.outputs[0]

    def fits(value: Value, how: str) -> bool:
        whole = value.ndim == out.ndim and value.shape[0] == out.shape[0]
        return whole if how == ROWS else value.ndim < out.ndim or value.shape[:1] == (1,) or (how == SAME and whole)

    return all(fits(v, how) for v, how in zip(node.inputs, read, strict=True))


def _along(node: Node, read: Sequence[str]) -> bool:
    x = node.inputs[0]
    if not all(how in (ROWS, SAME) and v.shape[0] == x.shape[0] for v, how in zip(node.inputs, read, strict=True)):
        return False
    default = -1 if node.op.name.endswith("softmax") else None
    return 0 not in axes(node.attrs.get("axis", default), x.ndim)


def _last(node: Node, read: Sequence[str]) -> bool:
    return all(how == ROWS for how in read) and all(v.ndim > 1 for v in node.inputs)


def _sliced(node: Node, read: Sequence[str]) -> bool:
    start, stop, step = (node.attrs[k][0] for k in ("start", "stop", "step"))
    return start == 0 and stop == node.inputs[0].shape[0] and step == 1


def _matmul(node: Node, read: Sequence[str]) -> bool:
    a, b = node.inputs
    if read[0] == ROWS and read[1] == ROWS:
        return a.ndim == b.ndim > 2 and a.shape[0] == b.shape[0]
    one, other = (a, b) if read[0] == ROWS else (b, a)
    if one.ndim == 2:
        return one is a and other.ndim == 2 and not node.attrs.get("transpose_a", False)
    return other.ndim < one.ndim or (other.ndim == one.ndim and other.shape[0] == 1)


def _sequence(node: Node, read: Sequence[str]) -> bool:
    batch = node.inputs[0].shape[:1]
    return read[0] == ROWS and all(how != FREE or v.shape[:1] != batch
                                   for v, how in zip(node.inputs, read, strict=True))  # fmt: skip


def _dropout(node: Node, read: Sequence[str]) -> bool:
    noise = node.attrs.get("noise_shape")
    return read[0] == ROWS and read[1] == FREE and (noise is None or noise[0] in (1, node.inputs[0].shape[0]))


_RULES: dict[str, Callable[[Any, Any], bool]] = {
    **dict.fromkeys(_ALONE, _others_free),
    **dict.fromkeys(_ALONG, _along),
    **dict.fromkeys(_LAST, _last),
    **dict.fromkeys(("reorder", "relabel"), _others_free),
    "reshape": _others_free,  # what belongs to a sample lies in one piece
    "transpose": lambda node, read: node.attrs["order"][0] == 0,
    "slice": _sliced,
    "pad": lambda node, read: tuple(node.attrs["pads"][0]) == (0, 0),
    "broadcast_to": lambda node, read: node.inputs[0].ndim == node.outputs[0].ndim,
    "take": lambda node, read: read[0] != ROWS,
    "affine_sample": lambda node, read: all(how == ROWS for how in read),
    "matmul": _matmul,
    "dropout": _dropout,
    **dict.fromkeys(("simple_rnn_sequence", "lstm_sequence", "gru_sequence"), _sequence),
}
