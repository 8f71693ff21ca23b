"""What a layer is in PyTorch: that of its row, else the functions of the ops that its `call` records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from prototorch.errors import PrototorchError
from prototorch.graph.ir import Node, Value
from prototorch.interop.counterparts.row import counterpart_of
from prototorch.interop.counterparts.torch.row import LAYOUTS, TorchLayer, TorchLayerExport, TorchRow
from prototorch.interop.symbolic_batch import BatchMultiple, Dim, Recording, live_nodes, record_sublayer
from prototorch.interop.torch.op_table import TorchOpExport, find_op, has_op
from prototorch.layers.activation import Linear
from prototorch.layers.affine_norm import AffineNormLayer
from prototorch.layers.base import Layer
from prototorch.layers.channels import ChannelAxisLayer, MapLayer
from prototorch.model.loading.layout.layout_table import NotExpressibleError

__all__ = ["find_layer_or_ops", "find_torch_layer", "state_arrays"]


def find_torch_layer(export: TorchLayerExport) -> TorchLayer:
    """What a layer with a row is in PyTorch, with its activation. Raises NotExpressibleError with the reason."""
    layer = export.layer
    module = _module_of(type(layer))
    if module is None:
        raise NotExpressibleError("no module stands for it")
    if layer.own_settings():
        raise NotExpressibleError(f"no module stands for it with {', '.join(layer.own_settings())}")
    torch_layer = module(export)
    if torch_layer is None:
        return _recorded_layer(export)
    if not torch_layer.layouts:
        own = {n: s for n, s in export.weight_shapes.items() if not n.startswith("activation/")}
        torch_layer = replace(torch_layer, layouts=tuple(LAYOUTS.layouts(layer, own)))
    activation = getattr(layer, "activation", None)
    if activation is None or hasattr(layer, "recurrent_activation") or hasattr(layer, "return_sequences"):
        return torch_layer
    return torch_layer if isinstance(activation, Linear) else _with_activation(export, torch_layer, activation)


def find_layer_or_ops(export: TorchLayerExport) -> TorchLayer:
    """What a layer is in PyTorch; without a row, the functions of the ops that its `call` records.

    Raises NotExpressibleError with the reason.
    """
    layer = export.layer
    if _module_of(type(layer)) is None:
        return _recorded_layer(export)
    if isinstance(layer, MapLayer) and layer.has_channels_last(len(export.shape) - 1):
        return _with_channels_last(export, layer)
    if isinstance(layer, ChannelAxisLayer) and isinstance(layer, AffineNormLayer):
        axis = layer.channel_axis(len(export.shape)) % len(export.shape)
        return _with_channel_axis(export, layer, axis) if axis > 1 else find_torch_layer(export)
    return find_torch_layer(export)


def _with_channel_axis(export: TorchLayerExport, layer: ChannelAxisLayer, axis: int) -> TorchLayer:
    """A normalization of the channels along this axis, which is moved behind the batch, as PyTorch has it, and back."""
    shapes = tuple((shape[0], shape[axis], *shape[1:axis], *shape[axis + 1 :]) for shape in export.shapes)
    inner = find_torch_layer(replace(export, layer=layer.replace(axis=1), shapes=shapes))
    return replace(inner, compute=lambda t, m, x: inner.compute(t, m, x.movedim(axis, 1)).movedim(1, axis))


def _with_channels_last(export: TorchLayerExport, layer: MapLayer) -> TorchLayer:
    """The layer with its channels behind the batch, as PyTorch has them, between permutations."""
    rank = layer.map_rank(len(export.shape))

    def is_map(ndim: int) -> bool:
        return rank > 0 and ndim - 1 - rank >= min(layer.axes_before_channels, 1)

    def first(shape: tuple[Any, ...]) -> tuple[Any, ...]:
        axis = len(shape) - 1 - rank
        return (*shape[:axis], shape[-1], *shape[axis:-1]) if is_map(len(shape)) else shape

    shapes = tuple(map(first, export.shapes))
    inner = find_torch_layer(replace(export, layer=layer.replace(data_format="channels_first"), shapes=shapes))

    def compute(t: Any, m: Any, *inputs: Any) -> Any:
        ranks = map(len, export.shapes)
        moved = [x.movedim(-1, n - 1 - rank) if is_map(n) else x for x, n in zip(inputs, ranks, strict=True)]
        y = inner.compute(t, m, *moved)
        outputs = y if isinstance(y, tuple) else (y,)
        back = tuple(v.movedim(v.dim() - 1 - rank, -1) if is_map(v.dim()) else v for v in outputs)
        return back if isinstance(y, tuple) else back[0]

    return replace(inner, compute=compute)


def _module_of(layer: type[Layer]) -> Callable[[TorchLayerExport], TorchLayer | None] | None:
    row = counterpart_of(LAYOUTS.system, layer)
    return row.module if isinstance(row, TorchRow) else None


def _with_activation(export: TorchLayerExport, before: TorchLayer, activation: Layer) -> TorchLayer:
    shape = None
    if not getattr(activation, "elementwise", False) and _module_of(type(activation)) is None:
        shape = _output_shape(export)
    behind = find_layer_or_ops(export.inner("activation", activation, shape))
    modules = {**before.modules, **{_below("activation", name): call for name, call in behind.modules.items()}}
    layouts = (*before.layouts, *(layout.under("activation/", "activation.") for layout in behind.layouts))

    def compute(t: Any, m: Any, *inputs: Any) -> Any:
        y = before.compute(t, m, *inputs)
        return behind.compute(t, lambda name: m(_below("activation", name)), y)

    return TorchLayer(compute, modules, layouts, before.constants)


def _below(name: str, child: str) -> str:
    return f"{name}.{child}" if child else name


def _output_shape(export: TorchLayerExport) -> tuple[Dim, ...]:
    """The shape of what a layer's activation reads."""
    recording = _record(replace(export, layer=export.layer.replace(activation=None)), False)
    return recording.dims(recording.outputs[0])


