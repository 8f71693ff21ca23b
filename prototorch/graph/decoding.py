"""Decoding: a net that reads sequences, as a program that reads their next steps and keeps what it needs of the others.

`trace_decoding` records each layer by its `decode_steps` instead of its `record`. What a layer keeps (the keys and
values of attention, the states of recurrent layers) are states of the graph, whose new values are among its updates, so
that the cost of a step does not grow with the steps before it. The part of the net that the sequences do not reach is a
program of its own, `trace_memory`, whose values are kept as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from prototorch import ops
from prototorch.graph.ir import Graph, Value
from prototorch.graph.net import LayerNode, Net
from prototorch.graph.trace import LayerContext, Trace, pass_masks_on, record_layer, trace_node
from prototorch.layers.base import Layer
from prototorch.ops.lazy_array import LazyArray
from prototorch.spec import Spec

__all__ = ["POSITION", "STEP_COUNT", "trace_decoding", "trace_memory"]

KEPT_PREFIX = "kept:"  # of the names of the states that hold what is kept of a sequence
POSITION, STEP_COUNT = "position", "step_count"  # the inputs int32 [batch]: the steps before, the steps that are given


class DecodingLayerContext(LayerContext):
    """The `DecodingContext` of one layer; ``stream_input`` is the name of the graph's input with the sequences."""

    def __init__(self, context: LayerContext, stream_input: str, capacity: int):
        super().__init__(context.trace, context.name, context.weights_key, context.layer, context.root)
        self.root_key, self.node_name = context.root_key, context.node_name
        self.warnings, self.used_weights = context.warnings, context.used_weights
        self.layer_context, self.stream_input, self.capacity = context, stream_input, capacity
        inputs = self.trace.graph.inputs
        self.position, self._step_count = inputs[POSITION], inputs[STEP_COUNT]
        steps = inputs[stream_input].shape[1]
        self.given_steps = ops.less(_steps(steps), ops.expand_dims(self._step_count, 1))

    def sublayer(self, name: str, layer: Layer, *inputs: Value) -> Any:
        """See `Context.sublayer`."""
        inner = LayerContext(self.trace, f"{self.name}/{name}", f"{self.weights_key}/{name}", layer, self.root)
        inner.root_key, inner.node_name = self.root_key, self.node_name
        inner.warnings, inner.used_weights = self.warnings, self.used_weights
        return decode_layer(inner, layer, inputs, self.stream_input, self.capacity)

    def is_stream(self, value: Value) -> bool:
        """See `DecodingContext.is_stream`."""
        return _follows_from(value, self.trace.graph.inputs[self.stream_input])

    def append(self, name: str, value: Any) -> Any:
        """See `DecodingContext.append`."""
        batch, steps, *rest = value.shape
        before = self._state_value(name, Spec((batch, self.capacity, *rest), value.dtype))
        places = ops.subtract(_steps(self.capacity), ops.expand_dims(self.position, 1))  # [batch, capacity]
        is_new = ops.logical_and(ops.greater_equal(places, 0), ops.less(places, ops.expand_dims(self._step_count, 1)))
        new = value
        if steps > 1:
            rows = ops.clip(places, low=0, high=steps - 1) + LazyArray(
                (batch, 1), "int32", lambda: _range(batch)[:, None] * steps
            )
            new = ops.take(ops.reshape(value, shape=(batch * steps, *rest)), rows)
        is_new = ops.reshape(is_new, shape=(batch, self.capacity, *(1,) * len(rest)))
        return self._keep(name, ops.where(is_new, new, before))

    def with_earlier_steps(self, name: str, value: Any, count: int) -> Any:
        """See `DecodingContext.with_earlier_steps`."""
        if count == 0:
            return value
        batch, steps, *rest = value.shape
        earlier = self.state(name, ops.full(shape=(batch, count, *rest), value=0, dtype=value.dtype))
        steps_so_far = ops.concat(earlier, value, axis=1)
        first_rows = LazyArray((batch, 1), "int32", lambda: _range(batch)[:, None] * (count + steps))
        rows = ops.expand_dims(self._step_count, 1) + first_rows + _steps(count)
        self.set_state(name, ops.take(ops.reshape(steps_so_far, shape=(batch * (count + steps), *rest)), rows))
        return steps_so_far

    def visible_steps(self, steps: int) -> Any:
        """See `DecodingContext.visible_steps`."""
        last = ops.expand_dims(ops.expand_dims(self.position, 1) + _steps(steps), 2)  # [batch, steps, 1]
        visible = ops.less_equal(
            LazyArray((1, 1, self.capacity), "int32", lambda: _range(self.capacity)[None, None]), last
        )
        return ops.expand_dims(visible, 1)

    def state(self, name: str, first: Any) -> Any:
        """See `DecodingContext.state`."""
        before = self._state_value(name, first.spec)
        is_first = ops.reshape(ops.equal(self.position, 0), shape=(first.shape[0], *(1,) * (first.ndim - 1)))
        return ops.where(is_first, first, before)

    def set_state(self, name: str, value: Any) -> None:
        """See `DecodingContext.set_state`."""
        self._keep(name, value)

    def table_rows(self, table: Any) -> Any:
        """See `DecodingContext.table_rows`."""
        if table.shape[0] < self.capacity:
            self.fail(f"there are {self.capacity} steps, but vectors for {table.shape[0]}")
        steps = self.trace.graph.inputs[self.stream_input].shape[1]
        places = ops.expand_dims(self.position, 1) + _steps(steps)
        value = self.trace.graph.constant(table) if isinstance(table, LazyArray) else table
        return ops.take(value, ops.clip(places, low=0, high=self.capacity - 1))

    def _state_value(self, name: str, spec: Spec) -> Value:
        return self.trace.graph.state(f"{KEPT_PREFIX}{self.name}/{name}", spec)

    def _keep(self, name: str, value: Value) -> Value:
        self.trace.updates[f"{KEPT_PREFIX}{self.name}/{name}"] = value
        return value


