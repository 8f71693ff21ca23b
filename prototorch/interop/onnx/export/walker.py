"""From recorded ops to the nodes of an ONNX graph."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from prototorch.errors import UsageError
from prototorch.graph.ir import Node, Value
from prototorch.interop.counterparts.onnx.row import OpPair
from prototorch.interop.onnx import onnx_package
from prototorch.interop.onnx.export.graph_builder import GraphBuilder
from prototorch.interop.onnx.op_pairs import op_pairs, pair_by_our_op
from prototorch.interop.symbolic_batch import BatchMultiple, Dim, Recording, live_nodes
from prototorch.ops.core import Op

__all__ = ["OpExport", "OpWalker", "exports_op", "inexpressible_ops", "keeps_op", "onnx_dtype"]

OpExporter = Callable[["OpExport"], None]
_EXPORTERS: dict[str, tuple[OpExporter, int]] = {}  # with the first opset that has what it writes


def exports_op(*names: str, since: int = 1) -> Callable[[OpExporter], OpExporter]:
    """Register how these of our ops are written, from an opset on; the function emits nodes by its `OpExport`.

    An op with a row is written so for opsets before that of the row. A composite op is written as the ops that it is
    made of where there is no entry for the opset.
    """

    def register(function: OpExporter) -> OpExporter:
        for name in names:
            if name in _EXPORTERS:
                raise ValueError(f"the op {name} is exported already")
            _EXPORTERS[name] = function, since
        return function

    return register


def keeps_op(name: str, opset: int) -> bool:
    """Whether an op is written as itself for an opset, not as the ops that it is made of."""
    return _written_pair(name, opset) is not None or (name in _EXPORTERS and _EXPORTERS[name][1] <= opset)


def _written_pair(name: str, opset: int) -> OpPair | None:
    """The row by which an op is written for an opset."""
    pair = pair_by_our_op(name)
    return pair if pair is not None and pair.is_written and pair.since <= opset else None


def inexpressible_ops() -> Mapping[str, str]:
    """The ops that ONNX does not have, with the reason."""
    return {pair.our_op: pair.reason for pair in op_pairs() if pair.reason}


class OpWalker:
    """Writes recorded ops into a graph. ``names`` maps values to the names that they have there already."""

    def __init__(self, builder: GraphBuilder, recording: Recording, weights: Mapping[str, np.ndarray]):
        self.builder, self.recording, self.weights = builder, recording, weights
        self.names: dict[Value, str] = {}
        self.preferred: dict[Value, str] = {}  # what a value is to be called
        self.constants: dict[Value, tuple[np.ndarray, str]] = {}  # what is known now, with a name for it
        self.product_nodes: set[Node] = set()  # nodes that are a part of another

    def fold(self) -> None:
        """Compute what depends on weights and constants alone."""
        for node in self.recording.graph.nodes:
            if any(self._constant_of(v) is None for v in node.inputs) or not _is_foldable(node, self.recording):
                continue
            arrays = [self._constant_of(v) for v in node.inputs]
            results = node.op.reference(np, *(a for a, _ in arrays if a is not None), **node.attrs)  # type: ignore[misc]
            stems = {name for _, name in arrays if name}  # type: ignore[misc]
            hint = stems.pop() if len(stems) == 1 else ""
            for value, array in zip(node.outputs, results if isinstance(results, tuple) else (results,), strict=True):
                self.constants[value] = np.asarray(array), hint

    def _constant_of(self, value: Value) -> tuple[np.ndarray, str] | None:
        if value in self.constants:
            return self.constants[value]
        if value.kind == "constant":
            return np.asarray(value.array), ""
        if value.kind == "state":
            return self.weights[value.name], value.name
        return None

    def known_array(self, value: Value) -> np.ndarray | None:
        """The elements of a value that weights and constants determine; None for others."""
        constant = self._constant_of(value)
        return None if constant is None else constant[0]

    def name(self, value: Value) -> str:
        """The name of a value in the graph; a constant is written when it is asked for."""
        if value not in self.names:
            constant = self._constant_of(value)
            if constant is not None:
                array, hint = constant
                self.names[value] = self.builder.initializer(hint, array) if hint else self.builder.constant(array)
            elif value.producer is not None and value.producer.op.name == "full":
                self.names[value] = self._full(value)
            else:
                raise KeyError(repr(value))
        return self.names[value]

    def _full(self, value: Value) -> str:
        """A value whose elements are all one number, and whose shape follows the batch."""
        assert value.producer is not None
        scope = value.producer.scope
        element = np.array([value.producer.attrs["value"]], value.dtype)
        name = self.builder.unique_name(f"{scope}/full")
        shape = self.builder.shape(self.recording.dims(value), scope)
        fill = self.builder.onnx.numpy_helper.from_array(element)
        self.builder.emit("ConstantOfShape", [shape], [name], scope, {"value": fill})
        return name

    def bind(self, value: Value, name: str) -> None:
        """Say which value of the graph a recorded one is."""
        self.names[value] = name

    def output_name(self, value: Value, hint: str) -> str:
        """A new name for a value that a node is about to give."""
        preferred = self.preferred.get(value)
        name = preferred if preferred is not None else self.builder.unique_name(hint)
        self.names[value] = name
        return name

    def write(self, node: Node, scope: str) -> None:
        """Emit the ONNX nodes of an op, unless its outputs are there already."""
        if node in self.product_nodes or node.op.name == "full" or any(v in self.names for v in node.outputs):
            return
        if all(v in self.constants for v in node.outputs):
            return
        export = OpExport(self, node, scope)
        pair = _written_pair(node.op.name, self.builder.opset)
        if pair is not None:
            names = export.elementwise_inputs()
            if pair.input_dtype:
                names = [export.as_dtype(n, v, pair.input_dtype) for n, v in zip(names, export.inputs, strict=True)]
            export.result(pair.name, names, pair.node_attributes(export.attributes_or_defaults()))
        elif node.op.name in _EXPORTERS:
            _EXPORTERS[node.op.name][0](export)
        else:
            row = pair_by_our_op(node.op.name)
            reason = (row.reason if row is not None else "") or "the exporter has no entry for it"
            raise UsageError(f"the op {node.op.name} cannot be written to ONNX: {reason}")

    def write_all(self, scope: str, outputs: Sequence[Value]) -> None:
        """Emit all recorded ops that these values depend on."""
        self.fold()
        nodes = live_nodes(self.recording.graph.nodes, outputs, self.names)
        self.absorb(nodes)
        for node in nodes:
            self.write(node, scope or node.scope)

    def absorb(self, nodes: Sequence[Node]) -> None:
        """Find the nodes that are written as a part of another: products, with the sum that adds their bias."""
        for node in nodes:
            if node.op.name == "add":
                for product, bias in (node.inputs, node.inputs[::-1]):
                    if self.joins_bias(product, bias):
                        assert product.producer is not None
                        self.product_nodes.add(product.producer)
                        break

    def joins_bias(self, product: Value, bias: Value) -> bool:
        """Whether a sum is a product with its bias: one number a channel, known from the weights."""
        node, array = product.producer, self.known_array(bias)
        if node is None or array is None or sum(product.users.values()) != 1:
            return False
        if product in self.preferred or product in self.names or product in self.constants:
            return False
        if node.op.name in ("conv", "conv_input_grad"):
            return array.shape == (product.shape[1], *(1,) * (product.ndim - 2))
        plain = node.op.name == "matmul" and not any(node.attrs.values()) and product.ndim == 2
        return plain and self.known_array(node.inputs[1]) is not None and array.shape == (product.shape[1],)


class OpExport:
    """One op that is being written: what it reads, and how it adds nodes."""

    def __init__(self, walker: OpWalker, node: Node, scope: str):
        self.walker, self.node, self.scope = walker, node, scope
        self.builder, self.inputs = walker.builder, node.inputs
        self.attributes = walker.recording.attributes(node)

    def attributes_or_defaults(self) -> Mapping[str, Any]:
        """The attributes of our op; one that is not stated has the default of `infer_spec` or of the reference."""
        return _Defaults(self.node.op, self.attributes)

    @property
    def opset(self) -> int:
        """The opset that is written."""
        return self.builder.opset

    def name(self, index: int) -> str:
        """What ONNX calls an input of the op, by its position."""
        return self.walker.name(self.inputs[index])

    def dims(self, index: int = 0) -> tuple[Dim, ...]:
        """The sizes of an input, the batch's included."""
        return self.walker.recording.dims(self.inputs[index])

    @property
    def output_dims(self) -> tuple[Dim, ...]:
        """The shape of output 0."""
        return self.walker.recording.dims(self.node.outputs[0])

    def elementwise_inputs(self) -> list[str]:
        """The names of the inputs of an elementwise op: one that holds a single number is a scalar where it can be."""
        whole = self.output_dims
        plain = [v for v in self.inputs if _fill_value(v) is None]
        names = []
        for v in self.inputs:
            number = _fill_value(v)
            others = any(p is not v and self.walker.recording.dims(p) == whole for p in plain)
            if number is not None and others and v not in self.walker.names:
                names.append(self.constant(np.asarray(number, v.dtype)))
            else:
                names.append(self.walker.name(v))
        return names

    def as_dtype(self, name: str, value: Value, dtype: str) -> str:
        """The name of a value with elements of a dtype; of numbers as bool, those that are not 0 are true."""
        return name if value.dtype == dtype else self.emit("Cast", [name], {"to": onnx_dtype(dtype)})

    def constant(self, array: Any, hint: str = "constant") -> str:
        """The name of a new initializer with these elements."""
        return self.builder.constant(array, hint)

    def integers(self, values: Sequence[int]) -> str:
        """Integers as a constant."""
        return self.constant(np.array(values, np.int64), "integers")

    def shape(self, dims: Sequence[Dim]) -> str:
        """A shape as a tensor for Reshape: one size may follow the batch, and is then left to be found (-1)."""
        if sum(isinstance(n, BatchMultiple) for n in dims) == 1 and -1 not in dims:
            dims = [-1 if isinstance(n, BatchMultiple) else n for n in dims]
        return self.builder.shape(dims, self.scope)

    def emit(self, op: str, inputs: Sequence[str], attributes: Mapping[str, Any] | None = None) -> str:
        """Add a node in between; the name of its output."""
        name = self.builder.unique_name(f"{self.scope}/{op}")
        self.builder.emit(op, inputs, [name], self.scope, attributes)
        return name

    def result(
        self,
        op: str,
        inputs: Sequence[str],
        attributes: Mapping[str, Any] | None = None,
        count: int = 1,
        value: Value | None = None,
    ) -> None:
        """Add the node that gives the op's outputs (the first ``count`` of them), or another value."""
        values = [value] if value is not None else self.node.outputs[:count]
        names = [self.walker.output_name(v, f"{self.scope}/{op}") for v in values]
        self.builder.emit(op, inputs, names, self.scope, attributes)


