"""Whether the samples of a batch go through a graph side by side, each for itself.

Where they do, a batch with too few samples can be filled up, and the places that were filled in are left out of what
comes of it: a plan for the whole batch is as good for a smaller one. Batch statistics, means over the batch and
whatever is not known here say no.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from prototorch.graph.ir import Graph, Node, Value
from prototorch.graph.trace import RANDOM_KEY
from prototorch.ops.core import use_interpreter
from prototorch.ops.reduce import normalize_axes

#: how a value depends on the samples: not at all; not at all, and it is the same at all places of its first axis; its
#: first axis goes through the samples in their order, as many places for each; in any other way
INDEPENDENT, UNIFORM, BATCHED, MIXED = "free", "same", "rows", "mixed"
#: ops of which the first input alone goes by samples
_FIRST_INPUT_BATCHED = (
    "conv",
    "conv_input_grad",
    "max_pool",
    "avg_pool",
    "one_hot",
    "channel_window_sum",
)  # the first input alone goes by samples
_AXIS_OPS = ("sum", "mean", "max", "min", "prod", "all", "any", "argmax", "argmin", "cumsum", "softmax", "log_softmax",
          "static_gather", "static_scatter_add", "flip", "concat")  # fmt: skip
_LAST_AXIS_OPS = ("top_k", "take_along_axis", "scatter_add_along_axis")
_RANDOM_OPS = ("random_bits", "random_uniform")  # the n-th number drawn is the same however many there are


def analyze_batch_axis(nodes: Iterable[Node], batch: int, given: Mapping[int, str]) -> dict[int, str]:
    """How each value depends on the samples of a batch, by id; ``given`` says it of inputs. States are free."""
    found = dict(given)

    def kind(value: Value) -> str:
        if value.kind == "constant":
            array = np.asarray(value.array)
            return UNIFORM if array.ndim and len(array) and bool((array == array[:1]).all()) else INDEPENDENT
        return found.get(id(value), INDEPENDENT)

    for node in nodes:
        read = [kind(v) for v in node.inputs]
        for value, how in zip(node.outputs, _output_dependence(node, read, batch), strict=True):
            found[id(value)] = how
    return found


def analyze_graph(graph: Graph, batch: int) -> dict[int, str]:
    """`analyze_batch_axis` of a traced graph, whose inputs begin with the batch's axis, all but the random key."""
    given = {id(v): INDEPENDENT if name == RANDOM_KEY else BATCHED for name, v in graph.inputs.items()}
    return analyze_batch_axis(graph.nodes, batch, given)


def is_batch_size_independent(one: Graph, other: Graph) -> bool:
    """Whether two graphs, traced for batches of two sizes, say the same: no number in them follows from the size."""
    if len(one.nodes) != len(other.nodes):
        return False
    return all(_is_same_node(a, b) for a, b in zip(one.nodes, other.nodes, strict=True))


def _is_same_node(a: Node, b: Node) -> bool:
    if a.op is not b.op or a.attrs.keys() != b.attrs.keys() or len(a.inputs) != len(b.inputs):
        return False
    numbers = ((v, b.attrs[k]) for k, v in a.attrs.items() if isinstance(v, int | float))
    known = [(v, w) for v, w in zip(a.inputs, b.inputs, strict=True) if "constant" in (v.kind, w.kind)]
    return all(v == w for v, w in numbers) and all(
        v.kind == w.kind and _is_same_constant(v.array, w.array) for v, w in known
    )


