"""The net that grows while a graph is imported: layers with their weights, and how values change their shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from prototorch import layers
from prototorch.errors import ModelError, UsageError
from prototorch.graph.ir import Graph
from prototorch.graph.net import InputNode, LayerNode
from prototorch.graph.symbolic import top_names
from prototorch.graph.trace import LayerContext, Trace, record_layer
from prototorch.interop.onnx.importer.batch_place import complete_shape, find_batch
from prototorch.interop.onnx.importer.names import LayerNames, layer_name
from prototorch.interop.onnx.importer.node import OnnxNode
from prototorch.interop.onnx.importer.operands import (
    BatchSize,
    Dim,
    KnownArray,
    NetValue,
    Operand,
    format_shape,
    net_array,
    split_parts,
)
from prototorch.interop.onnx.importer.registry import NoLayerError
from prototorch.layers.base import Layer
from prototorch.layers.channels import with_channels_first
from prototorch.ops.core import use_interpreter
from prototorch.spec import Spec

__all__ = ["NetBuilder"]

_BATCH = 3  # samples of the trace in which shapes are inferred
MAX_CONSTANT_ELEMENTS = 1 << 26  # of a constant that is repeated
MAX_ELEMENTS = 1 << 40  # of a value, for one sample


class NetBuilder:
    """Layers in order, the weights by name, and how often each ONNX value is read (``reads``)."""

    def __init__(self, float_dtype: str = "float32") -> None:
        self.inputs: list[InputNode] = []
        self.nodes: list[LayerNode] = []
        self.weights: dict[str, np.ndarray] = {}
        self.weight_owner: dict[str, str] = {}  # the key of the layer that a weight belongs to
        self.original_names: dict[str, str] = {}
        self.notes: list[str] = []
        self.names = LayerNames()
        self.reads: dict[str, int] = {}
        self.fixed_batch: int | None = None
        self.element_types: dict[str, str] = {}  # ONNX' types of the graph's inputs
        self.current: OnnxNode | None = None
        self._first_name_taken = False
        self._number: dict[str, int] = {}
        self._producers: dict[str, str] = {}  # the layer of each output
        self._shared: dict[Any, str] = {}
        self._trace = Trace(Graph(), False, float_dtype)

    # ---------------------------------------------------------------- adding

    def add_input(self, original: str, preferred: str, dims: tuple[int, ...], dtype: str) -> str:
        """An input of the net; its name there."""
        name = self.names.take(preferred)
        self.inputs.append(InputNode(name, dims, dtype))
        self._trace.values[name] = self._trace.graph.input(name, Spec((_BATCH, *dims), dtype))
        if name != original:
            self.original_names[name] = original
        return name

    def start(self, node: OnnxNode) -> None:
        """Begin a node: the first layer that is added gets its name."""
        self.current, self._first_name_taken = node, False

    def add_many(
        self,
        layer: Layer,
        inputs: Sequence[NetValue],
        weights: Mapping[str, KnownArray | np.ndarray | None] | None = None,
    ) -> list[NetValue]:
        """Add a layer. weights: arrays by the layer's names, None for one that it does not have.

        The values have the batch dimension of the first input; `as_value` changes that.
        """
        arrays = {name: _in_net(w) for name, w in (weights or {}).items() if w is not None}
        weight_names = [w.name for w in arrays.values() if isinstance(w, KnownArray) and w.name]
        if inputs:
            layer = with_channels_first(layer, len(self._trace.values[inputs[0].top].shape))
        name = self._name(layer, weight_names)
        sources = (type(layer), tuple(weight_names))
        if weight_names and len(weight_names) == len(arrays):
            owner = self._shared.setdefault(sources, name)
            if owner != name and {f"{owner}/{key}" for key in arrays} <= self.weights.keys():
                layer = layer.replace(weights=owner)
        node = LayerNode(name, layer, tuple(v.top for v in inputs), top_names(name, layer.output_count()))
        outputs = self._record(node, arrays)
        for key, weight in arrays.items():
            array = weight.array if isinstance(weight, KnownArray) else weight
            self.weights.setdefault(f"{node.weights_key}/{key}", array)
            self.weight_owner[f"{node.weights_key}/{key}"] = node.weights_key
        self._number[name] = len(self.nodes)
        self._producers.update(dict.fromkeys(node.tops, name))
        self.nodes.append(node)
        like = inputs[0]
        return [
            replace(like, top=top, dims=tuple(out.shape[1:]), dtype=out.dtype)
            for top, out in zip(node.tops, outputs, strict=True)
        ]

    def add(self, layer: Layer, *inputs: NetValue, **weights: KnownArray | np.ndarray | None) -> NetValue:
        """Add a layer of one output; see `add_many`."""
        return self.add_many(layer, inputs, weights)[0]

    def make(self, kind: type[Layer], **fields: Any) -> Layer:
        """A layer; NoLayerError where it does not take these fields."""
        try:
            return kind(**fields)
        except (UsageError, ModelError) as error:
            raise NoLayerError(str(error)) from None

    def _name(self, layer: Layer, weight_names: list[str]) -> str:
        preferred = ""
        if self.current is not None and (weight_names or not self._first_name_taken):
            original = self.current.name or (self.current.outputs[0] if self.current.outputs else "")
            preferred = layer_name(self.current.name, self.current.op, weight_names)
            self._first_name_taken = True
            name = self.names.take(preferred, type(layer))
            if name != original and original:
                self.original_names[name] = original
            return name
        return self.names.take(preferred, type(layer))

    def _record(self, node: LayerNode, arrays: Mapping[str, Any]) -> Sequence[Any]:
        """The outputs of a layer in the trace; its weights must have the arrays' shapes."""
        trace = self._trace
        before = set(trace.weights)
        ctx = LayerContext(trace, node.name, node.weights_key, node.layer, node.layer)
        try:
            with use_interpreter(trace.graph), trace.graph.scope(node.name):
                result = record_layer(ctx, node.layer, tuple(trace.values[b] for b in node.bottoms))
        except ModelError as error:
            raise NoLayerError(f"{type(node.layer).__name__}: {error}") from None
        outputs = result if isinstance(result, tuple) else (result,)
        expected = {
            name.removeprefix(node.weights_key + "/"): trace.weights[name].spec.shape
            for name in trace.weights.keys() - before
        }
        actual = {name: tuple(a.shape) for name, a in arrays.items()}
        if expected and actual != expected:
            raise NoLayerError(f"its weights have the shapes {actual}, {type(node.layer).__name__} has {expected}")
        for out in outputs:
            if out.shape[:1] != (_BATCH,):
                raise NoLayerError("its output has no batch dimension")
            if prod(out.shape) > MAX_ELEMENTS:
                raise NoLayerError(f"its output {list(out.shape[1:])} is too large")
        trace.values.update(zip(node.tops, outputs, strict=True))
        return outputs

    # ---------------------------------------------------------------- changing what is there

    def producer(self, value: NetValue) -> LayerNode | None:
        """The layer whose output a value is, if nothing else in the file reads it."""
        name = self._producers.get(value.top)
        return None if name is None else self.nodes[self._number[name]]

    def is_read_once(self, number: int) -> bool:
        """Whether an input of the current node is read by it alone."""
        return self.current is not None and self.reads.get(self.current.inputs[number], 0) == 1

    def is_shared(self, name: str) -> bool:
        """Whether another layer has the weights of this one."""
        return any(n.layer.weights == name for n in self.nodes)

    def replace_layer(self, name: str, weights: Mapping[str, KnownArray | np.ndarray], **fields: Any) -> None:
        """Change fields of a layer that is there, and give it further weights."""
        number = self._number[name]
        node = self.nodes[number]
        self.nodes[number] = replace(node, layer=node.layer.replace(**fields))
        for key, weight in weights.items():
            array = net_array(weight.array if isinstance(weight, KnownArray) else weight)
            self.weights[f"{node.weights_key}/{key}"] = array
            self.weight_owner[f"{node.weights_key}/{key}"] = node.weights_key

    # ---------------------------------------------------------------- constants

    def parameter(self, constant: KnownArray, like: NetValue, dims: tuple[int, ...] | None = None) -> NetValue:
        """A constant as a value of the net, of shape ``dims`` there (default: its own)."""
        array = constant.array
        if array.dtype == object:
            raise NoLayerError("it computes with the batch size, which a net does not know")
        if array.dtype.kind not in "fiub":
            raise NoLayerError(f"constants of type {array.dtype} are not values of a net")
        if dims is not None:
            array = array.reshape(dims)
        array = net_array(array)
        layer = layers.Parameter(shape=list(array.shape), dtype=str(array.dtype), trainable=array.dtype.kind == "f")
        return self.add(layer, like, value=replace(constant, array=array))

    def batch_constant(self, array: np.ndarray, shape: Sequence[Dim]) -> NetValue:
        """A constant repeated to a shape in which the batch is one dimension: the same for each sample."""
        axes = [i for i, n in enumerate(shape) if isinstance(n, BatchSize)]
        ndim = max(len(shape), array.ndim)
        lifted = array.reshape((1,) * (ndim - array.ndim) + array.shape)
        target: list[Dim] = [*[1] * (ndim - len(shape)), *shape]
        axis = axes[0] + ndim - len(shape)
        if len(axes) > 1 or shape[axes[0]] != BatchSize() or lifted.shape[axis] != 1 or not self.inputs:
            raise NoLayerError(f"a constant of the shape {format_shape(shape)} is not the same for each sample")
        dims = tuple(int(n) for i, n in enumerate(target) if i != axis)
        dims = np.broadcast_shapes(dims, lifted.shape[:axis] + lifted.shape[axis + 1 :])
        if prod(dims) > MAX_CONSTANT_ELEMENTS:
            raise NoLayerError(f"a constant of {prod(dims):,} elements is not made")
        flat = lifted.reshape(lifted.shape[:axis] + lifted.shape[axis + 1 :])
        first = self.inputs[0]
        like = NetValue(first.name, tuple(int(n or 1) for n in first.shape), first.dtype)
        value = self.parameter(KnownArray(np.ascontiguousarray(np.broadcast_to(flat, dims))), like)
        return replace(value, batch_axis=axis)

    # ---------------------------------------------------------------- shapes

    def reshape_dims(self, value: NetValue, dims: Sequence[int]) -> NetValue:
        """The net's value in another shape; the batch dimension as it is."""
        dims = tuple(dims)
        while dims != value.dims and (source := self._before_reshape(value)) is not None:
            value = replace(value, top=source, dims=tuple(self._trace.values[source].shape[1:]))
        if dims == value.dims:
            return value
        if not dims:
            return self.add(layers.Reshape(target_shape=[]), value)
        if len(dims) == 1:
            return self.add(layers.Flatten(), value)
        return self.add(layers.Reshape(target_shape=list(dims)), value)

    def _before_reshape(self, value: NetValue) -> str | None:
        """What a layer that only changes the shape reads; None for a value of another layer."""
        producer = self.producer(value)
        is_reshape = producer is not None and type(producer.layer) in (layers.Reshape, layers.Flatten)
        return producer.bottoms[0] if producer is not None and is_reshape else None

    def is_zero(self, value: NetValue) -> bool:
        """Whether a value is made of zeros alone: a parameter, or parts of one."""
        tops = [value.top]
        while tops:
            number = self._number.get(self._producers.get(tops.pop(), ""))
            node = None if number is None else self.nodes[number]
            if node is None:
                return False
            if isinstance(node.layer, layers.Parameter):
                if self.weights[f"{node.weights_key}/value"].any():
                    return False
            elif node.layer.moves_elements:
                tops += node.bottoms
            else:
                return False
        return True

    def permute_dims(self, value: NetValue, order: Sequence[int]) -> NetValue:
        """The net's value with its dimensions in another order, counted from 0 without the batch."""
        if list(order) == list(range(len(value.dims))):
            return value
        return self.add(layers.Permute(dims=[i + 1 for i in order]), value)

    def transpose(self, value: NetValue, order: Sequence[int]) -> NetValue:
        """The ONNX value with its dimensions in another order."""
        if sorted(order) != list(range(value.ndim)):
            raise NoLayerError(f"perm {list(order)} is no order of {value.ndim} dimensions")
        if value.batch_axis is None:
            return self.permute_dims(value, order)
        kept_axes = [a for a in order if a != value.batch_axis]
        places = [value.extra + a - (a > value.batch_axis) for a in kept_axes]
        moved = self.permute_dims(value, [*range(value.extra), *places])
        return replace(moved, batch_axis=list(order).index(value.batch_axis))

    def reshape(self, value: NetValue, shape: Sequence[Dim]) -> NetValue:
        """The ONNX value in another shape, in which one dimension may be -1."""
        shape = complete_shape(value, list(shape), self.fixed_batch)
        if tuple(shape) == value.shape:
            return value
        if value.batch_axis is None:
            return self.reshape_dims(value, [int(n) for n in shape])
        if 0 in shape or 0 in value.dims:
            raise NoLayerError("it reshapes an array without elements")
        axis, factor = find_batch(value, shape, self.fixed_batch)
        outer_parts, _ = split_parts(value.parts)
        before = prod(value.others[: value.batch_axis]) * prod(outer_parts)
        outside = prod(int(n) for n in shape[:axis])
        if before % outside or factor % (before // outside):
            raise NoLayerError(f"a reshape of {format_shape(value.shape)} to {format_shape(shape)} mixes samples")
        outer, inner = before // outside, factor // (before // outside)
        flat = self._row_major(value, len(outer_parts))
        others = [int(n) for i, n in enumerate(shape) if i != axis]
        parts = (*([outer] if outer > 1 else []), None, *([inner] if inner > 1 else []))
        # row-major order without the batch: dimensions before its axis, its outer part, its inner part, the rest
        dims = [*others[:axis], *([outer] if outer > 1 else []), *([inner] if inner > 1 else []), *others[axis:]]
        result = self.reshape_dims(flat, dims)
        extra = len(parts) - 1
        result = self.permute_dims(result, [*range(axis, axis + extra), *range(axis), *range(axis + extra, len(dims))])
        return replace(result, batch_axis=axis, parts=parts)

    def _row_major(self, value: NetValue, outer: int) -> NetValue:
        """The net's dimensions in the order of the ONNX value's elements, the batch left out."""
        axis = value.batch_axis or 0
        extra = value.extra
        return self.permute_dims(
            value, [*range(extra, extra + axis), *range(extra), *range(extra + axis, len(value.dims))]
        )

    # ---------------------------------------------------------------- broadcasting

    def aligned(self, operands: Sequence[Operand], materialize: bool = True) -> list[Any]:
        """Operands of an elementwise op with as many dimensions each, those of the net's values; constants become
        parameters, or with ``materialize`` False constants of the net's shape."""
        values = [o for o in operands if isinstance(o, NetValue)]
        if not values:
            raise NoLayerError("it reads constants alone, and is not computed here")
        ndim = max(o.ndim for o in operands)
        places = {None if v.batch_axis is None else v.ndim - v.batch_axis for v in values}
        if len(places) > 1 or len({v.parts for v in values}) > 1:
            raise NoLayerError(
                "it joins values whose batch dimensions lie at different places: "
                f"{' and '.join(format_shape(v.shape) for v in values)}"
            )
        place = places.pop()
        axis = None if place is None else ndim - place
        first = values[0]
        lifted: list[Any] = []
        for operand in operands:
            shape = (*(1,) * (ndim - operand.ndim), *operand.shape)
            if isinstance(operand, NetValue):
                others = [int(n) for i, n in enumerate(shape) if i != axis]
                lifted.append(
                    replace(self.reshape_dims(operand, (*operand.dims[: operand.extra], *others)), batch_axis=axis)
                )
                continue
            if axis is not None and shape[axis] != 1:
                raise NoLayerError(f"it joins the samples of a batch with {shape[axis]} constants, one each")
            dims = (*(1,) * first.extra, *(int(n) for i, n in enumerate(shape) if i != axis))
            lifted.append(replace(operand, array=operand.array.reshape(dims)))
        values = [o for o in lifted if isinstance(o, NetValue)]
        if materialize:
            lifted = [o if isinstance(o, NetValue) else self.parameter(o, values[0]) for o in lifted]
        return lifted


def _in_net(weight: KnownArray | np.ndarray) -> KnownArray | np.ndarray:
    return replace(weight, array=net_array(weight.array)) if isinstance(weight, KnownArray) else net_array(weight)