class _Defaults(Mapping[str, Any]):
    """Attributes of an op; those that are not stated have the default of its `infer_spec`."""

    def __init__(self, op: Op, stated: Mapping[str, Any]):
        self._op, self._stated = op, stated

    def __getitem__(self, name: str) -> Any:
        if name in self._stated:
            return self._stated[name]
        return op_default(self._op, name)

    def __iter__(self):
        return iter(self._stated)

    def __len__(self) -> int:
        return len(self._stated)


def onnx_dtype(name: str) -> int:
    """ONNX' number of a dtype, from NumPy's name."""
    return int(onnx_package("onnx.helper").np_dtype_to_tensor_dtype(np.dtype(name)))


def op_default(op: Op, name: str) -> Any:
    """The default of an attribute of an op, from the signatures of its methods. KeyError where there is none."""
    for method in (op.infer_spec, op.reference, op.decompose):
        parameter = inspect.signature(method).parameters.get(name)
        if parameter is not None and parameter.default is not parameter.empty:
            return parameter.default
    raise KeyError(name)


def _fill_value(value: Value) -> float | None:
    producer = value.producer
    return producer.attrs["value"] if producer is not None and producer.op.name == "full" else None


def _is_foldable(node: Node, recording: Recording) -> bool:
    dims = [n for v in node.outputs for n in recording.dims(v)]
    if any(isinstance(n, BatchMultiple) for n in dims) or node.op.is_random:
        return False
    size = sum(v.spec.size for v in node.outputs)
    return size <= 2 * max((v.spec.size for v in node.inputs), default=0) or size <= 65536