def _is_same_constant(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two constants hold the same; one that has the batch's axis is held against the rows of the other."""
    if a.ndim != b.ndim or a.shape[1:] != b.shape[1:]:
        return False
    count = min(len(a), len(b)) if a.ndim else 1
    return np.array_equal(a[:count], b[:count]) if a.ndim else bool(a == b)


def _output_dependence(node: Node, read: Sequence[str], batch: int) -> list[str]:
    outs = node.outputs
    if MIXED in read:
        return [MIXED] * len(outs)
    if BATCHED not in read:
        return [_unbatched_output(node, read, v, batch) for v in outs]
    rule = _BATCH_RULES.get(node.op.name)
    if rule is None and node.op.elementwise:
        rule = _elementwise
    if rule is None and node.op.is_composite:
        return _analyze_composite(node, read, batch)
    fits = rule is not None and rule(node, read) and all(v.ndim > 0 and v.shape[0] % batch == 0 for v in outs)
    return [BATCHED if fits else MIXED] * len(outs)


def _unbatched_output(node: Node, read: Sequence[str], value: Value, batch: int) -> str:
    if node.op.name in _RANDOM_OPS and value.ndim and value.shape[0] % batch == 0:
        return BATCHED
    if node.op.name in ("full", "broadcast_to") and value.ndim:
        return UNIFORM if node.op.name == "full" or (value.ndim > node.inputs[0].ndim) else INDEPENDENT
    alike = (how == UNIFORM or v.ndim < value.ndim or v.shape[:1] == (1,)
             for v, how in zip(node.inputs, read, strict=True))  # fmt: skip
    return UNIFORM if node.op.elementwise and value.ndim and all(alike) else INDEPENDENT


def _analyze_composite(node: Node, read: Sequence[str], batch: int) -> list[str]:
    """A composite is what it says in other ops."""
    graph = Graph()
    values = [graph.input(str(i), v.spec) for i, v in enumerate(node.inputs)]
    with use_interpreter(graph):
        made = node.op.decompose(*values, **node.attrs)
    found = analyze_batch_axis(graph.nodes, batch, {id(v): how for v, how in zip(values, read, strict=True)})
    return [found.get(id(v), MIXED) for v in (made if isinstance(made, tuple) else (made,))]


def _only_first_batched(node: Node, read: Sequence[str]) -> bool:
    return read[0] == BATCHED and all(how in (INDEPENDENT, UNIFORM) for how in read[1:])


def _elementwise(node: Node, read: Sequence[str]) -> bool:
    out = node.outputs[0]

    def fits(value: Value, how: str) -> bool:
        whole = value.ndim == out.ndim and value.shape[0] == out.shape[0]
        return (
            whole if how == BATCHED else value.ndim < out.ndim or value.shape[:1] == (1,) or (how == UNIFORM and whole)
        )

    return all(fits(v, how) for v, how in zip(node.inputs, read, strict=True))


def _along_axis(node: Node, read: Sequence[str]) -> bool:
    x = node.inputs[0]
    if not all(
        how in (BATCHED, UNIFORM) and v.shape[0] == x.shape[0] for v, how in zip(node.inputs, read, strict=True)
    ):
        return False
    default = -1 if node.op.name.endswith("softmax") else None
    return 0 not in normalize_axes(node.attrs.get("axis", default), x.ndim)


def _along_last_axis(node: Node, read: Sequence[str]) -> bool:
    return all(how == BATCHED for how in read) and all(v.ndim > 1 for v in node.inputs)


def _slice(node: Node, read: Sequence[str]) -> bool:
    start, stop, step = (node.attrs[k][0] for k in ("start", "stop", "step"))
    return start == 0 and stop == node.inputs[0].shape[0] and step == 1


def _matmul(node: Node, read: Sequence[str]) -> bool:
    a, b = node.inputs
    if read[0] == BATCHED and read[1] == BATCHED:
        return a.ndim == b.ndim > 2 and a.shape[0] == b.shape[0]
    one, other = (a, b) if read[0] == BATCHED else (b, a)
    if one.ndim == 2:
        return one is a and other.ndim == 2 and not node.attrs.get("transpose_a", False)
    return other.ndim < one.ndim or (other.ndim == one.ndim and other.shape[0] == 1)


def _sequence(node: Node, read: Sequence[str]) -> bool:
    batch = node.inputs[0].shape[:1]
    return read[0] == BATCHED and all(how != INDEPENDENT or v.shape[:1] != batch
                                   for v, how in zip(node.inputs, read, strict=True))  # fmt: skip


def _dropout(node: Node, read: Sequence[str]) -> bool:
    noise = node.attrs.get("noise_shape")
    return read[0] == BATCHED and read[1] == INDEPENDENT and (noise is None or noise[0] in (1, node.inputs[0].shape[0]))


_BATCH_RULES: dict[str, Callable[[Any, Any], bool]] = {
    **dict.fromkeys(_FIRST_INPUT_BATCHED, _only_first_batched),
    **dict.fromkeys(_AXIS_OPS, _along_axis),
    **dict.fromkeys(_LAST_AXIS_OPS, _along_last_axis),
    **dict.fromkeys(("reorder", "relabel"), _only_first_batched),
    "reshape": _only_first_batched,  # what belongs to a sample lies in one piece
    "transpose": lambda node, read: node.attrs["order"][0] == 0,
    "slice": _slice,
    "pad": lambda node, read: tuple(node.attrs["pads"][0]) == (0, 0),
    "broadcast_to": lambda node, read: node.inputs[0].ndim == node.outputs[0].ndim,
    "take": lambda node, read: read[0] != BATCHED,
    "affine_sample": lambda node, read: all(how == BATCHED for how in read),
    "matmul": _matmul,
    "dropout": _dropout,
    **dict.fromkeys(("simple_rnn_sequence", "lstm_sequence", "gru_sequence"), _sequence),
}