def _record(export: TorchLayerExport, training: bool) -> Recording:
    dims = [(BatchMultiple(), *s[1:]) if isinstance(s[0], int) else s for s in export.shapes]
    return record_sublayer(export.layer, "layer", dims, "float32", has_op, training, export.dtypes)


def _recorded_layer(export: TorchLayerExport) -> TorchLayer:
    """A layer as the functions of the ops that its `call` records.

    Raises NotExpressibleError for one with weights, for one that does something else in
    training (an op on which no output depends is a part of a loss) or gives one number for the whole batch, and for ops
    that PyTorch does not have.
    """
    layer, error = export.layer, NotExpressibleError("no module stands for it")
    if export.weight_shapes or layer.own_settings():
        raise error
    try:
        predicting, training = (_record(export, is_training) for is_training in (False, True))
    except PrototorchError:
        raise error from None
    nodes = live_nodes(predicting.graph.nodes, predicting.outputs)
    if [n.op for n in nodes] != [n.op for n in training.graph.nodes] or not all(has_op(n.op.name) for n in nodes):
        raise error
    if not all(v.ndim and isinstance(predicting.dims(v)[0], BatchMultiple) for v in predicting.outputs):
        raise error
    return TorchLayer(lambda t, m, *inputs: _compute_nodes(predicting, nodes, t, inputs))


def _compute_nodes(recording: Recording, nodes: Sequence[Node], t: Any, inputs: Sequence[Any]) -> Any:
    """The outputs of recorded ops; a value that is read once stands in the expression that reads it."""

    def let_shared(value: Value, result: Any, name: str) -> Any:
        return t.let(result, name) if sum(value.users.values()) > 1 else result

    values: dict[Value, Any] = {v: let_shared(v, x, "x") for v, x in zip(recording.inputs, inputs, strict=True)}
    for node in nodes:
        if node.op.name == "full" and not node.attrs["shape"]:
            values[node.outputs[0]] = node.attrs["value"]
            continue
        export = TorchOpExport(node, recording, lambda: inputs[0].shape[0])
        operands = [values[v] if v in values else _constant(t, v) for v in node.inputs]
        result = find_op(node.op.name)(t, export, *operands)
        for value, output in zip(node.outputs, result if isinstance(result, tuple) else (result,), strict=False):
            values[value] = let_shared(value, output, node.op.name)
    outputs = tuple(values[v] for v in recording.outputs)
    return outputs if len(outputs) > 1 else outputs[0]


def _constant(t: Any, value: Value) -> Any:
    """The elements of a constant, as a number or a tensor."""
    array = np.asarray(value.array)
    if array.ndim == 0:
        return array.item()
    return t.torch.tensor(array.tolist(), dtype=getattr(t.torch, array.dtype.name), device=t.device())


def state_arrays(torch_layer: TorchLayer, weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays of the layer's modules by their names below it, from the layer's weights."""
    arrays: dict[str, np.ndarray] = {}
    for layout in torch_layer.layouts:
        arrays_of_layout = layout.transform.to_theirs(tuple(np.asarray(weights[name]) for name in layout.ours))
        arrays.update(zip(layout.theirs, arrays_of_layout, strict=True))
    return arrays
