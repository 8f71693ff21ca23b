"""A net and its weights as an ONNX model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from prototorch.errors import UsageError
from prototorch.graph.ir import Value
from prototorch.graph.net import LayerNode, Net
from prototorch.interop.channel_order import channels_first_net
from prototorch.interop.onnx import onnx_package
from prototorch.interop.onnx.export import (
    layers_dense,
    ops_elementwise,
    ops_index,
    ops_products,
    ops_shape,
    recurrent,
)
from prototorch.interop.onnx.export.graph_builder import BATCH, GraphBuilder
from prototorch.interop.onnx.export.layer_table import LayerExport, layer_exporter
from prototorch.interop.onnx.export.walker import OpWalker, keeps_op
from prototorch.interop.symbolic_batch import (
    BatchMultiple,
    Preparation,
    Recording,
    input_shapes,
    live_nodes,
    record_net,
    sections,
)

__all__ = [
    "DEFAULT_OPSET",
    "OPSETS",
    "OnnxSettings",
    "layers_dense",
    "onnx_model",
    "ops_elementwise",
    "ops_index",
    "ops_products",
    "ops_shape",
    "recurrent",
]  # fmt: skip

DEFAULT_OPSET = 18  # what PyTorch's exporter writes, and what runtimes of the last years read
OPSETS = range(13, 26)


@dataclass(frozen=True)
class OnnxSettings:
    """What an export may say.

    opset: of the default domain. include_preprocess: whether the layers of ``preprocess`` are a part of the graph; its
    first input is then what they read. shapes: of inputs whose sizes the text leaves open, and of the first input
    before ``preprocess``; without the batch dimension. metadata: pairs of text for the file. input_dtypes: of inputs
    whose elements are not those that the net declares: what ``preprocess`` reads.
    """

    opset: int = DEFAULT_OPSET
    include_preprocess: bool = False
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    input_dtypes: Mapping[str, str] = field(default_factory=dict)


def onnx_model(
    net: Net, weights: Mapping[str, np.ndarray], settings: OnnxSettings | None = None
) -> tuple[Any, dict[str, np.ndarray]]:
    """The net as it predicts, as an `onnx.ModelProto` with a symbolic batch dimension, and its initialisers by name.

    Inputs, outputs and values have the names of the net, nodes those of its layers, initialisers those of its weights.
    The initialisers are not in the model yet: they may be written into it, or into a file beside it.

    Args:
        weights: all weights by name. settings: default `OnnxSettings`.

    Raises UsageError where onnx is not installed, for an opset that is not supported, an input of unknown size, and an
    op that ONNX does not have; ShapeError for a net that does not fit its inputs.
    """
    settings = settings or OnnxSettings()
    onnx = onnx_package()
    if settings.opset not in OPSETS:
        raise UsageError(f"opset {settings.opset} is not supported; use {OPSETS[0]} to {OPSETS[-1]}")
    net = channels_first_net(net)
    recording = _record(net, settings)
    builder, walker = _write_layers(net, recording, weights, settings)
    inputs = [_value_info(onnx, i.name, v, recording) for i, v in zip(net.inputs, recording.inputs, strict=True)]
    outputs = [
        _output(onnx, builder, walker, name, value, recording)
        for name, value in zip(net.outputs, recording.outputs, strict=True)
    ]
    graph = onnx.helper.make_graph(builder.nodes, net.name or "net", inputs, outputs)
    model = onnx.helper.make_model(
        graph, producer_name="prototorch", opset_imports=[onnx.helper.make_opsetid("", settings.opset)]
    )
    model.ir_version = onnx.helper.find_min_ir_version_for(model.opset_import)
    onnx.helper.set_model_props(model, dict(settings.metadata))
    return model, builder.initializers


def _record(net: Net, settings: OnnxSettings) -> Recording:
    shapes = input_shapes(net, settings.shapes)
    prepared = settings.include_preprocess and bool(net.preprocess)
    return record_net(
        net,
        shapes,
        {n.name: settings.input_dtypes.get(n.name, n.dtype) for n in net.inputs},
        lambda name: keeps_op(name, settings.opset),
        Preparation(net) if prepared else None,
    )


def _write_layers(
    net: Net, recording: Recording, weights: Mapping[str, np.ndarray], settings: OnnxSettings
) -> tuple[GraphBuilder, OpWalker]:
    inputs = [node.name for node in net.inputs]
    tops = {top: recording.values[top] for node in net.nodes for top in node.tops}
    builder = GraphBuilder(settings.opset, [*inputs, *tops])
    walker = OpWalker(builder, recording, weights)
    for name, value in zip(inputs, recording.inputs, strict=True):
        walker.bind(value, name)
    builder.batch_source(inputs[0])
    for top, value in tops.items():
        if value.kind == "node":
            walker.preferred.setdefault(value, top)
    walker.fold()
    walker.absorb(live_nodes(recording.graph.nodes, recording.outputs))
    for section in sections(net, recording):
        if section.layer is not None and section.is_live:
            _write_layer(walker, section.layer)
        for node in live_nodes(section.nodes, section.read_elsewhere, walker.names):
            walker.write(node, section.layer.name if section.layer is not None else "preprocess")
    return builder, walker


def _write_layer(walker: OpWalker, node: LayerNode) -> None:
    """Write a layer that has an entry of its own; nothing for any other."""
    exporter = layer_exporter(node.layer)
    if exporter is None:
        return
    recording = walker.recording
    values, outputs = ([recording.values[n] for n in names] for names in (node.bottoms, node.tops))
    if all(v in walker.names for v in outputs):
        return
    exporter(
        LayerExport(
            walker,
            node.layer,
            node.weights_key,
            node.name,
            [walker.name(v) for v in values],
            values,
            outputs,
            any(v in recording.masks for v in values),
        )
    )


def _value_info(onnx: Any, name: str, value: Value, recording: Recording) -> Any:
    """The declaration of an input or output."""
    dims = [
        BATCH if n == BatchMultiple() else f"{n.factor} * {BATCH}" if isinstance(n, BatchMultiple) else n
        for n in recording.dims(value)
    ]
    element = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(value.dtype))
    return onnx.helper.make_tensor_value_info(name, element, dims)


def _output(onnx: Any, builder: GraphBuilder, walker: OpWalker, name: str, value: Value, recording: Recording) -> Any:
    """The declaration of an output; a value of another name gets a node that passes it on."""
    current = walker.name(value)
    if current != name:
        builder.emit("Identity", [current], [name], name)
    return _value_info(onnx, name, value, recording)
