"""A graph of one layer, with its first and second gradients, and ways to run it that let no mistake pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from prototorch import ops
from prototorch.backends.core import Backend
from prototorch.backends.registry import KernelFn
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
    """A layer as it was said into a graph."""

    trace: Trace
    inputs: list[Value]
    outputs: list[Value]
    grads: dict[str, Value] = field(default_factory=dict)
    second_grads: dict[str, Value] = field(default_factory=dict)
    loss: Value | None = None
    directional_derivative: Value | None = None

    @property
    def variables(self) -> dict[str, Value]:
        """What can be differentiated by: the floating-point inputs and the trained weights."""
        found = {v.name: v for v in self.inputs if v.spec.is_float}
        found.update({w.name: self.trace.graph.states[w.name] for w in self.trace.weights.values() if w.trainable})
        return found


def trace_layer(graph: Graph, layer: Layer, specs: Sequence[Spec], training: bool, float_dtype: str,
        mask: np.ndarray | None = None, low: str | None = None) -> TracedLayer:  # fmt: skip
    """Say a layer into a graph, on inputs x0, x1, ... of these specs, the first with a mask if there is one.

    low: a narrower type that values may be stored in; the outputs are float32 all the same.
    """
    traced = Trace(graph, training, float_dtype, compute_dtype=low)
    narrowing = None if low is None else Autocast(low)
    inputs = [graph.input(f"x{i}", spec) for i, spec in enumerate(specs)]
    ctx = LayerContext(traced, NAME, NAME, layer, layer)
    if mask is not None:
        ctx.set_mask(inputs[0], graph.input(MASK, Spec((specs[0].shape[0], *mask.shape[1:]), "bool")))
    with use_interpreter(graph), graph.scope(NAME):
        with graph.autocast(narrowing):
            made = record_layer(ctx, layer, tuple(inputs))
        outputs = [to_float32(y) for y in (made if isinstance(made, tuple) else (made,))]
    return TracedLayer(traced, inputs, outputs)


def differentiate(said: TracedLayer, directions: Mapping[str, np.ndarray], seed: int) -> None:
    """Add a scalar made of random shares of all outputs and losses, its gradients, and the gradients of their product
    with the directions."""
    graph, rng = said.trace.graph, np.random.default_rng(seed)
    names, values = list(said.variables), list(said.variables.values())
    with use_interpreter(graph):
        parts = [
            ops.sum(out * graph.constant(rng.standard_normal(out.shape).astype(out.dtype)))
            for out in said.outputs
            if out.spec.is_float
        ]
        parts += [loss * 0.7 for loss in said.trace.losses]
        said.loss = sum(parts[1:], parts[0])
        one = graph.constant(np.ones((), said.loss.dtype))
        first = backward_pass(list(graph.nodes), [(said.loss, one)], values)
        said.grads = {n: g for n, g in zip(names, first, strict=True) if g is not None}
        if not said.grads:
            return
        slopes = [ops.sum(g * graph.constant(directions[n])) for n, g in said.grads.items()]
        said.directional_derivative = sum(slopes[1:], slopes[0])
        second = backward_pass(list(graph.nodes), [(said.directional_derivative, one)], values)
        said.second_grads = {n: g for n, g in zip(names, second, strict=True) if g is not None}


class StrictBackend(Backend):
    """A backend for tests: new memory is full of NaN, and a plain body must give the shape and type its rule says."""

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
            made = op.reference(self.xp, *inputs, **attrs)
            for target, source in zip(outputs, made if isinstance(made, tuple) else (made,), strict=True):
                if tuple(source.shape) != tuple(target.shape) or source.dtype != target.dtype:
                    raise AssertionError(
                        f"{op.name}: the rule says {target.dtype}{list(target.shape)}, the body gives "
                        f"{source.dtype}{list(source.shape)}"
                    )
                target[...] = source

        return run


class CompiledLayer:
    """A said layer as a plan that is bound to weights: call it with the inputs, get copies of the outputs."""

    def __init__(
        self,
        said: TracedLayer,
        outputs: Mapping[str, Value],
        backend: Backend,
        weights: Mapping[str, np.ndarray],
        update: bool = False,
    ):
        graph = said.trace.graph
        plan = make_plan(graph, outputs, said.trace.updates if update else None, backend)
        self.states = Variables()
        for name, array in weights.items():
            self.states.create(name, array)
        self.backend, self.names = backend, list(plan.inputs)
        self.runner = make_executor(plan, backend, self.states)

    def __call__(self, inputs: Sequence[np.ndarray], mask: np.ndarray | None = None,
                 key: tuple[int, int] = (1, 2)) -> dict[str, np.ndarray]:  # fmt: skip
        given = {f"x{i}": x for i, x in enumerate(inputs)} | {RANDOM_KEY: np.array(key, np.uint64), MASK: mask}
        made = self.runner({n: given[n] for n in self.names})
        return {n: np.array(self.backend.to_numpy(a)) for n, a in made.items()}


def named_outputs(said: TracedLayer) -> dict[str, Value]:
    """The outputs by name."""
    return {f"y{i}": v for i, v in enumerate(said.outputs)}