def decode_layer(ctx: LayerContext, layer: Layer, inputs: tuple[Value, ...], stream_input: str, capacity: int) -> Any:
    """Record the ops of a layer at the next steps of the sequences. Raises ShapeError where it cannot be done."""
    sequences = ctx.trace.graph.inputs[stream_input]
    if not any(_follows_from(x, sequences) for x in inputs):
        return record_layer(ctx, layer, inputs)
    decoding_context = DecodingLayerContext(ctx, stream_input, capacity)
    result = layer.decode_steps(decoding_context, *inputs)
    pass_masks_on(decoding_context, layer, inputs, result if isinstance(result, tuple) else (result,))
    return result


def trace_decoding(
    net: Net,
    stream_input: str,
    memory: Trace,
    batch: int,
    steps: int,
    capacity: int,
    compute_dtype: str | None = None,
    float_dtype: str = "float32",
) -> Trace:
    """The program of the next ``steps`` steps of ``batch`` sequences of at most ``capacity`` steps, which the input
    ``stream_input`` [batch, steps] gives.

    Its inputs are that one, `POSITION` and `STEP_COUNT`; its values are those of the net at these steps. What it keeps
    are states with `KEPT_PREFIX`, their new values its updates. memory: the trace of `trace_memory`.

    Raises ShapeError where a layer needs more than the steps themselves and what it keeps of the earlier ones.
    """
    graph = Graph()
    result = Trace(graph, False, compute_dtype=compute_dtype, float_dtype=float_dtype)
    node = next(node for node in net.inputs if node.name == stream_input)
    result.values[stream_input] = graph.input(stream_input, Spec((batch, steps), node.dtype))
    graph.input(POSITION, Spec((batch,), "int32"))
    graph.input(STEP_COUNT, Spec((batch,), "int32"))
    for name in _memory_values(net, stream_input):
        value = memory.values[name]
        result.values[name] = graph.state(_memory_name(name), value.spec)
        if value in memory.masks:
            result.masks[result.values[name]] = graph.state(_memory_name(name, "mask"), memory.masks[value].spec)

    def record(ctx: LayerContext, layer: Layer, inputs: tuple[Value, ...]) -> Any:
        return decode_layer(ctx, layer, inputs, stream_input, capacity)

    for layer_node in _stream_nodes(net, stream_input):
        trace_node(result, layer_node, record)
    return result


def trace_memory(
    net: Net,
    stream_input: str,
    specs: Mapping[str, Spec],
    compute_dtype: str | None = None,
    float_dtype: str = "float32",
) -> Trace:
    """The program of what the sequences do not reach: its updates are the values, and the masks, that the layers of
    `trace_decoding` read of it. specs: those of the inputs."""
    result = Trace(Graph(), False, compute_dtype=compute_dtype, float_dtype=float_dtype)
    for name, spec in specs.items():
        result.values[name] = result.graph.input(name, spec)
    streamed = {node.name for node in _stream_nodes(net, stream_input)}
    for layer_node in net.nodes:
        if layer_node.name not in streamed:
            trace_node(result, layer_node)
    for name in _memory_values(net, stream_input):
        value = result.values[name]
        result.graph.state(_memory_name(name), value.spec)
        result.updates[_memory_name(name)] = value
        if value in result.masks:
            result.graph.state(_memory_name(name, "mask"), result.masks[value].spec)
            result.updates[_memory_name(name, "mask")] = result.masks[value]
    return result


def _memory_values(net: Net, stream_input: str) -> list[str]:
    """The values of a net that layers over the sequences read, and that do not follow from these."""
    nodes = _stream_nodes(net, stream_input)
    streams = {stream_input, *(top for node in nodes for top in node.tops)}
    return list(dict.fromkeys(name for node in nodes for name in node.bottoms if name not in streams))


def _stream_nodes(net: Net, stream_input: str) -> list[LayerNode]:
    streams, nodes = {stream_input}, []
    for node in net.nodes:
        if streams.intersection(node.bottoms):
            streams.update(node.tops)
            nodes.append(node)
    return nodes


def _memory_name(name: str, suffix: str = "value") -> str:
    return f"{KEPT_PREFIX}memory/{name}/{suffix}"


def _follows_from(value: Value, source: Value) -> bool:
    """Whether a value is computed from another one."""
    seen, pending = set(), [value]
    while pending:
        current = pending.pop()
        if current is source:
            return True
        if current not in seen and current.producer is not None:
            pending += current.producer.inputs
        seen.add(current)
    return False


def _range(count: int) -> np.ndarray:
    return np.arange(count, dtype=np.int32)


def _steps(count: int) -> LazyArray:
    """The numbers of steps, int32 [1, count]."""
    return LazyArray((1, count), "int32", lambda: _range(count)[None])
