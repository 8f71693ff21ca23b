"""The cause of a loss or gradient that is not finite: the failed step is run once more, op by op, up to the first bad
value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from prototorch.engine.backends.core import Backend
from prototorch.engine.backends.executable_plan import GUARD, LOSS, OVERFLOWED
from prototorch.graph.ir import Graph, Value
from prototorch.graph.net import LayerNode, Net
from prototorch.graph.trace import InputPreprocessing, Trace
from prototorch.ops.core import backward_pass, use_interpreter
from prototorch.spec import Spec
from prototorch.train.plan_cache import PlanCache
from prototorch.train.step_inputs import SAMPLE_WEIGHT_PREFIX, TARGET_PREFIX, TRAIN

__all__ = [
    "ADVICE",
    "Cause",
    "NonFiniteStepError",
    "find_cause",
    "make_sample_namer",
    "raise_if_not_finite",
    "run_op_by_op",
]

MAX_SAMPLES_SHOWN = 8
ADVICE = "Try a smaller learning rate or clipnorm, or look for odd values in the data"

ValueRange = tuple[float, float]  # the smallest and the largest finite element
SampleNamer = Callable[[Sequence[int]], str]  # rows of a batch -> their names


class NonFiniteStepError(Exception):
    """A training step whose loss is not finite, or the values that it would give to weights or to the optimizer's
    slots; nothing has been changed by it.

    loss: the loss where it is known, else NaN. states: the names of those weights and slots, where the loss is finite.
    steps_since: steps that were started after it.
    """

    steps_since = 0

    def __init__(self, loss: float, states: Sequence[str] = ()):
        super().__init__(loss)
        self.loss, self.states = loss, tuple(states)


class Cause(NamedTuple):
    """Why a step failed: a sentence, and whether its loss is finite, so that the backward pass or the update is at
    fault; ``gradients_are_finite``: the update."""

    text: str
    loss_is_finite: bool = False
    gradients_are_finite: bool = False


def raise_if_not_finite(outputs: Mapping[str, Any]) -> None:
    """Raise NonFiniteStepError where the loss is not finite, or what a step would make of weights and slots, by the
    outputs of the step."""
    guard = float(outputs.get(GUARD, 0.0))
    if not np.isfinite(guard):
        raise NonFiniteStepError(float(outputs.get(LOSS, guard)), outputs.get(OVERFLOWED, ()))


def find_cause(
    plan_cache: PlanCache,
    specs: Mapping[str, Spec],
    inputs: Mapping[str, Any],
    name_samples: SampleNamer,
    preprocessing: InputPreprocessing | None = None,
    phase: str = TRAIN,
) -> Cause:
    """The first value of a training step that is not finite.

    specs: of the net's inputs. inputs: all inputs of the step, the random key too, so that dropout drops the same
    elements. preprocessing: what the step makes its input with. phase: that of the step. The variables must be as they
    were before the step.
    """
    batch = next(iter(specs.values())).shape[0]
    for name, array in inputs.items():
        elements = np.asarray(array)
        if elements.dtype.kind == "f" and not np.isfinite(elements).all():
            return Cause(f"{_describe_input(name)} is not finite: {_describe_extent(elements, batch, name_samples)}")
    graph, net = Graph(), plan_cache.net
    net_trace = plan_cache.step_graphs.trace(specs, phase, graph, preprocessing)
    with use_interpreter(graph):
        losses = plan_cache.step_graphs.build_losses(graph, net_trace, phase=phase)
        gradients = _record_gradients(graph, net_trace, losses.total)
    layers: dict[Value, LayerNode] = {}
    for node in net.nodes:
        for top in node.tops:
            if top in net_trace.values:  # else this step does not run the layer
                layers.setdefault(net_trace.values[top], node)  # a layer may return its own input
    terms = {losses.per_sample[t.name]: t for t in plan_cache.loss_terms if t.name in losses.per_sample}
    ranges = {v: _value_range(np.asarray(inputs[name])) for name, v in graph.inputs.items()}
    failures: dict[Value, str] = {}
    for value, array in run_op_by_op(graph, plan_cache.backend, plan_cache.variables, inputs):
        if not value.spec.is_float:
            continue
        ranges[value] = _value_range(array)
        if np.isfinite(array).all():
            continue
        extent = failures[value] = _describe_extent(array, batch, name_samples)
        layer, term = layers.get(value), terms.get(value)
        if layer is not None:
            input_ranges = [ranges[net_trace.values[b]] for b in layer.bottoms]
            return Cause(_describe_layer(plan_cache, net_trace, layer, extent, input_ranges))
        if term is not None:
            target = losses.targets.get(term.output)
            targets = "" if target is None else f" with targets, {_describe_range([ranges[target]])}"
            return Cause(
                f"the outputs of all layers are finite, but the loss {term.name!r} ({type(term.loss).__name__}) is "
                f"not: {extent}; it compares {_describe_range([ranges[net_trace.values[term.output]]])}{targets}"
            )
        if value is losses.total:
            return Cause(
                "every layer's output and every loss is finite, but the penalties on weights, or the sum of all, "
                "are not"
            )
    text = _describe_gradients(net, gradients, failures, ranges)
    return Cause(text, loss_is_finite=True, gradients_are_finite=not any(g in failures for g in gradients.values()))


def _record_gradients(graph: Graph, net_trace: Trace, total: Value) -> dict[str, Value]:
    """The gradients of the trainable weights by name, recorded after the forward pass."""
    weights = [w.name for w in net_trace.weights.values() if w.trainable]
    with graph.phase("backward"):
        seeds = [(total, graph.constant(np.float32(1)))]
        gradients = backward_pass(
            list(graph.nodes), seeds, [graph.states[name] for name in weights], lambda node: graph.scope(node.scope)
        )
    return {name: g for name, g in zip(weights, gradients, strict=True) if g is not None}


def _describe_gradients(
    net: Net, gradients: Mapping[str, Value], failures: Mapping[Value, str], ranges: Mapping[Value, ValueRange]
) -> str:
    """The layer at which the backward pass first gives a value that is not finite, and the weights it reaches."""
    names = [name for name, g in gradients.items() if g in failures]
    if not names:
        return f"every gradient is finite; they are {_describe_range([ranges[g] for g in gradients.values()])}"
    origin = gradients[names[0]]
    while (bad := next((v for v in _inputs_of(origin) if v in failures), None)) is not None:
        origin = bad
    scope = origin.producer.scope if origin.producer is not None else ""
    layer = next((n for n in net.nodes if n.name == scope), None)
    where = f"layer {scope!r} ({type(layer.layer).__name__})" if layer is not None else scope or "the loss"
    operands = [ranges[v] for v in _inputs_of(origin) if v in ranges]
    reads = f"; it is computed from {_describe_range(operands)}" if operands else ""
    return (
        f"the derivative of {where} is the first that is not finite, from the loss backwards: {failures[origin]}"
        f"{reads}; it would have changed {', '.join(map(repr, names[:4]))}"
        f"{f' and {len(names) - 4} more weights' if len(names) > 4 else ''} to values that are not finite"
    )


def _inputs_of(value: Value) -> Sequence[Value]:
    return value.producer.inputs if value.producer is not None else ()


def run_op_by_op(
    graph: Graph, backend: Backend, states: Mapping[str, Any], inputs: Mapping[str, Any]
) -> Iterator[tuple[Value, np.ndarray]]:
    """Run a graph op by op; gives each value with its array, which is freed when no further op reads it."""
    reads = Counter(value for node in graph.nodes for value in node.inputs)
    arrays: dict[Value, Any] = {}

    def array_of(value: Value) -> Any:
        if value.kind == "node":
            return arrays[value]
        arrays_of_kind = {"state": states, "input": inputs}.get(value.kind)
        array = arrays_of_kind[value.name] if arrays_of_kind is not None else value.array
        return backend.asarray(array, value.dtype).reshape(value.shape)

    for node in graph.nodes:
        ins, outs = tuple(v.spec for v in node.inputs), tuple(v.spec for v in node.outputs)
        operands = tuple(array_of(v) for v in node.inputs)
        results = tuple(backend.empty(s) for s in outs)
        with backend.run_context():
            backend.prepare(node.op, ins, outs, node.attrs)(operands, results)
        for value, result in zip(node.outputs, results, strict=True):
            arrays[value] = result
            yield value, backend.to_numpy(result)
        for value in node.inputs:
            reads[value] -= 1
            if not reads[value]:
                arrays.pop(value, None)


def make_sample_namer(batch: int, indices: np.ndarray | None, origin: Callable[[int], str] | None) -> SampleNamer:
    """A function that names rows of a batch of ``batch`` samples.

    indices: the samples of the rows in the data set, None where they are not known; origin: names a sample of it.
    """

    def name_samples(rows: Sequence[int]) -> str:
        samples = [int(indices[r]) for r in rows] if indices is not None else list(rows)
        first = f" (the first is {origin(samples[0])})" if origin is not None and samples else ""
        if len(samples) == batch:
            return f"all {batch} samples{first}"
        names = ", ".join(map(str, samples[:MAX_SAMPLES_SHOWN]))
        if len(samples) > MAX_SAMPLES_SHOWN:
            names += f" and {len(samples) - MAX_SAMPLES_SHOWN} more"
        return f"{len(samples)} of {batch} samples: {names}{first}"

    return name_samples


def _describe_layer(
    plan_cache: PlanCache, net_trace: Trace, node: LayerNode, extent: str, input_ranges: Sequence[ValueRange]
) -> str:
    text = f"layer {node.name!r} ({type(node.layer).__name__}) is the first whose output is not finite: {extent}"
    to_numpy = plan_cache.backend.to_numpy
    weights = {
        name: np.asarray(to_numpy(plan_cache.variables[name]))
        for name in net_trace.weights
        if name.startswith(node.weights_key + "/")
    }
    for name, array in weights.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            count = int((~np.isfinite(array)).sum())
            return (
                f"{text}; its weight {name!r} was not finite before this step ({count:,} of {array.size:,} elements): "
                "a gradient of an earlier step was not, or the weights were set so"
            )
    ranges = [_value_range(array) for array in weights.values()]
    finite = f"; its weights are finite, {_describe_range(ranges)}" if ranges else ""
    return f"{text}; it reads {_describe_range(input_ranges)}{finite}"


def _value_range(array: np.ndarray) -> ValueRange:
    """The smallest and the largest of the finite elements; (inf, -inf) where there are none."""
    elements = array.astype(np.float64)
    elements = elements[np.isfinite(elements)]
    return float(elements.min(initial=np.inf)), float(elements.max(initial=-np.inf))


def _describe_range(ranges: Sequence[ValueRange]) -> str:
    low, high = min((r[0] for r in ranges), default=np.inf), max((r[1] for r in ranges), default=-np.inf)
    return f"values from {low:.3g} to {high:.3g}" if low <= high else "no finite values"


def _describe_input(name: str) -> str:
    if name.startswith(TARGET_PREFIX):
        return f"the target of output {name.removeprefix(TARGET_PREFIX)!r}"
    if name.startswith(SAMPLE_WEIGHT_PREFIX):
        return f"the sample weight of output {name.removeprefix(SAMPLE_WEIGHT_PREFIX)!r}"
    return f"the input {name!r}"


def _describe_extent(array: np.ndarray, batch: int, name_samples: SampleNamer) -> str:
    """The number of elements that are not finite, and the samples they belong to."""
    is_bad = ~np.isfinite(array)
    kinds = [kind for kind, test in (("nan", np.isnan), ("inf", np.isinf)) if test(array).any()]
    text = f"{int(is_bad.sum()):,} of {array.size:,} elements ({' and '.join(kinds)})"
    if array.ndim == 0 or array.shape[0] != batch:
        return text
    rows = np.flatnonzero(is_bad.reshape(batch, -1).any(axis=1)).tolist()
    return f"{text} in {name_samples(rows)}"
