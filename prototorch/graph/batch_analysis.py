"""Batch analysis: how each value of a graph depends on the samples of a batch.

Where all outputs are BATCHED, the samples are processed independently: an incomplete batch can be padded, the results
of the padding dropped, and one plan serves all smaller batches. Batch statistics, means over the batch and ops that
declare nothing (`Op.preserves_batch`) make a value MIXED.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from prototorch.graph.ir import Graph, Node, Value
from prototorch.graph.trace import RANDOM_KEY
from prototorch.ops.core import use_interpreter
from prototorch.ops.facts import BATCHED, INDEPENDENT, MIXED, UNIFORM, BatchDependence
from prototorch.ops.lazy_array import LazyArray

__all__ = [
    "BATCHED",
    "INDEPENDENT",
    "MIXED",
    "UNIFORM",
    "BatchDependence",
    "analyze_batch_axis",
    "analyze_graph",
    "is_batch_size_independent",
]


def analyze_batch_axis(
    nodes: Iterable[Node], batch: int, inputs: Mapping[Value, BatchDependence]
) -> dict[Value, BatchDependence]:
    """How each value depends on the samples of a batch. ``inputs`` holds it for the graph's inputs; values that
    are neither there nor computed (states) are INDEPENDENT."""
    dependences = dict(inputs)

    def dependence(value: Value) -> BatchDependence:
        if value.kind == "constant":
            if isinstance(value.stored_array, LazyArray):  # a large one, whose rows differ
                return INDEPENDENT
            array = np.asarray(value.array)
            return UNIFORM if array.ndim and len(array) and bool((array == array[:1]).all()) else INDEPENDENT
        return dependences.get(value, INDEPENDENT)

    for node in nodes:
        of_outputs = _output_dependences(node, [dependence(v) for v in node.inputs], batch)
        dependences.update((v, d) for v, d in zip(node.outputs, of_outputs, strict=True))
    return dependences


def analyze_graph(graph: Graph, batch: int) -> dict[Value, BatchDependence]:
    """`analyze_batch_axis` of a traced graph, all inputs of which but the random key have the batch axis first."""
    inputs = {v: INDEPENDENT if name == RANDOM_KEY else BATCHED for name, v in graph.inputs.items()}
    return analyze_batch_axis(graph, batch, inputs)


def is_batch_size_independent(one: Graph, other: Graph) -> bool:
    """Whether two graphs, traced for two batch sizes, are the same program: no number in them follows from the size."""
    if one.num_nodes != other.num_nodes:
        return False
    return all(_is_same_node(a, b) for a, b in zip(one, other, strict=True))


def _is_same_node(a: Node, b: Node) -> bool:
    if a.op is not b.op or a.attrs.keys() != b.attrs.keys() or len(a.inputs) != len(b.inputs):
        return False
    numbers = ((v, b.attrs[k]) for k, v in a.attrs.items() if isinstance(v, int | float))
    constants = [(v, w) for v, w in zip(a.inputs, b.inputs, strict=True) if "constant" in (v.kind, w.kind)]
    return all(v == w for v, w in numbers) and all(
        v.kind == w.kind and _is_same_constant(v.array, w.array) for v, w in constants
    )


def _is_same_constant(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two constants are equal, along the first axis as far as the shorter one reaches."""
    if a.ndim != b.ndim or a.shape[1:] != b.shape[1:]:
        return False
    count = min(len(a), len(b)) if a.ndim else 1
    return np.array_equal(a[:count], b[:count]) if a.ndim else bool(a == b)


def _output_dependences(node: Node, dependences: Sequence[BatchDependence], batch: int) -> list[BatchDependence]:
    op, outs = node.op, tuple(v.spec for v in node.outputs)
    ins = tuple(v.spec for v in node.inputs)
    if MIXED in dependences:
        return [MIXED] * len(outs)
    if BATCHED not in dependences:
        if op.is_random:
            return [BATCHED if s.ndim and s.shape[0] % batch == 0 else INDEPENDENT for s in outs]
        return [op.unbatched_dependence(ins, s, node.attrs, dependences) for s in outs]
    preserves = op.preserves_batch(ins, outs, node.attrs, dependences)
    if preserves is None and op.is_composite:
        return _analyze_decomposition(node, dependences, batch)
    divisible = all(s.ndim > 0 and s.shape[0] % batch == 0 for s in outs)
    return [BATCHED if preserves and divisible else MIXED] * len(outs)


def _analyze_decomposition(node: Node, dependences: Sequence[BatchDependence], batch: int) -> list[BatchDependence]:
    graph = Graph()
    values = [graph.input(str(i), v.spec) for i, v in enumerate(node.inputs)]
    with use_interpreter(graph):
        result = node.op.decompose(*values, **node.attrs)
    analyzed = analyze_batch_axis(graph, batch, dict(zip(values, dependences, strict=True)))
    return [analyzed.get(v, MIXED) for v in (result if isinstance(result, tuple) else (result,))]
