"""The steps of a net as pieces of Python text, with marks in place of the names of values and modules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from prototorch.errors import UsageError
from prototorch.graph.ir import Value
from prototorch.graph.net import LayerNode, Net
from prototorch.graph.trace import trace
from prototorch.interop.channel_order import channels_first_net
from prototorch.interop.counterparts.torch.row import TorchLayer, TorchLayerExport
from prototorch.interop.symbolic_batch import (
    Dim,
    Preparation,
    Recording,
    Section,
    input_shapes,
    live_nodes,
    record_net,
    sections,
)
from prototorch.interop.torch.codegen.expressions import SourceExpression, literal
from prototorch.interop.torch.codegen.paths import ModulePaths
from prototorch.interop.torch.codegen.statements import (
    SEQUENCES,
    Definition,
    NetItems,
    StepWriter,
    module_mark,
    value_mark,
)
from prototorch.interop.torch.layer_lookup import find_torch_layer, state_arrays
from prototorch.interop.torch.op_table import has_op
from prototorch.layers.base import Layer
from prototorch.model.loading.layout.layout_table import NotExpressibleError
from prototorch.spec import Spec

__all__ = ["net_items"]


def net_items(
    net: Net, weights: Mapping[str, np.ndarray], shapes: Mapping[str, Sequence[int]], include_preprocess: bool = False
) -> NetItems:
    """The steps of a net as it predicts. Raises UsageError that names every layer which PyTorch cannot express."""
    net = channels_first_net(net)
    prepared = include_preprocess and bool(net.preprocess)
    recording = record_net(
        net,
        input_shapes(net, shapes),
        {n.name: n.dtype for n in net.inputs},
        lambda name: has_op(name) or name in SEQUENCES,
        Preparation(net) if prepared else None,
    )
    result = _Collector(net, weights, recording).collect()
    result.notes += _training_notes(net, input_shapes(net, shapes), result.as_ops)
    return result


def _training_notes(net: Net, shapes: Mapping[str, Sequence[int]], as_ops: set[str]) -> list[str]:
    """What the layers that are written by their ops do in training alone, and what no module has."""
    specs = {n.name: Spec((2, *shapes[n.name]), n.dtype) for n in net.inputs}
    traced = trace(net, specs, True)
    in_training = {node.scope for node in traced.graph.nodes if node.op.is_random}
    in_training |= {traced.weights[name].layer for name in traced.updates}
    notes = [
        f"{node.name} ({type(node.layer).__name__}) is written as in prediction, not as in training"
        for node in net.nodes
        if node.name in as_ops & in_training
    ]
    unwritten = [w.name for w in traced.weights.values() if w.regularizer is not None or w.constraint is not None]
    return [*notes, *(f"the regularizer or constraint of {name} is left out" for name in unwritten)]


class _Collector:
    def __init__(self, net: Net, weights: Mapping[str, np.ndarray], recording: Recording):
        self.net, self.weights, self.recording = net, weights, recording
        self.paths = ModulePaths([name for node in net.nodes for name in (node.weights_key, node.name)])
        self.result = NetItems([], {}, {}, [], [], {}, [])
        self.names: dict[str, int] = {}  # the number of the value that a name of the net stands for now
        self.values: dict[Value, int] = {}
        self.scalars: dict[Value, Any] = {}
        self.layers: dict[str, tuple[type[Layer], TorchLayer | None]] = {}  # by weights key
        self.errors: list[str] = []

    def collect(self) -> NetItems:
        result = self.result
        for node, value in zip(self.net.inputs, self.recording.inputs, strict=True):
            number = self.names[node.name] = self.values[value] = self.new_value(node.name)
            result.inputs.append(number)
            result.input_comments.append(format_dims(self.recording.dims(value)))
        for section in sections(self.net, self.recording):
            try:
                self.add_section(section)
            except (NotExpressibleError, UsageError) as reason:
                layer = section.layer
                assert layer is not None
                self.errors.append(f"{type(layer.layer).__name__} {layer.name!r}: {reason}")
                for top in layer.tops:
                    self.names[top] = self.values[self.recording.values[top]] = self.new_value(top)
        if self.errors:
            raise UsageError(f"{self.net.name!r} cannot be written for PyTorch: " + "; ".join(self.errors))
        result.outputs += [self.names[name] for name in self.net.outputs]
        return result

    def new_value(self, hint: str) -> int:
        number = len(self.result.hints)
        self.result.hints[number] = hint
        return number

    def add_section(self, section: Section) -> None:
        layer = section.layer
        if layer is None:
            if section.nodes:
                item = StepWriter(self, ("preprocess",))
                item.write_nodes(live_nodes(section.nodes, section.read_elsewhere, self.values))
                item.finish([self.values[v] for v in section.read_elsewhere])
                for node, value in zip(self.net.inputs, self.recording.inputs, strict=True):
                    if section.read_elsewhere and node is self.net.inputs[0]:
                        self.names[node.name] = self.values[section.read_elsewhere[0]]
                        assert value is not section.read_elsewhere[0]
            return
        for bottom in layer.bottoms:
            self.values[self.recording.values[bottom]] = self.names[bottom]
        direct = self.direct_layer(section, layer)
        tops = [self.recording.values[t] for t in layer.tops]
        if direct is not None:
            self.add_direct(layer, direct)
        rest = [v for v in section.read_elsewhere if direct is None or v not in tops]
        needed = [*rest, *(tops if direct is None else [])]
        nodes = live_nodes(section.nodes, needed, self.values)
        if direct is None:
            self.result.as_ops.add(layer.name)
        if nodes or direct is None:
            item = StepWriter(self, self.paths.path(layer.name), layer)
            item.write_nodes(nodes)
            if direct is None:
                self.names.update({t: self.values[v] for t, v in zip(layer.tops, tops, strict=True)})
            item.finish([self.values[v] for v in dict.fromkeys(needed)], self.comment(tops if direct is None else []))

    def comment(self, values: Sequence[Value]) -> str:
        return ", ".join(format_dims(self.recording.dims(v)) for v in values)

    def direct_layer(self, section: Section, layer: LayerNode) -> TorchLayer | None:
        """What the layer is in PyTorch; None for one that is written by its ops."""
        key = layer.weights_key
        earlier = self.layers.get(key)
        if earlier is not None and earlier[0] is type(layer.layer):
            return earlier[1]
        shapes = {n.removeprefix(f"{key}/"): tuple(w.shape) for n, w in self.weights.items() if n.startswith(f"{key}/")}
        torch_layer = None
        if not _reads_mask(section, layer, self.recording):
            try:
                dims = tuple(self.recording.dims(self.recording.values[b]) for b in layer.bottoms)
                torch_layer = find_torch_layer(TorchLayerExport(layer.layer, shapes, dims))
                used = {name for layout in torch_layer.layouts for name in layout.ours}
                if not used <= shapes.keys() or (earlier is not None and used):
                    torch_layer = None
            except NotExpressibleError:
                torch_layer = None
        if earlier is None:
            self.layers[key] = type(layer.layer), torch_layer
        return torch_layer

    def add_direct(self, layer: LayerNode, torch_layer: TorchLayer) -> None:
        path = self.paths.path(layer.weights_key if torch_layer.modules or torch_layer.constants else layer.name)
        if path not in self.result.definitions and (torch_layer.modules or torch_layer.constants):
            key = layer.weights_key
            own = {n.removeprefix(f"{key}/"): w for n, w in self.weights.items() if n.startswith(f"{key}/")}
            self.result.definitions[path] = Definition(
                path,
                torch_layer.modules.get(""),
                {n: c for n, c in torch_layer.modules.items() if n},
                buffers=dict(torch_layer.constants),
            )
            for name, array in state_arrays(torch_layer, own).items():
                self.result.state[".".join((*path, name))] = array
        item = StepWriter(self, path, layer)
        inputs = [item.read(self.names[b]) for b in layer.bottoms]

        def module(name: str) -> SourceExpression:
            return SourceExpression(f"{module_mark(path)}.{name}" if name else module_mark(path))

        outputs = torch_layer.compute(item, module, *inputs)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        numbers = []
        for top, output in zip(layer.tops, outputs, strict=True):
            number = item.number_of(output)
            numbers.append(self.new_value(top) if number is None else number)
            if number is None:
                item.lines.append(f"{value_mark(numbers[-1])} = {literal(output)}")
            elif number not in item.reads:
                self.result.hints[number] = top
            self.names[top] = self.values[self.recording.values[top]] = numbers[-1]
        item.finish(numbers, self.comment([self.recording.values[t] for t in layer.tops]))


def _reads_mask(section: Section, layer: LayerNode, recording: Recording) -> bool:
    """Whether the layer's outputs follow from the masks of its inputs."""
    masks = {recording.masks[v] for v in (recording.values[b] for b in layer.bottoms) if v in recording.masks}
    if not masks:
        return False
    nodes = live_nodes(section.nodes, [recording.values[t] for t in layer.tops])
    return any(v in masks for node in nodes for v in node.inputs)


def format_dims(dims: Sequence[Dim]) -> str:
    """A shape for a comment."""
    return (
        "["
        + ", ".join(str(n) if isinstance(n, int) else "batch" if n.factor == 1 else f"{n.factor} * batch" for n in dims)
        + "]"
    )
