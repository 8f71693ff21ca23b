"""Layers recorded as ops for any batch size: exporters write the ops of a layer that has no counterpart of its own.

A trace is made for one batch size. Two traces for different ones tell which integers of shapes and attributes follow
the batch: those that are the same multiple of it in both.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prototorch.engine.backends.cpu import cpu
from prototorch.errors import UsageError
from prototorch.graph.ir import Graph, Node, Value
from prototorch.graph.net import LayerNode, Net
from prototorch.graph.trace import InputPreprocessing, LayerContext, Trace, record_layer, trace
from prototorch.graph.weight_spec import WeightSpec
from prototorch.layers.base import Layer
from prototorch.layers.stream_recurrent import StreamRecurrentLayer
from prototorch.ops.core import Op, use_interpreter
from prototorch.spec import Spec
from prototorch.train.preprocessing import Preprocessor

__all__ = [
    "BatchMultiple",
    "Dim",
    "Preparation",
    "Recording",
    "Section",
    "input_shapes",
    "live_nodes",
    "record_function",
    "record_net",
    "record_sublayer",
    "sections",
]  # fmt: skip

PREPARATION = "\0preparation"  # the scope of what is recorded before the layers; no layer has this name

# two primes: an integer that is the same multiple of both by chance does not occur among the sizes of a net
_BATCHES = (1_000_003, 999_983)


@dataclass(frozen=True)
class BatchMultiple:
    """An integer that is the batch size times a factor."""

    factor: int = 1


Dim = int | BatchMultiple


class _ExportGraph(Graph):
    """A graph whose composite ops are recorded as the ops that they are made of, but for those to keep."""

    def __init__(self, keeps: Callable[[str], bool]):
        super().__init__()
        self.keeps = keeps

    def apply(self, op: Op, inputs: Sequence[Value], attrs: dict[str, Any]) -> Any:
        if not op.is_composite or self.keeps(op.name):
            return super().apply(op, inputs, attrs)
        with use_interpreter(self):
            return op.decompose(*inputs, **attrs)


@dataclass
class Recording:
    """Ops recorded for any batch size. ``inputs`` and ``outputs`` are values of ``graph``; ``values`` those of a net by
    name; ``masks`` their masks; ``weights`` what the layers say of them."""

    graph: Graph
    inputs: list[Value]
    outputs: list[Value]
    values: Mapping[str, Value]
    masks: Mapping[Value, Value]
    weights: Mapping[str, WeightSpec]
    _others: Mapping[Value, Value]
    _other_nodes: Mapping[Node, Node]

    def is_output(self, value: Value) -> bool:
        """Whether a value is an output."""
        return value in self.outputs

    def dims(self, value: Value) -> tuple[Dim, ...]:
        """The sizes of a value, integers or multiples of the batch."""
        return _symbolic(value.shape, self._others[value].shape)

    def attributes(self, node: Node) -> dict[str, Any]:
        """The attributes of a node, with `BatchMultiple` for the integers that follow the batch."""
        return {k: _symbolic(v, self._other_nodes[node].attrs[k]) for k, v in node.attrs.items()}


def _symbolic(a: Any, b: Any) -> Any:
    if isinstance(a, tuple | list):
        return tuple(_symbolic(x, y) for x, y in zip(a, b, strict=True))
    if type(a) is not int or a == b:
        return a
    first, second = _BATCHES
    if a % first or b % second or a // first != b // second:
        raise UsageError(
            f"a size of {a} for {first} samples and of {b} for {second} follows the batch in no simple way"
        )
    return BatchMultiple(a // first)


def _join(
    recordings: Sequence[tuple[Graph, list[Value], list[Value], Mapping[str, Value]]], traced: Trace | None = None
) -> Recording:
    (graph, inputs, outputs, values), (other, *_) = recordings
    nodes, others = graph.nodes, other.nodes
    if [n.op.name for n in nodes] != [n.op.name for n in others]:
        raise UsageError("its ops depend on the batch size")
    pairs: dict[Value, Value] = {}
    for mine, theirs in ((graph.inputs, other.inputs), (graph.states, other.states)):
        pairs.update((value, theirs[name]) for name, value in mine.items())
    for node, twin in zip(nodes, others, strict=True):
        pairs.update(zip(node.inputs, twin.inputs, strict=True))
        pairs.update(zip(node.outputs, twin.outputs, strict=True))
    masks, weights = (traced.masks, traced.weights) if traced is not None else ({}, {})
    return Recording(graph, inputs, outputs, values, masks, weights, pairs, dict(zip(nodes, others, strict=True)))


def record_net(
    net: Net,
    shapes: Mapping[str, Sequence[int]],
    dtypes: Mapping[str, str],
    keeps: Callable[[str], bool],
    preparation: InputPreprocessing | None = None,
) -> Recording:
    """A net as it predicts.

    Args:
        shapes: of the inputs, without the batch dimension. dtypes: of the inputs.
        keeps: whether an op that is made of others is to be recorded as itself, by its name.
        preparation: the layers of `preprocess`, recorded with the net.

    Raises ShapeError, and UsageError for a net whose ops depend on the batch size.
    """
    for node in net.nodes:
        if isinstance(node.layer, StreamRecurrentLayer):
            kind = type(node.layer).__name__
            raise UsageError(
                f"the layer {node.name!r} ({kind}) reads time along the first axis and records ops for each step: it "
                "cannot be exported for batches of any size; LSTM, GRU and SimpleRNN can"
            )
    recordings: list[tuple[Graph, list[Value], list[Value], Mapping[str, Value]]] = []
    traces = []
    for batch in _BATCHES:
        graph = _ExportGraph(keeps)
        specs = {name: Spec((batch, *shape), dtypes[name]) for name, shape in shapes.items()}
        traced = trace(net, specs, False, graph, preparation=preparation)
        scalar = next((name for name in net.outputs if not traced.values[name].shape), None)
        if scalar is not None:
            raise UsageError(
                f"the output {scalar!r} is one number for the whole batch (a loss, an accuracy): what predicts is "
                "exported; leave that layer out"
            )
        inputs = [graph.inputs[node.name] for node in net.inputs]
        recordings.append((graph, inputs, [traced.values[o] for o in net.outputs], traced.values))
        traces.append(traced)
    return _join(recordings, traces[0])


def record_sublayer(
    layer: Layer,
    name: str,
    dims: Sequence[tuple[Dim, ...]],
    dtype: str,
    keeps: Callable[[str], bool],
    training: bool = False,
    input_dtypes: Sequence[str] = (),
) -> Recording:
    """A layer alone, as it predicts (or in training), on inputs of these shapes, of ``dtype`` where their own are not
    given. Its weights have ``name/`` in front."""

    def record(graph: Graph, inputs: list[Value]) -> Any:
        traced = Trace(graph, training, dtype)
        return record_layer(LayerContext(traced, name, name, layer, layer), layer, tuple(inputs))

    return record_function(record, dims, input_dtypes or [dtype] * len(dims), keeps)


def record_function(
    function: Callable[[Graph, list[Value]], Any],
    dims: Sequence[tuple[Dim, ...]],
    dtypes: Sequence[str],
    keeps: Callable[[str], bool],
) -> Recording:
    """What a function of a graph and values of these shapes records there; it returns the outputs."""
    recordings: list[tuple[Graph, list[Value], list[Value], Mapping[str, Value]]] = []
    for batch in _BATCHES:
        graph = _ExportGraph(keeps)
        shapes = [tuple(n.factor * batch if isinstance(n, BatchMultiple) else n for n in shape) for shape in dims]
        inputs = [graph.input(f"x{i}", Spec(s, t)) for i, (s, t) in enumerate(zip(shapes, dtypes, strict=True))]
        with use_interpreter(graph):
            result = function(graph, inputs)
        recordings.append((graph, inputs, list(result) if isinstance(result, tuple | list) else [result], {}))
    return _join(recordings)


@dataclass(frozen=True)
class Section:
    """A layer (None: what comes before the layers) with the nodes that it has recorded, and those of their outputs that
    other sections read or that are outputs of the net. is_live: whether an output of the net depends on the layer."""

    layer: LayerNode | None
    nodes: list[Node]
    read_elsewhere: list[Value]
    is_live: bool = True


def sections(net: Net, recording: Recording) -> Iterator[Section]:
    """The layers of a net in order."""
    needed, live = set(recording.outputs), set()
    by_scope: dict[str, list[Node]] = {}
    for node in reversed(recording.graph.nodes):
        by_scope.setdefault(node.scope, []).insert(0, node)
        if not needed.isdisjoint(node.outputs):
            needed.update(node.inputs)
            live.add(node)
    results = set(recording.outputs)
    for layer, scope in [(None, PREPARATION), *((node, node.name) for node in net.nodes)]:
        nodes = by_scope.get(scope, [])
        members = set(nodes)
        read_elsewhere = [
            v
            for n in nodes
            if n in live
            for v in n.outputs
            if v in results or any(u in live and u not in members for u in v.users)
        ]
        is_live = layer is None or any(recording.values[top] in needed for top in layer.tops)
        yield Section(layer, nodes, read_elsewhere, is_live)


def live_nodes(nodes: Sequence[Node], needed: Iterable[Value], present: Container[Value] = ()) -> list[Node]:
    """Those of some nodes that these values depend on, in their order; values that are present need no node."""
    live_values, selection = set(needed), []
    for node in reversed(nodes):
        if not live_values.isdisjoint(node.outputs) and not all(v in present for v in node.outputs):
            live_values.update(node.inputs)
            selection.append(node)
    return selection[::-1]


def input_shapes(net: Net, shapes: Mapping[str, Sequence[int]]) -> dict[str, tuple[int, ...]]:
    """The shapes of a net's inputs, without the batch dimension; ``shapes`` has those that the net leaves open. Raises
    UsageError for a size that nobody tells."""
    result = {node.name: tuple(shapes.get(node.name, node.shape)) for node in net.inputs}
    is_open = {name: shape for name, shape in result.items() if None in shape}
    if is_open:
        names = " and ".join(map(repr, is_open))
        example = ", ".join(f"{name!r}: ({_format_sizes(shape, '...')})" for name, shape in is_open.items())
        sizes = "; ".join(f"{name!r} has [{_format_sizes(shape, 'none')}]" for name, shape in is_open.items())
        raise UsageError(
            f"the input{'s' * (len(is_open) > 1)} {names} leave{'s' * (len(is_open) == 1)} sizes open ({sizes}); "
            f"give the shapes: shapes={{{example}}}"
        )
    return {name: tuple(int(n) for n in shape if n is not None) for name, shape in result.items()}


def _format_sizes(shape: Sequence[int | None], unknown: str) -> str:
    return ", ".join(unknown if n is None else str(n) for n in shape) + "," * (len(shape) == 1 and unknown == "...")


class Preparation:
    """The layers of `preprocess` as a part of the recorded net."""

    def __init__(self, net: Net):
        self.name = net.inputs[0].name
        self._preprocessor = Preprocessor(net, cpu())

    def record(self, traced: Trace, value: Value) -> Value:
        """The preprocessed input."""
        result, nodes = traced.graph.collect(lambda: self._preprocessor.record(traced, value))
        for node in nodes:
            node.scope = PREPARATION
        return result
