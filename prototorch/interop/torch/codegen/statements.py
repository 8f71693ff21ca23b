"""A step of a net as text, with marks in place of the names of values and modules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from prototorch.graph.ir import Node, Value
from prototorch.graph.net import LayerNode, Net
from prototorch.graph.trace import RANDOM_KEY
from prototorch.interop.counterparts.torch.row import ModuleCall, TorchLayer
from prototorch.interop.symbolic_batch import Recording, live_nodes, record_function
from prototorch.interop.torch.codegen.expressions import SourceExpression, literal
from prototorch.interop.torch.codegen.paths import ModulePaths
from prototorch.interop.torch.op_table import TorchOpExport, find_op, has_op
from prototorch.layers.base import Layer
from prototorch.model.loading.layout.layout_table import NotExpressibleError
from prototorch.ops.elementwise import where

__all__ = ["SEQUENCES", "Definition", "NetItems", "SourceItem", "StepWriter", "module_mark", "value_mark"]

SEQUENCES = ("lstm_sequence", "gru_sequence", "simple_rnn_sequence")  # written as a loop over their cell
MAX_LITERAL = 64  # elements of a constant that is written down; larger ones are in the state_dict


def value_mark(number: int) -> str:
    """What stands for a value until it has a name."""
    return f"\x01{number}\x01"


def module_mark(path: Sequence[str]) -> str:
    """What stands for a module until it is known from where it is seen."""
    return f"\x02{'/'.join(path)}\x02"


@dataclass
class Definition:
    """A module: its call (None: a module that only holds others, or parameters), the modules below it, parameters
    (shape, whether trained) and buffers (elements, or the shape of one that is in the state_dict)."""

    path: tuple[str, ...]
    call: ModuleCall | None = None
    children: dict[str, ModuleCall] = field(default_factory=dict)
    parameters: dict[str, tuple[tuple[int, ...], bool]] = field(default_factory=dict)
    buffers: dict[str, np.ndarray | tuple[int, ...]] = field(default_factory=dict)


@dataclass
class SourceItem:
    """A step: the lines of text, the numbers of the values it reads and gives, and a comment (their shapes)."""

    path: tuple[str, ...]
    lines: list[str]
    reads: list[int]
    writes: list[int]
    comment: str = ""


@dataclass
class NetItems:
    """A net: its steps and modules, a name that each value would like, and what the state_dict holds. notes: what a
    reader must know. as_ops: the layers that are written by their ops."""

    items: list[SourceItem]
    definitions: dict[tuple[str, ...], Definition]
    hints: dict[int, str]
    inputs: list[int]
    outputs: list[int]
    state: dict[str, np.ndarray]
    notes: list[str]
    as_ops: set[str] = field(default_factory=set)
    input_comments: list[str] = field(default_factory=list)


class NetState(Protocol):
    """What the steps of a net share while they are written: see `codegen.modules`."""

    net: Net
    weights: Mapping[str, np.ndarray]
    recording: Recording
    paths: ModulePaths
    result: NetItems
    names: dict[str, int]
    values: dict[Value, int]
    scalars: dict[Value, Any]
    layers: dict[str, tuple[type[Layer], TorchLayer | None]]

    def new_value(self, hint: str) -> int:
        """A number for a value that would like this name."""


class StepWriter:
    """The functions that entries compute with (see `TorchLayer`), writing one step."""

    torch, F = SourceExpression("torch"), SourceExpression("F")

    def __init__(self, collector: NetState, path: tuple[str, ...], layer: LayerNode | None = None):
        self.collector, self.path, self.layer = collector, path, layer
        self.lines: list[str] = []
        self.reads: list[int] = []
        self.own: set[int] = set()
        self.indent = ""

    # ---- what entries call

    def let(self, value: Any, name: str) -> SourceExpression:
        """The value under a name of its own."""
        if self.number_of(value) is not None:
            return SourceExpression(str(value))
        number = self._new_value(name)
        self.lines.append(f"{self.indent}{value_mark(number)} = {literal(value)}")
        return SourceExpression(value_mark(number))

    def _new_value(self, name: str) -> int:
        number = self.collector.new_value(name)
        self.own.add(number)
        return number

    def unpack(self, value: Any, count: int) -> tuple[SourceExpression, ...]:
        """The elements of a tuple, under names of their own."""
        marks = [value_mark(self._new_value("part")) for _ in range(count)]
        self.lines.append(f"{self.indent}{', '.join(marks)} = {literal(value)}")
        return tuple(map(SourceExpression, marks))

    def in_training(self, value: Any, otherwise: Any) -> SourceExpression:
        """One of the two by the phase."""
        return SourceExpression(f"{literal(value)} if self.training else {literal(otherwise)}", False)

    def device(self) -> SourceExpression:
        """The device of the tensors that are read."""
        return self._source().device

    # ---- values

    def read(self, number: int) -> SourceExpression:
        """A value of this or another step."""
        if number not in self.reads and number not in self.own:
            self.reads.append(number)
        return SourceExpression(value_mark(number))

    @staticmethod
    def number_of(value: Any) -> int | None:
        """The number of a value that has one already."""
        text = str(value) if isinstance(value, SourceExpression) else ""
        is_mark = text.startswith("\x01") and text.endswith("\x01") and text.count("\x01") == 2
        return int(text[1:-1]) if is_mark else None

    def finish(self, writes: Sequence[int], comment: str = "") -> None:
        """Add the step, unless it does nothing."""
        mine = [n for n in dict.fromkeys(writes) if n not in self.reads]
        if self.lines:
            self.collector.result.items.append(SourceItem(self.path, self.lines, self.reads, mine, comment))

    # ---- recorded ops

    def write_nodes(self, nodes: Sequence[Node]) -> None:
        """Write ops, a line each."""
        values = self.collector.values
        for node in nodes:
            if node.op.name == "full" and not node.attrs["shape"]:
                self.collector.scalars[node.outputs[0]] = node.attrs["value"]
                continue
            export = TorchOpExport(node, self.collector.recording, self._batch_size)
            inputs = [self._operand(v) for v in node.inputs]
            if node.op.name in SEQUENCES:
                outputs = self._loop(node, inputs)
            elif has_op(node.op.name):
                outputs = find_op(node.op.name)(self, export, *inputs)
            else:
                raise NotExpressibleError(f"PyTorch has no {node.op.name}, or it draws random numbers")
            for value, output in zip(node.outputs, outputs if isinstance(outputs, tuple) else (outputs,), strict=False):
                number = self.number_of(output)
                if number is None and output is not None:
                    number = self.number_of(self.let(output, node.op.name))
                if number is not None:
                    values[value] = number

    def _operand(self, value: Value) -> Any:
        collector = self.collector
        if value in collector.values:
            return self.read(collector.values[value])
        if value in collector.scalars:
            return collector.scalars[value]
        if value.kind == "state":
            return self._state(value.name)
        if value.kind == "input" and value.name == RANDOM_KEY:
            raise NotExpressibleError("it draws random numbers where a net predicts, and those of PyTorch are others")
        assert value.kind == "constant", value
        array = np.asarray(value.array)
        if array.ndim == 0:
            return array.item()
        definition = self._definition(self.path)
        name = f"constant_{len(definition.buffers) + 1}"
        small = array.size <= MAX_LITERAL
        definition.buffers[name] = array if small else array.shape
        if not small:
            collector.result.state[".".join((*self.path, name))] = array
        return SourceExpression(f"{module_mark(self.path)}.{name}")

    def _definition(self, path: tuple[str, ...]) -> Definition:
        return self.collector.result.definitions.setdefault(path, Definition(path))

    def _state(self, name: str) -> SourceExpression:
        """A weight: a parameter or buffer under its own name, or one of another layer's module."""
        collector = self.collector
        key = next(node.weights_key for node in collector.net.nodes if name.startswith(f"{node.weights_key}/"))
        short, path = name.removeprefix(f"{key}/"), collector.paths.path(key)
        entry = collector.layers.get(key)
        if entry is not None and entry[1] is not None:
            for layout in entry[1].layouts:
                if layout.ours == (short,) and not str(layout.transform):
                    return SourceExpression(f"{module_mark(path)}.{layout.theirs[0]}")
            raise NotExpressibleError(f"the weight {name!r} is shared with a layer that stores it in another form")
        attribute = short.replace("/", "_")
        definition = self._definition(path)
        array = collector.weights[name]
        definition.parameters[attribute] = tuple(array.shape), collector.recording.weights[name].trainable
        collector.result.state[".".join((*path, attribute))] = array
        return SourceExpression(f"{module_mark(path)}.{attribute}")

    def _source(self) -> SourceExpression:
        """A value whose first dimension is the batch."""
        collector = self.collector
        number = collector.result.inputs[0] if self.layer is None else collector.names[self.layer.bottoms[0]]
        return self.read(number)

    def _batch_size(self) -> SourceExpression:
        return self._source().shape[0]

    def _loop(self, node: Node, inputs: Sequence[Any]) -> Any:
        """A loop over the steps of a recurrent op, whose body is its cell; a masked step keeps the states."""
        op: Any = node.op
        attributes = dict(node.attrs)
        masked, reverse = attributes.pop("masked", False), attributes.pop("reverse", False)
        recording = self.collector.recording
        dims = [recording.dims(v) for v in node.inputs]
        first = 1 + op.weights
        states = [self._copy(inputs[first + i], name) for i, name in zip(range(op.states), ("h", "c"), strict=False)]
        outputs = self.let(SourceExpression("[]"), "outputs")
        order = f"range({dims[0][1]})"
        step = SourceExpression("step")
        self.lines.append(f"{self.indent}for step in {f'reversed({order})' if reverse else order}:")

        def cell(graph: Any, values: list[Any]) -> Any:
            x, weights, before = values[0], values[1:first], values[first : first + op.states]
            after = op.cell(x, weights, before, **attributes)
            if masked:
                after = [where(values[-1][:, None], new, old) for new, old in zip(after, before, strict=True)]
            return after

        body_dims = [(dims[0][0], dims[0][2]), *dims[1 : first + op.states], *([dims[-1][:1]] if masked else [])]
        body = record_function(cell, body_dims, [v.dtype for v in node.inputs], lambda name: has_op(name))
        outer, self.indent = self.indent, self.indent + "    "
        steps = [inputs[0][:, step], *inputs[1:first], *states, *([inputs[-1][:, step]] if masked else [])]
        saved_recording, self.collector.recording = recording, body
        local = {
            v: self.let(e, "x_step") if i == 0 or (masked and i == len(steps) - 1) else e
            for i, (v, e) in enumerate(zip(body.inputs, steps, strict=True))
        }
        new = self._write_body(body, local)
        self.collector.recording = saved_recording
        self.lines.append(f"{self.indent}{', '.join(map(str, states))} = {', '.join(map(literal, new))}")
        self.lines.append(f"{self.indent}{outputs}.append({states[0]})")
        self.indent = outer
        is_read = bool(node.outputs[0].users) or self.collector.recording.is_output(node.outputs[0])
        return (self.let(self.torch.stack(outputs, 1), "sequence") if is_read else None, *states)

    def _copy(self, value: SourceExpression, name: str) -> SourceExpression:
        """A value under a second name, which changes in a loop."""
        number = self._new_value(name)
        self.lines.append(f"{self.indent}{value_mark(number)} = {value}")
        return SourceExpression(value_mark(number))

    def _write_body(self, body: Recording, local: Mapping[Value, Any]) -> list[Any]:
        values: dict[Value, Any] = dict(local)
        for node in live_nodes(body.graph.nodes, body.outputs):
            inputs = [values[v] if v in values else np.asarray(v.array).item() for v in node.inputs]
            results = find_op(node.op.name)(self, TorchOpExport(node, body), *inputs)
            for value, output in zip(node.outputs, results if isinstance(results, tuple) else (results,), strict=False):
                values[value] = self.let(output, node.op.name)
        return [values[v] for v in body.outputs]
