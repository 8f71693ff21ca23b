"""Why a loss is not finite: after the failure the step is gone through once more, op by op, until something is not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from prototorch.backends.core import Backend
from prototorch.graph.net import LayerNode
from prototorch.graph.record import Graph, Value
from prototorch.graph.trace import InGraph, Trace, trace
from prototorch.ops.core import interpreting
from prototorch.spec import Spec
from prototorch.train.program import TARGET, WEIGHT, Program

SHOWN = 8  # samples named
Span = tuple[float, float]  # the smallest and the largest number
ADVICE = "Try a smaller learning rate or clipnorm, or look for odd values in the data"


class NotFiniteError(Exception):
    """A loss that is not finite, before any weight has changed by it. ``late`` is how many steps were begun since."""

    late = 0

    def __init__(self, loss: float):
        super().__init__(loss)
        self.loss = loss


def guard(outputs: Mapping[str, Any]) -> None:
    """Raise NotFiniteError where the loss of a step is not finite."""
    loss = float(outputs["loss"])
    if not np.isfinite(loss):
        raise NotFiniteError(loss)


def cause(program: Program, specs: Mapping[str, Spec], inputs: Mapping[str, Any],
          sample: Callable[[Sequence[int]], str], preparation: InGraph | None = None) -> str:  # fmt: skip
    """What was not finite first, in words.

    specs: of the net's inputs; inputs: all that the step was fed, its random key too, so that dropout drops the same.
    sample: names samples by their places in the batch. preparation: what the step
    itself makes its input with. The variables must be as they were before the step.
    """
    for name, array in inputs.items():
        fed = np.asarray(array)
        if fed.dtype.kind == "f" and not np.isfinite(fed).all():
            return f"{_fed(name)} is not finite: {_extent(fed, _batch(specs), sample)}"
    graph = Graph()
    traced = trace(program.net, specs, True, graph, low=program.backend.precision.low, preparation=preparation)
    with interpreting(graph):
        losses = program.losses(graph, traced)
    makers: dict[int, LayerNode] = {}
    for node in program.net.nodes:
        for top in node.tops:
            makers.setdefault(id(traced.values[top]), node)  # a layer may give back what it reads
    terms = {id(losses.each[t.name]): t for t in program.terms}
    spans = {id(v): _span(np.asarray(inputs[name])) for name, v in graph.inputs.items()}
    for value, array in walk(graph, program.backend, program.variables, inputs):
        if not value.spec.is_float:
            continue
        spans[id(value)] = _span(array)
        if np.isfinite(array).all():
            continue
        extent = _extent(array, _batch(specs), sample)
        if id(value) in makers:
            found = makers[id(value)]
            return _layer(program, traced, found, extent, [spans[id(traced.values[b])] for b in found.bottoms])
        if id(value) in terms:
            term = terms[id(value)]
            return (
                f"the outputs of all layers are finite, but the loss {term.name!r} ({type(term.loss).__name__}) is "
                f"not: {extent}; it compares {_numbers([spans[id(traced.values[term.output])]])} with targets, "
                f"{_numbers([spans[id(losses.targets[term.output])]])}"
            )
    return "every layer's output and every loss is finite, but the penalties on weights, or the sum of all, are not"


def walk(graph: Graph, backend: Backend, states: Mapping[str, Any],
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
        with backend.running():
            backend.prepare(node.op, tuple(v.spec for v in node.inputs), outs, node.attrs)(tuple(read), made)
        for value, result in zip(node.outputs, made, strict=True):
            arrays[id(value)] = result
            yield value, backend.to_numpy(result)
        for value in node.inputs:
            readers[id(value)] -= 1
            if not readers[id(value)]:
                arrays.pop(id(value), None)


def _layer(program: Program, traced: Trace, node: LayerNode, extent: str,
           read: Sequence[Span]) -> str:  # fmt: skip
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
    weights = f"; its weights are finite, {_numbers([_span(a) for a in own.values()])}" if own else ""
    return f"{text}; it reads {_numbers(read)}{weights}"


def _span(array: np.ndarray) -> Span:
    """The smallest and the largest of the finite numbers in an array; (inf, -inf) where there are none."""
    wide = array.astype(np.float64)
    wide = wide[np.isfinite(wide)]
    return float(wide.min(initial=np.inf)), float(wide.max(initial=-np.inf))


def _numbers(spans: Sequence[Span]) -> str:
    low, high = min(s[0] for s in spans), max(s[1] for s in spans)
    return f"numbers from {low:.3g} to {high:.3g}" if low <= high else "no finite numbers"


def _fed(name: str) -> str:
    for prefix, what in ((TARGET, "the target of output"), (WEIGHT, "the sample weight of output")):
        if name.startswith(prefix):
            return f"{what} {name.removeprefix(prefix)!r}"
    return f"the input {name!r}"


def _extent(array: np.ndarray, batch: int, sample: Callable[[Sequence[int]], str]) -> str:
    """How much of an array is not finite, and in which samples."""
    bad = ~np.isfinite(array)
    kinds = [n for n, found in (("nan", np.isnan(array)), ("inf", np.isinf(array))) if found.any()]
    text = f"{int(bad.sum()):,} of {array.size:,} numbers ({' and '.join(kinds)})"
    if array.ndim == 0 or array.shape[0] != batch:
        return text
    rows = np.flatnonzero(bad.reshape(batch, -1).any(axis=1)).tolist()
    return f"{text} in {sample(rows)}"


def _batch(specs: Mapping[str, Spec]) -> int:
    return next(iter(specs.values())).shape[0]


def named(batch: int, indices: np.ndarray | None,
          origin: Callable[[int], str] | None) -> Callable[[Sequence[int]], str]:  # fmt: skip
    """A function that names samples of a batch: by their places in the data set where these are known."""

    def sample(rows: Sequence[int]) -> str:
        own = [int(indices[r]) for r in rows] if indices is not None else list(rows)
        first = f" (the first is {origin(own[0])})" if origin is not None and own else ""
        if len(own) == batch:
            return f"all {batch} samples{first}"
        shown = ", ".join(map(str, own[:SHOWN])) + (f" and {len(own) - SHOWN} more" if len(own) > SHOWN else "")
        return f"{len(own)} of {batch} samples: {shown}{first}"

    return sample
