"""The graph of one layer, with its first and second gradients, and strict ways to run it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from prototorch import ops
from prototorch.engine.backends.core import Backend
from prototorch.engine.backends.registry import KernelFn
from prototorch.graph.ir import Graph, Value
from prototorch.graph.mixed_precision import Autocast, to_float32
from prototorch.graph.plan import make_plan
from prototorch.graph.trace import RANDOM_KEY, LayerContext, Trace, record_layer
from prototorch.layers.base import Layer
from prototorch.ops.core import Op, backward_pass, use_interpreter
from prototorch.runtime.executor import make_executor
from prototorch.runtime.variables import Variables
from prototorch.spec import Spec

NAME, MASK = "layer", "mask"


@dataclass
class TracedLayer:
    """A layer recorded into a graph, with its inputs, outputs and gradients."""

    trace: Trace
    inputs: list[Value]
    outputs: list[Value]
    grads: dict[str, Value] = field(default_factory=dict)
    second_grads: dict[str, Value] = field(default_factory=dict)
    loss: Value | None = None
    directional_derivative: Value | None = None

    @property
    def variables(self) -> dict[str, Value]:
        """The variables of differentiation: the floating-point inputs and the trainable weights."""
        variables = {v.name: v for v in self.inputs if v.spec.is_float}
        variables.update({w.name: self.trace.graph.states[w.name] for w in self.trace.weights.values() if w.trainable})
        return variables


def trace_layer(
    graph: Graph,
    layer: Layer,
    specs: Sequence[Spec],
    training: bool,
    float_dtype: str,
    mask: np.ndarray | None = None,
    low: str | None = None,
) -> TracedLayer:
    """Record a layer into a graph, on inputs x0, x1, ... of these specs, the first with a mask if there is one.

    low: a narrower dtype in which values may be stored; the outputs are float32 in any case.
    """
    traced = Trace(graph, training, float_dtype, compute_dtype=low)
    narrowing = None if low is None else Autocast(low)
    inputs = [graph.input(f"x{i}", spec) for i, spec in enumerate(specs)]
    ctx = LayerContext(traced, NAME, NAME, layer, layer)
    if mask is not None:
        ctx.set_mask(inputs[0], graph.input(MASK, Spec((specs[0].shape[0], *mask.shape[1:]), "bool")))
    with use_interpreter(graph), graph.scope(NAME):
        with graph.autocast(narrowing):
            results = record_layer(ctx, layer, tuple(inputs))
        outputs = [to_float32(y) for y in (results if isinstance(results, tuple) else (results,))]
    return TracedLayer(traced, inputs, outputs)


def differentiate(traced_layer: TracedLayer, directions: Mapping[str, np.ndarray], seed: int) -> None:
    """Add a scalar, the sum of all outputs and losses with random factors, its gradients, and the gradients of their
    product with the directions."""
    graph, rng = traced_layer.trace.graph, np.random.default_rng(seed)
    names, values = list(traced_layer.variables), list(traced_layer.variables.values())
    with use_interpreter(graph):
        parts = [
            ops.sum(out * graph.constant(rng.standard_normal(out.shape).astype(out.dtype)))
            for out in traced_layer.outputs
            if out.spec.is_float
        ]
        parts += [loss * 0.7 for loss in traced_layer.trace.losses]
        traced_layer.loss = sum(parts[1:], parts[0])
        one = graph.constant(np.ones((), traced_layer.loss.dtype))
        first = backward_pass(list(graph.nodes), [(traced_layer.loss, one)], values)
        traced_layer.grads = {n: g for n, g in zip(names, first, strict=True) if g is not None}
        if not traced_layer.grads:
            return
        derivatives = [ops.sum(g * graph.constant(directions[n])) for n, g in traced_layer.grads.items()]
        traced_layer.directional_derivative = sum(derivatives[1:], derivatives[0])
        second = backward_pass(list(graph.nodes), [(traced_layer.directional_derivative, one)], values)
        traced_layer.second_grads = {n: g for n, g in zip(names, second, strict=True) if g is not None}


class StrictBackend(Backend):
    """A backend for tests: new memory is full of NaN, and the results of reference implementations must have the shape
    and dtype of `infer_spec`."""

    def __init__(self, inner: Backend):
        super().__init__(f"strict {inner.name}", inner.xp, inner.levels, inner.threads)
        self.backend = inner

    def empty(self, spec: Spec) -> Any:
        array = self.backend.empty(spec)
        array.reshape(-1).view("uint8")[...] = 0xFF
        return array

    def allocate(self, count: int) -> Any:
        array = self.backend.allocate(count)
        array[...] = 0xFF
        return array

    def asarray(self, array: Any, dtype: str | None = None) -> Any:
        return self.backend.asarray(array, dtype)

    def to_numpy(self, array: Any) -> Any:
        return self.backend.to_numpy(array)

    def reference(self, op: Op, attrs: Mapping[str, Any]) -> KernelFn:
        attrs = dict(attrs)

        def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
            results = op.reference(self.xp, *inputs, **attrs)
            results = results if isinstance(results, tuple) else (results,)
            for target, source in zip(outputs, results, strict=True):
                if tuple(source.shape) != tuple(target.shape) or source.dtype != target.dtype:
                    raise AssertionError(
                        f"{op.name}: infer_spec gives {target.dtype}{list(target.shape)}, the reference implementation "
                        f"{source.dtype}{list(source.shape)}"
                    )
                target[...] = source

        return run


class CompiledLayer:
    """A traced layer as a plan bound to weights: called with the inputs, it returns copies of the outputs."""

    def __init__(
        self,
        traced_layer: TracedLayer,
        outputs: Mapping[str, Value],
        backend: Backend,
        weights: Mapping[str, np.ndarray],
        update: bool = False,
    ):
        graph = traced_layer.trace.graph
        plan = make_plan(graph, outputs, traced_layer.trace.updates if update else None, backend)
        self.states = Variables()
        for name, array in weights.items():
            self.states.create(name, array)
        self.backend, self.names = backend, list(plan.inputs)
        self.runner = make_executor(plan, backend, self.states)

    def __call__(
        self, inputs: Sequence[np.ndarray], mask: np.ndarray | None = None, key: tuple[int, int] = (1, 2)
    ) -> dict[str, np.ndarray]:
        feeds = {f"x{i}": x for i, x in enumerate(inputs)} | {RANDOM_KEY: np.array(key, np.uint64), MASK: mask}
        results = self.runner({n: feeds[n] for n in self.names})
        return {n: np.array(self.backend.to_numpy(a)) for n, a in results.items()}


def named_outputs(traced_layer: TracedLayer) -> dict[str, Value]:
    """The outputs by the names y0, y1, ..."""
    return {f"y{i}": v for i, v in enumerate(traced_layer.outputs)}
