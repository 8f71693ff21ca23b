"""The model's own preparation of its input: `preprocess` and `augment` layers, run in the loader's threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from prototorch import ops
from prototorch.backends.core import Backend
from prototorch.backends.executor import Executor
from prototorch.errors import ModelError, ShapeError
from prototorch.graph.ir import Graph, Node, Value
from prototorch.graph.net import Net
from prototorch.graph.plan import make_plan
from prototorch.graph.trace import RANDOM_KEY, LayerContext, Trace, record_layer
from prototorch.layers.base import Layer
from prototorch.ops.core import use_interpreter
from prototorch.runtime.executor import make_executor
from prototorch.runtime.variables import Variables, initial_value
from prototorch.spec import Spec

AUGMENT_KEY = "augment_key"  # the input uint64[2] of a plan that prepares for itself
AUGMENT_COST = 16  # random numbers, and pixels read at computed places, cost so many times the bytes that are written


class Preprocessor:
    """Turns a raw column (uint8 pictures, say) into what the net's input wants. Safe to call from several threads."""

    def __init__(self, net: Net, backend: Backend):
        self.net, self.backend = net, backend
        self.name = net.inputs[0].name if net.inputs else ""
        self._idle_executors: dict[tuple[Spec, bool], list[Executor]] = {}  # runners that no thread is using

    @property
    def has_layers(self) -> bool:
        """Whether the model has layers of this kind."""
        return bool(self.net.preprocess or self.net.augment)

    def __call__(self, array: np.ndarray, training: bool, key: Callable[[], int] = int) -> np.ndarray:
        """A batch prepared. What ``key`` gives decides what augmentation draws; without such it is not called."""
        if not self.has_layers or not len(array):
            return array
        spec = Spec(tuple(array.shape), str(array.dtype))
        free = self._idle_executors.setdefault((spec, training), [])
        try:
            runner = free.pop()
        except IndexError:  # all are in use by other threads
            runner = self._make_executor(spec, training)
        try:
            inputs = {"raw": array}
            if RANDOM_KEY in runner.plan.inputs:
                inputs[RANDOM_KEY] = np.array([key(), 0], np.uint64)
            return np.array(runner(inputs)["out"])
        finally:
            free.append(runner)

    def prepare(self, raw: Spec, training: bool) -> None:
        """Plan and compile now what a column of this spec (batch dimension included) needs."""
        free = self._idle_executors.setdefault((raw, training), [])
        if not free:
            free.append(self._make_executor(raw, training))

    def output_spec(self, raw: Spec) -> Spec:
        """What comes out for a raw column of this spec (batch dimension included)."""
        return self._graph(raw, False)[1].spec

    def bytes_moved(self, raw: Spec, training: bool) -> int:
        """About how many bytes preparing a column of this spec (batch dimension included) moves."""
        trace, _ = self._graph(raw, training)
        written = sum(value.spec.nbytes for node in trace.graph.nodes for value in node.outputs)
        return written * AUGMENT_COST if training and self.net.augment else written

    def record(self, trace: Trace, value: Value) -> Value:
        """The layers said into a net's own graph, where a device prepares its inputs itself; see `InGraph`. What they
        draw follows from the plan's input `AUGMENT_KEY`, and is what they would draw in the loader's threads."""
        own = Trace(trace.graph, trace.training, key_name=AUGMENT_KEY)
        with use_interpreter(trace.graph), trace.graph.scope("preprocess"):
            return self._record_layers(own, value, trace.training)

    def is_supported(self, backend: Backend, raw: Spec, training: bool) -> bool:
        """Whether a backend has kernels for all of it, so that it may be part of a step there."""
        trace, _ = self._graph(raw, training)
        if trace.weights:
            return False

        def kernel(node: Node) -> bool:
            ins, outs = tuple(v.spec for v in node.inputs), tuple(v.spec for v in node.outputs)
            return node.op.is_view or backend.has_kernel(node.op, ins, outs, node.attrs)

        return all(map(kernel, trace.graph.nodes))

    def _make_executor(self, spec: Spec, training: bool) -> Executor:
        trace, out = self._graph(spec, training)
        variables = Variables()
        for weight in trace.weights.values():
            variables.create(weight.name, initial_value(weight, 0), own=True)
        return make_executor(make_plan(trace.graph, {"out": out}, backend=self.backend), self.backend, variables)

    def _graph(self, spec: Spec, training: bool) -> tuple[Trace, Value]:
        trace = Trace(Graph(), training)
        value = trace.graph.input("raw", spec)
        with use_interpreter(trace.graph):
            value = self._record_layers(trace, value, training)
            if value.kind != "node":
                value = ops.stop_gradient(value)
        return trace, value

    def _record_layers(self, trace: Trace, value: Value, training: bool) -> Value:
        if not value.spec.is_float:
            value = ops.cast(value, dtype="float32")
        value = self._record_chain(trace, value, self.net.preprocess, "preprocess")
        if not training:
            return value
        made = self._record_chain(trace, value, self.net.augment, "augment")
        if made.shape != value.shape:
            raise ShapeError(
                f"augment makes samples of shape {list(made.shape[1:])} of {list(value.shape[1:])}, but the net gets "
                "the same shape outside training, where augment does not run; a layer that changes the shape belongs "
                "into preprocess (RandomCrop resizes outside training), or the shape is to be changed before: "
                "ZeroPadding2D, then RandomCrop"
            )
        return made

    def _record_chain(self, trace: Trace, value: Value, layers: Sequence[Layer], where: str) -> Value:
        for i, layer in enumerate(layers):
            name = layer.name or f"{where}_{i + 1}"
            before: Any = list(value.shape[1:])
            try:
                value = record_layer(LayerContext(trace, name, name, layer, layer), layer, (value,))
            except ModelError as exc:
                raise ShapeError(f"{where} layer {name!r} ({type(layer).__name__}): {exc}; it reads {before}") from exc
        return value
