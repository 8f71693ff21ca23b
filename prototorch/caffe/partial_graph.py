"""A range of layers of a Caffe net as graphs: what they compute, and the gradients that Caffe's backward pass gives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from prototorch import ops
from prototorch.caffe.interop.backward_flags import BackwardFlags
from prototorch.caffe.interop.caffe_net import CaffeLayer, CaffeNet
from prototorch.graph.ir import Graph, Node, Value
from prototorch.graph.trace import Trace, trace_node
from prototorch.ops.core import backward_pass, use_interpreter

__all__ = ["DIFF_PREFIX", "ForwardRange", "RangeGradients", "record_backward", "record_forward"]

#: in front of a value's name: the input of a backward graph that holds the value's gradient
DIFF_PREFIX = "diff:"


@dataclass
class ForwardRange:
    """Recorded layers. layers: their positions in the net. nodes: the applications of ops of each. inputs: names of
    the values that the range reads and does not compute; outputs: of those that it computes."""

    net: CaffeNet
    layers: range
    trace: Trace
    nodes: dict[int, list[Node]] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)

    @property
    def graph(self) -> Graph:
        """The graph with the recorded ops."""
        return self.trace.graph


@dataclass
class RangeGradients:
    """Gradients of a range, in its graph. seeds: names of the values whose gradients are given (as inputs of the graph
    with `DIFF_PREFIX`); values: the gradients of values that layers read, by name; weights: those of weights, by
    name."""

    seeds: list[str] = field(default_factory=list)
    values: dict[str, Value] = field(default_factory=dict)
    weights: dict[str, Value] = field(default_factory=dict)


def record_forward(net: CaffeNet, layers: range, float_dtype: str) -> ForwardRange:
    """Record native layers of a net, in a graph of their own."""
    trace = Trace(Graph(), net.phase == "TRAIN", float_dtype=float_dtype)
    result = ForwardRange(net, layers, trace)
    nodes = {node.name: node for node in net.net.nodes}
    specs = net.specs
    for index in layers:
        layer = net.layers[index]
        for value in layer.bottom_values:
            if value not in trace.values:
                trace.values[value] = trace.graph.input(value, specs[value])
                result.inputs.append(value)
        if layer.kind != "graph":
            continue
        trace.training = layer.phase(net.phase) == "TRAIN"
        _, recorded = trace.graph.collect(partial(_trace_nodes, trace, [nodes[name] for name in layer.nodes]))
        result.nodes[index] = recorded
        result.outputs += [value for value in layer.top_values if layer.nodes]
    return result


def _trace_nodes(trace: Trace, nodes: Iterable) -> None:
    for node in nodes:
        trace_node(trace, node)


def record_backward(forward: ForwardRange, layers: range, flags: BackwardFlags) -> RangeGradients:
    """Record the gradients of some of a range's layers, layer by layer from the last to the first, as Caffe does."""
    result = RangeGradients()
    graph, trace = forward.graph, forward.trace
    grads: dict[str, Value] = {}  # of values, from the layers behind
    read_inside = {v for i in layers for v in forward.net.layers[i].bottom_values}
    with use_interpreter(graph), graph.phase("backward"):
        for index in reversed(layers):
            layer = forward.net.layers[index]
            if not flags.layers[index] or (layer.tops and not layer.nodes):
                continue
            pairs = []
            for top, weight in zip(layer.top_values, _padded(layer), strict=True):
                gradient = grads.pop(top, None)
                if gradient is None and (top not in read_inside):
                    gradient = graph.input(DIFF_PREFIX + top, trace.values[top].spec)
                    result.seeds.append(top)
                elif weight:
                    loss = _full_like(trace.values[top], weight)
                    gradient = loss if gradient is None else gradient + loss
                if gradient is not None:
                    pairs.append((trace.values[top], gradient))
            _layer_gradients(forward, index, flags, pairs, grads, result)
    for name in result.seeds:
        del graph.inputs[DIFF_PREFIX + name]  # the forward pass does not read them
    return result


def _padded(layer: CaffeLayer) -> Sequence[float]:
    return (*layer.loss_weights, *[0.0] * len(layer.top_values))[: len(layer.top_values)]


def _full_like(like: Value, number: float) -> Value:
    """One number in the shape of a value."""
    value: Value = ops.full(shape=tuple(like.shape), value=number, dtype=like.dtype)
    return value


def _layer_gradients(
    forward: ForwardRange,
    index: int,
    flags: BackwardFlags,
    pairs: list[tuple[Value, Value]],
    grads: dict[str, Value],
    result: RangeGradients,
) -> None:
    """Add the gradients of one layer to those of its bottoms and weights."""
    layer, trace, states = forward.net.layers[index], forward.trace, forward.graph.states
    flagged = zip(layer.bottom_values, flags.bottoms[index], strict=True)
    bottoms = list(dict.fromkeys(value for value, flag in flagged if flag))
    flagged_params = zip(layer.params, flags.params[index], strict=True)
    weights = list(dict.fromkeys(name for param, flag in flagged_params if flag for name in param.weights))
    targets = [*(trace.values[name] for name in bottoms), *(states[name] for name in weights)]
    with forward.graph.scope(layer.name):
        gradients = backward_pass(forward.nodes[index], pairs, targets) if pairs else [None] * len(targets)
        zeroed = [_full_like(t, 0.0) if g is None else g for t, g in zip(targets, gradients, strict=True)]
        for store, names, values in (
            (grads, bottoms, zeroed[: len(bottoms)]),
            (result.weights, weights, zeroed[len(bottoms) :]),
        ):
            for name, value in zip(names, values, strict=True):
                store[name] = store[name] + value if name in store else value
    result.values.update({name: grads[name] for name in bottoms})
