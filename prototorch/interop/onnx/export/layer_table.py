"""Layers that are written as ONNX ops of their own; all others are written as the ops that their `call` records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from prototorch.graph.ir import Value
from prototorch.interop.onnx.export.walker import OpWalker, keeps_op
from prototorch.interop.symbolic_batch import Dim, record_sublayer
from prototorch.layers.activation import Linear
from prototorch.layers.base import Layer

__all__ = ["LayerExport", "exports_layer", "layer_exporter"]

LayerExporter = Callable[["LayerExport"], bool]
_EXPORTERS: dict[type[Layer], LayerExporter] = {}


def exports_layer(*layers: type[Layer]) -> Callable[[LayerExporter], LayerExporter]:
    """Register how these layers are written. The function returns whether it has written the layer: False leaves one
    with fields that ONNX' op does not have to its ops."""

    def register(function: LayerExporter) -> LayerExporter:
        for layer in layers:
            if layer in _EXPORTERS:
                raise ValueError(f"{layer.__name__} is exported already")
            _EXPORTERS[layer] = function
        return function

    return register


def layer_exporter(layer: Layer) -> LayerExporter | None:
    """The function that writes a layer; None for a layer that its ops write."""
    return _EXPORTERS.get(type(layer))


class LayerExport:
    """A layer that is being written: what it reads, and how it adds nodes.

    ``has_mask``: whether an input has a mask. ``key``: the name in front of its weights' names.
    """

    def __init__(
        self,
        walker: OpWalker,
        layer: Layer,
        key: str,
        scope: str,
        inputs: Sequence[str],
        values: Sequence[Value],
        outputs: Sequence[Value],
        has_mask: bool,
    ):
        self.walker, self.builder, self.layer = walker, walker.builder, layer
        self.key, self.scope, self.inputs, self.values = key, scope, inputs, values
        self.outputs, self.has_mask = outputs, has_mask

    def dims(self, index: int = 0) -> tuple[Dim, ...]:
        """The sizes of an input, the batch's included."""
        return self.walker.recording.dims(self.values[index])

    def array(self, name: str) -> np.ndarray | None:
        """A weight by its name in the layer; None where it has none."""
        return self.walker.weights.get(f"{self.key}/{name}")

    def weight(self, name: str, array: np.ndarray | None = None) -> str:
        """The name of a weight in the graph; with an array, of one that is made of the layer's weights."""
        state = self.walker.recording.graph.states.get(f"{self.key}/{name}")
        if array is None:
            assert state is not None
            return self.walker.name(state)
        return self.builder.initializer(f"{self.key}/{name}", np.asarray(array))

    def constant(self, array: Any, hint: str = "constant") -> str:
        """The name of a new initializer with these elements."""
        return self.builder.constant(array, hint)

    def integers(self, values: Sequence[int]) -> str:
        """Integers as a constant."""
        return self.constant(np.array(values, np.int64), "integers")

    def emit(self, op: str, inputs: Sequence[str], attributes: Mapping[str, Any] | None = None) -> str:
        """Add a node with one output; its name."""
        return self.emit_all(op, inputs, 1, attributes)[0]

    def emit_all(
        self, op: str, inputs: Sequence[str], count: int, attributes: Mapping[str, Any] | None = None
    ) -> list[str]:
        """Add a node with several outputs; their names."""
        names = [self.builder.unique_name(f"{self.scope}/{op}") for _ in range(count)]
        self.builder.emit(op, inputs, names, self.scope, attributes)
        return names

    def result(
        self, op: str, inputs: Sequence[str], attributes: Mapping[str, Any] | None = None, index: int = 0
    ) -> None:
        """Add the node that gives an output of the layer, unless another output is the same value."""
        if self.outputs[index] in self.walker.names:
            return
        name = self.walker.output_name(self.outputs[index], f"{self.scope}/{op}")
        self.builder.emit(op, inputs, [name], self.scope, attributes)

    def finish(self, op: str, inputs: Sequence[str], activation: Layer, dims: Sequence[Dim]) -> None:
        """Add the node that, with an activation behind it, gives the layer's output of this shape."""
        if isinstance(activation, Linear):
            self.result(op, inputs)
            return
        name = self.emit(op, inputs)
        recording = record_sublayer(
            activation, self.key, [tuple(dims)], "float32", lambda op: keeps_op(op, self.builder.opset)
        )
        inner = OpWalker(self.builder, recording, self.walker.weights)
        inner.bind(recording.inputs[0], name)
        inner.preferred[recording.outputs[0]] = self.walker.output_name(self.outputs[0], f"{self.scope}/{op}")
        inner.write_all(self.scope, recording.outputs)
