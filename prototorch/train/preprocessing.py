"""Preprocessing and augmentation: the layers that a model applies to its input before the net.

They run in the loader's threads, or on a device as a part of the step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from prototorch import ops
from prototorch.engine.backends.core import Backend
from prototorch.engine.backends.executor import Executor
from prototorch.errors import ModelError, ShapeError
from prototorch.graph.ir import Graph, Node, Value
from prototorch.graph.net import Net
from prototorch.graph.plan import make_plan
from prototorch.graph.trace import RANDOM_KEY, LayerContext, Trace, record_layer
from prototorch.layers.adapted_layer import AdaptedLayer, refuse_unadapted
from prototorch.layers.base import Layer
from prototorch.layers.tokenizer import Tokenizer
from prototorch.ops.core import use_interpreter
from prototorch.runtime.executor import make_executor
from prototorch.runtime.variables import Variables, initial_value
from prototorch.schema.block_source import find_span
from prototorch.spec import Spec
from prototorch.text.diagnostics import located

__all__ = ["AUGMENT_KEY", "Preprocessor"]

AUGMENT_KEY = "augment_key"  # the input uint64[2] of a plan that does the preprocessing itself
AUGMENT_COST = 16  # random numbers and gathered pixels cost about this many times the bytes that are written


class Preprocessor:
    """Applies the layers to a column of the data, such as uint8 images. Several threads may call it at once."""

    def __init__(self, net: Net, backend: Backend):
        self.net, self.backend = net, backend
        #: the layers of ``preprocess`` that compute; a tokenizer has made ids of the data before
        self.layers = tuple(layer for layer in net.preprocess if not isinstance(layer, Tokenizer))
        self.name = net.inputs[0].name if net.inputs else ""
        self._idle_executors: dict[tuple[Any, bool], list[Executor]] = {}  # used by no thread

    @property
    def has_layers(self) -> bool:
        """Whether the model has `preprocess` or `augment` layers."""
        return bool(self.layers or self.net.augment)

    def __call__(self, array: np.ndarray, training: bool, key: Callable[[], int] = int) -> np.ndarray:
        """A batch [n, ...], preprocessed, and augmented if ``training``.

        key: gives the random key of the augmentation; it is called only where there are random ops.
        """
        if not self.has_layers or not len(array):
            return array
        spec = Spec(tuple(array.shape), str(array.dtype))
        idle = self._idle_executors.setdefault((self._key(spec), training), [])
        try:
            executor = idle.pop()
        except IndexError:  # all are used by other threads
            executor = self._make_executor(spec, training)
        try:
            inputs = {"raw": array}
            if RANDOM_KEY in executor.plan.inputs:
                inputs[RANDOM_KEY] = np.array([key(), 0], np.uint64)
            return np.array(executor(inputs)["out"])
        finally:
            idle.append(executor)

    def prepare(self, raw: Spec, training: bool) -> None:
        """Plan and compile now, for a column of this spec (batch dimension included)."""
        idle = self._idle_executors.setdefault((self._key(raw), training), [])
        if not idle:
            idle.append(self._make_executor(raw, training))

    def _key(self, raw: Spec) -> Any:
        """The key of an executor: the spec, and the constants that layers have learned."""
        adapted = [layer for layer in self.layers if isinstance(layer, AdaptedLayer)]
        return (raw, *(layer.revision for layer in adapted)) if adapted else raw

    def output_spec(self, raw: Spec) -> Spec:
        """The spec of the result for a column of this spec (batch dimension included)."""
        return self._graph(raw, False)[1].spec

    def bytes_moved(self, raw: Spec, training: bool) -> int:
        """An estimate of the bytes that a column of this spec (batch dimension included) costs."""
        trace, _ = self._graph(raw, training)
        nbytes = sum(value.spec.nbytes for node in trace.graph.nodes for value in node.outputs)
        return nbytes * AUGMENT_COST if training and self.net.augment else nbytes

    def record(self, trace: Trace, value: Value) -> Value:
        """Record the layers in the graph of a net, for a device that does the preprocessing as part of the step, and a
        cast to the element type of the input, which arrays that are fed get as well.

        Random ops read the plan's input `AUGMENT_KEY`, and draw what they would draw in the loader's threads.
        """
        preprocess_trace = Trace(trace.graph, trace.training, key_name=AUGMENT_KEY)
        with use_interpreter(trace.graph), trace.graph.scope("preprocess"):
            value, dtype = self._record_layers(preprocess_trace, value, trace.training), self.net.inputs[0].dtype
            return value if value.dtype == dtype else ops.cast(value, dtype=dtype)

    def is_supported(self, backend: Backend, raw: Spec, training: bool) -> bool:
        """Whether a backend has kernels for all ops, so that the layers may be part of a step there."""
        trace, _ = self._graph(raw, training)
        if trace.weights:
            return False

        def has_kernel(node: Node) -> bool:
            ins, outs = tuple(v.spec for v in node.inputs), tuple(v.spec for v in node.outputs)
            return node.op.is_view or backend.has_kernel(node.op, ins, outs, node.attrs)

        return all(map(has_kernel, trace.graph.nodes))

    def _make_executor(self, spec: Spec, training: bool) -> Executor:
        refuse_unadapted(self.layers)
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
        value = self._record_chain(trace, value, self.layers, "preprocess")
        if not training:
            return value
        augmented_sample = self._record_chain(trace, value, self.net.augment, "augment")
        if augmented_sample.shape != value.shape:
            with located(find_span(self.net.augment[-1])):
                raise ShapeError(
                    f"augment changes the shape of samples from {list(value.shape[1:])} to "
                    f"{list(augmented_sample.shape[1:])}, but outside training, where augment does not run, the net "
                    "gets the former; Resizing and CenterCrop belong into preprocess; to crop at random, enlarge "
                    "samples first, and crop them to the former: augment { ZeroPadding2D { padding: 4 }  "
                    f"RandomCrop {_crop_fields(value)} }}"
                )
        return augmented_sample

    def _record_chain(self, trace: Trace, value: Value, layers: Sequence[Layer], where: str) -> Value:
        for i, layer in enumerate(layers):
            name = layer.name or f"{where}_{i + 1}"
            with located(find_span(layer)):
                value = self._record_layer(trace, value, layer, name, where)
        return value

    def _record_layer(self, trace: Trace, value: Value, layer: Layer, name: str, where: str) -> Value:
        try:
            count = len(trace.weights)
            output = record_layer(LayerContext(trace, name, name, layer, layer), layer, (value,))
            if isinstance(output, tuple):
                raise ShapeError(f"it has {len(output)} outputs, and one is needed here")
            if len(trace.weights) > count:
                raise ShapeError("it has weights, which are neither trained nor saved here; it belongs into the net")
        except ModelError as exc:
            raise ShapeError(
                f"{where} layer {name!r} ({type(layer).__name__}): {exc}; it reads {list(value.shape[1:])}"
            ) from exc
        return output


def _crop_fields(image: Value) -> str:
    """The fields of a crop to the size of images [batch, channels, height, width]."""
    height, width = image.shape[-2:] if len(image.shape) == 4 else (32, 32)
    return f"{{ height: {height}  width: {width} }}"
