"""A graph of one layer, with its first and second gradients, and ways to run it that let no mistake pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from prototorch import ops
from prototorch.backends.core import Backend, Runner
from prototorch.engine.captured import bound
from prototorch.engine.variables import Variables
from prototorch.graph.plan import make_plan
from prototorch.graph.precision import Narrowing, widened
from prototorch.graph.record import Graph, Value
from prototorch.graph.trace import KEY, LayerContext, Trace, said
from prototorch.layers.base import Layer
from prototorch.ops.core import Op, interpreting, pull_back
from prototorch.spec import Spec

NAME, MASK = "layer", "mask"


@dataclass
class Said:
    """A layer as it was said into a graph."""

    trace: Trace
    inputs: list[Value]
    outputs: list[Value]
    grads: dict[str, Value] = field(default_factory=dict)
    seconds: dict[str, Value] = field(default_factory=dict)
    loss: Value | None = None
    slope: Value | None = None

    @property
    def variables(self) -> dict[str, Value]:
        """What can be differentiated by: the floating-point inputs and the trained weights."""
        found = {v.name: v for v in self.inputs if v.spec.is_float}
        found.update({w.name: self.trace.graph.states[w.name] for w in self.trace.weights.values() if w.trainable})
        return found


def say(graph: Graph, layer: Layer, specs: Sequence[Spec], training: bool, float_dtype: str,
        mask: np.ndarray | None = None, low: str | None = None) -> Said:  # fmt: skip
    """Say a layer into a graph, on inputs x0, x1, ... of these specs, the first with a mask if there is one.

    low: a narrower type that values may be stored in; the outputs are float32 all the same.
    """
    traced = Trace(graph, training, float_dtype, low=low)
    narrowing = None if low is None else Narrowing(low)
    inputs = [graph.input(f"x{i}", spec) for i, spec in enumerate(specs)]
    ctx = LayerContext(traced, NAME, NAME, layer, layer)
    if mask is not None:
        ctx.set_mask(inputs[0], graph.input(MASK, Spec((specs[0].shape[0], *mask.shape[1:]), "bool")))
    with interpreting(graph), graph.scope(NAME):
        with graph.narrowed(narrowing):
            made = said(ctx, layer, tuple(inputs))
        outputs = [widened(y) for y in (made if isinstance(made, tuple) else (made,))]
    return Said(traced, inputs, outputs)


def differentiate(said: Said, directions: Mapping[str, np.ndarray], seed: int) -> None:
    """Add a scalar made of random shares of all outputs and losses, its gradients, and the gradients of their product
    with the directions."""
    graph, rng = said.trace.graph, np.random.default_rng(seed)
    names, values = list(said.variables), list(said.variables.values())
    with interpreting(graph):
        parts = [
            ops.sum_(out * graph.constant(rng.standard_normal(out.shape).astype(out.dtype)))
            for out in said.outputs
            if out.spec.is_float
        ]
        parts += [loss * 0.7 for loss in said.trace.losses]
        said.loss = sum(parts[1:], parts[0])
        one = graph.constant(np.ones((), said.loss.dtype))
        first = pull_back(list(graph.nodes), [(said.loss, one)], values)
        said.grads = {n: g for n, g in zip(names, first, strict=True) if g is not None}
        if not said.grads:
            return
        slopes = [ops.sum_(g * graph.constant(directions[n])) for n, g in said.grads.items()]
        said.slope = sum(slopes[1:], slopes[0])
        second = pull_back(list(graph.nodes), [(said.slope, one)], values)
        said.seconds = {n: g for n, g in zip(names, second, strict=True) if g is not None}


class Strict(Backend):
    """A backend for tests: new memory is full of NaN, and a plain body must give the shape and type its rule says."""

    def __init__(self, inner: Backend):
        super().__init__(f"strict {inner.name}", inner.xp, inner.levels, inner.threads)
        self.inner = inner

    def empty(self, spec: Spec) -> Any:
        array = self.inner.empty(spec)
        array.reshape(-1).view("uint8")[...] = 0xFF
        return array

    def bytes(self, count: int) -> Any:
        array = self.inner.bytes(count)
        array[...] = 0xFF
        return array

    def asarray(self, array: Any, dtype: str | None = None) -> Any:
        return self.inner.asarray(array, dtype)

    def to_numpy(self, array: Any) -> Any:
        return self.inner.to_numpy(array)

    def plain(self, op: Op, attrs: Mapping[str, Any]) -> Runner:
        attrs = dict(attrs)

        def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
            made = op.plain(self.xp, *inputs, **attrs)
            for target, source in zip(outputs, made if isinstance(made, tuple) else (made,), strict=True):
                if tuple(source.shape) != tuple(target.shape) or source.dtype != target.dtype:
                    raise AssertionError(
                        f"{op.name}: the rule says {target.dtype}{list(target.shape)}, the body gives "
                        f"{source.dtype}{list(source.shape)}"
                    )
                target[...] = source

        return run


class Program:
    """A said layer as a plan that is bound to weights: call it with the inputs, get copies of the outputs."""

    def __init__(self, said: Said, outputs: Mapping[str, Value], backend: Backend, weights: Mapping[str, np.ndarray],
                 update: bool = False):  # fmt: skip
        graph = said.trace.graph
        plan = make_plan(graph, outputs, said.trace.updates if update else None, backend)
        self.states = Variables()
        for name, array in weights.items():
            self.states.create(name, array)
        self.backend, self.names = backend, list(plan.inputs)
        self.runner = bound(plan, backend, self.states)

    def __call__(self, inputs: Sequence[np.ndarray], mask: np.ndarray | None = None,
                 key: tuple[int, int] = (1, 2)) -> dict[str, np.ndarray]:  # fmt: skip
        given = {f"x{i}": x for i, x in enumerate(inputs)} | {KEY: np.array(key, np.uint64), MASK: mask}
        made = self.runner({n: given[n] for n in self.names})
        return {n: np.array(self.backend.to_numpy(a)) for n, a in made.items()}


def outputs_of(said: Said) -> dict[str, Value]:
    """The outputs by name."""
    return {f"y{i}": v for i, v in enumerate(said.outputs)}
