"""Why a loss is not finite: after the failure the step is gone through once more, op by op, until something is not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from prototorch.backends.core import Backend
from prototorch.graph.ir import Graph, Value
from prototorch.graph.net import LayerNode
from prototorch.graph.trace import InputPreprocessing, Trace, trace
from prototorch.ops.core import use_interpreter
from prototorch.spec import Spec
from prototorch.train.plan_cache import PlanCache
from prototorch.train.step_inputs import SAMPLE_WEIGHT_PREFIX, TARGET_PREFIX

MAX_SAMPLES_SHOWN = 8  # samples named
ValueRange = tuple[float, float]  # the smallest and the largest number
ADVICE = "Try a smaller learning rate or clipnorm, or look for odd values in the data"


class NonFiniteLossError(Exception):
    """A loss that is not finite, before any weight has changed by it. ``late`` is how many steps were begun since."""

    steps_since = 0

    def __init__(self, loss: float):
        super().__init__(loss)
        self.loss = loss


def raise_if_not_finite(outputs: Mapping[str, Any]) -> None:
    """Raise NotFiniteError where the loss of a step is not finite."""
    loss = float(outputs["loss"])
    if not np.isfinite(loss):
        raise NonFiniteLossError(loss)


def find_cause(program: PlanCache, specs: Mapping[str, Spec], inputs: Mapping[str, Any],
          sample: Callable[[Sequence[int]], str], preparation: InputPreprocessing | None = None) -> str:  # fmt: skip
    """What was not finite first, in words.

    specs: of the net's inputs; inputs: all that the step was fed, its random key too, so that dropout drops the same.
    sample: names samples by their places in the batch. preparation: what the step
    itself makes its input with. The variables must be as they were before the step.
    """
    for name, array in inputs.items():
        fed = np.asarray(array)
        if fed.dtype.kind == "f" and not np.isfinite(fed).all():
            return f"{_describe_input(name)} is not finite: {_describe_extent(fed, _batch_size(specs), sample)}"
    graph = Graph()
    traced = trace(
        program.net, specs, True, graph, compute_dtype=program.backend.precision.low_dtype, preparation=preparation
    )
    with use_interpreter(graph):
        losses = program.steps.build_losses(graph, traced)
    makers: dict[int, LayerNode] = {}
    for node in program.net.nodes:
        for top in node.tops:
            makers.setdefault(id(traced.values[top]), node)  # a layer may give back what it reads
    terms = {id(losses.per_sample[t.name]): t for t in program.loss_terms}
    spans = {id(v): _value_range(np.asarray(inputs[name])) for name, v in graph.inputs.items()}
    for value, array in run_op_by_op(graph, program.backend, program.variables, inputs):
        if not value.spec.is_float:
            continue
        spans[id(value)] = _value_range(array)
        if np.isfinite(array).all():
            continue
        extent = _describe_extent(array, _batch_size(specs), sample)
        if id(value) in makers:
            found = makers[id(value)]
            return _describe_layer(program, traced, found, extent, [spans[id(traced.values[b])] for b in found.bottoms])
        if id(value) in terms:
            term = terms[id(value)]
            return (
                f"the outputs of all layers are finite, but the loss {term.name!r} ({type(term.loss).__name__}) is "
                f"not: {extent}; it compares {_describe_range([spans[id(traced.values[term.output])]])} with targets, "
                f"{_describe_range([spans[id(losses.targets[term.output])]])}"
            )
    return "every layer's output and every loss is finite, but the penalties on weights, or the sum of all, are not"


def run_op_by_op(graph: Graph, backend: Backend, states: Mapping[str, Any],
         inputs: Mapping[str, Any]) -> Iterator[tuple[Value, np.ndarray]]:  # fmt: skip
    """Run a graph op by op: each value with its array. An array is forgotten when no op is left that reads it."""
    readers: dict[int, int] = {}
    for node in graph.nodes:
        for value in node.inputs:
            readers[id(value)] = readers.get(id(value), 0) + 1
    arrays: dict[int, Any] = {}

    def array(value: Value) -> Any:
        if value.kind == "node":
            return arrays[id(value)]
        held = {"state": states, "input": inputs}.get(value.kind)
        raw = held[value.name] if held is not None else value.array
        return backend.asarray(raw, value.dtype).reshape(value.shape)

    for node in graph.nodes:
        read = [array(v) for v in node.inputs]
        outs = tuple(v.spec for v in node.outputs)
        made = tuple(backend.empty(s) for s in outs)
        with backend.run_context():
            backend.prepare(node.op, tuple(v.spec for v in node.inputs), outs, node.attrs)(tuple(read), made)
        for value, result in zip(node.outputs, made, strict=True):
            arrays[id(value)] = result
            yield value, backend.to_numpy(result)
        for value in node.inputs:
            readers[id(value)] -= 1
            if not readers[id(value)]:
                arrays.pop(id(value), None)


def _describe_layer(program: PlanCache, traced: Trace, node: LayerNode, extent: str,
           read: Sequence[ValueRange]) -> str:  # fmt: skip
    """A layer whose output is the first that is not finite."""
    text = f"layer {node.name!r} ({type(node.layer).__name__}) is the first whose output is not finite: {extent}"
    own = {n: np.asarray(program.backend.to_numpy(program.variables[n])) for n in traced.weights
           if n.startswith(node.weights_key + "/")}  # fmt: skip
    broken = [n for n, a in own.items() if a.dtype.kind == "f" and not np.isfinite(a).all()]
    if broken:
        count = int((~np.isfinite(own[broken[0]])).sum())
        return (
            f"{text}; its weight {broken[0]!r} was not finite before this step ({count:,} of {own[broken[0]].size:,} "
            "numbers): a gradient of an earlier step was not, or the weights were set so"
        )
    weights = f"; its weights are finite, {_describe_range([_value_range(a) for a in own.values()])}" if own else ""
    return f"{text}; it reads {_describe_range(read)}{weights}"


def _value_range(array: np.ndarray) -> ValueRange:
    """The smallest and the largest of the finite numbers in an array; (inf, -inf) where there are none."""
    wide = array.astype(np.float64)
    wide = wide[np.isfinite(wide)]
    return float(wide.min(initial=np.inf)), float(wide.max(initial=-np.inf))


def _describe_range(spans: Sequence[ValueRange]) -> str:
    low, high = min(s[0] for s in spans), max(s[1] for s in spans)
    return f"numbers from {low:.3g} to {high:.3g}" if low <= high else "no finite numbers"


def _describe_input(name: str) -> str:
    for prefix, what in (
        (TARGET_PREFIX, "the target of output"),
        (SAMPLE_WEIGHT_PREFIX, "the sample weight of output"),
    ):
        if name.startswith(prefix):
            return f"{what} {name.removeprefix(prefix)!r}"
    return f"the input {name!r}"


def _describe_extent(array: np.ndarray, batch: int, sample: Callable[[Sequence[int]], str]) -> str:
    """How much of an array is not finite, and in which samples."""
    bad = ~np.isfinite(array)
    kinds = [n for n, found in (("nan", np.isnan(array)), ("inf", np.isinf(array))) if found.any()]
    text = f"{int(bad.sum()):,} of {array.size:,} numbers ({' and '.join(kinds)})"
    if array.ndim == 0 or array.shape[0] != batch:
        return text
    rows = np.flatnonzero(bad.reshape(batch, -1).any(axis=1)).tolist()
    return f"{text} in {sample(rows)}"


def _batch_size(specs: Mapping[str, Spec]) -> int:
    return next(iter(specs.values())).shape[0]


def make_sample_namer(batch: int, indices: np.ndarray | None,
          origin: Callable[[int], str] | None) -> Callable[[Sequence[int]], str]:  # fmt: skip
    """A function that names samples of a batch: by their places in the data set where these are known."""

    def sample(rows: Sequence[int]) -> str:
        own = [int(indices[r]) for r in rows] if indices is not None else list(rows)
        first = f" (the first is {origin(own[0])})" if origin is not None and own else ""
        if len(own) == batch:
            return f"all {batch} samples{first}"
        shown = ", ".join(map(str, own[:MAX_SAMPLES_SHOWN])) + (
            f" and {len(own) - MAX_SAMPLES_SHOWN} more" if len(own) > MAX_SAMPLES_SHOWN else ""
        )
        return f"{len(own)} of {batch} samples: {shown}{first}"

    return sample
