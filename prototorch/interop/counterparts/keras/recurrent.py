"""Keras' layers over sequences: recurrent layers and their wrappers, embeddings, masks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from prototorch import layers
from prototorch.interop.counterparts.keras.row import KerasRow, class_of_name
from prototorch.interop.counterparts.keras.weights import BIAS, RECURRENT_WEIGHTS, size_last
from prototorch.interop.counterparts.row import CounterpartRows, WeightPair, same_weights
from prototorch.interop.keras.config_import.axis_orders import OrderedNetBuilder, channels_first, identity
from prototorch.interop.keras.config_import.config_fields import NotImportableError, our_fields
from prototorch.interop.keras.config_import.config_graph import CallOutput, KerasLayerCall
from prototorch.interop.keras.config_import.layer_import import import_call
from prototorch.interop.keras.config_import.site import KerasLayerImport, Values
from prototorch.interop.keras.layouts import LAYOUTS
from prototorch.layers.base import Layer
from prototorch.layers.recurrent import RecurrentLayer
from prototorch.model.loading.layout.layout_table import Shapes, WeightLayout

_LEFT_OUT = ("stateful", "time_major", "zero_output_for_mask", "return_runtime", "input_dim", "input_length")


def _layer_of(kind: str, config: Mapping[str, Any], notes: list[str]) -> Layer:
    """A recurrent layer for a config. Raises NotImportableError."""
    cls = class_of_name(kind)
    if cls is None or not issubclass(cls, RecurrentLayer):
        raise NotImportableError(f"the recurrent layer {kind!r:.60} has no counterpart")
    fields = our_fields(cls, config, notes=notes)
    if "reset_after" in cls.specs():
        fields["reset_after"] = bool(config.get("reset_after", False))  # the default of versions that do not state it
    return cls(**fields)


def _read_recurrent(site: KerasLayerImport) -> Values:
    values = [site.builder.as_keras(value) for value in site.values()]
    return site.add(_layer_of(site.call.kind, site.config, site.notes), values)


def _call_with_states(layer: Layer, inputs: list[Any]) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    states = inputs[1:]
    return (inputs[0],), {"initial_state": states[0] if len(states) == 1 else states} if states else {}


def _read_conv_lstm(site: KerasLayerImport) -> Values:
    cls: Any = site.layer_class
    state = site.spatial_order(cls.rank + 1)
    sequence = (0, *(axis + 1 for axis in state))
    values = [
        site.builder.in_order(value, order)
        for value, order in zip(site.values(), (sequence, state, state), strict=False)
    ]
    return tuple(
        replace(value, order=sequence if len(value.shape) == len(sequence) else state)
        for value in site.add(cls(**site.fields(cls)), values)
    )


def _read_bidirectional(site: KerasLayerImport) -> Values:
    config = site.config
    inner = _inner(config.get("layer"))
    backward = config.get("backward_layer")
    fields: dict[str, Any] = {"layer": _layer_of(*inner, site.notes), "merge_mode": config.get("merge_mode")}
    if backward is not None:
        fields["backward_layer"] = _layer_of(*_inner(backward), site.notes)
    values = [site.builder.as_keras(value) for value in site.values()]
    return site.add(layers.Bidirectional(**fields), values)


def _inner(node: Any) -> tuple[str, Mapping[str, Any]]:
    if not isinstance(node, dict) or not isinstance(node.get("class_name"), str):
        raise NotImportableError("its config names no layer inside")
    config = node.get("config")
    return node["class_name"], config if isinstance(config, dict) else {}


def _read_time_distributed(site: KerasLayerImport) -> Values:
    kind, config = _inner(site.config.get("layer"))
    value = site.one()
    inner_builder = OrderedNetBuilder("inner")
    is_map = hasattr(class_of_name(kind), "rank")
    rank = value.rank - 1
    is_first = rank == 2 or config.get("data_format") == "channels_first"
    inner_order = channels_first(rank) if is_map and not is_first else identity(rank)
    value = site.builder.in_order(value, (0, *(axis + 1 for axis in inner_order)))
    step = inner_builder.input("step", [value.their_shape[1:][axis] for axis in range(rank)], "float32", inner_order)
    call = KerasLayerCall(0, "layer", kind, "", config, (CallOutput(-1),))
    result = import_call(
        KerasLayerImport(inner_builder, call, (step,), {}, is_channels_last=site.is_channels_last, notes=site.notes)
    )
    nodes = inner_builder.nodes
    is_chain = len(nodes) > 0 and len(result) == 1 and all(a.tops == b.bottoms for a, b in pairwise(nodes))
    if not is_chain or any("initializer" in name for n in nodes[:-1] for name in type(n.layer).specs()):
        raise NotImportableError(f"the layer {kind!r:.60} inside it is several layers here")
    for node in nodes[:-1]:  # of which none has weights, such as a Permute
        layer = layers.TimeDistributed(layer=node.layer.replace(name=None))
        (value,) = site.builder.add(layer, [value], f"{site.call.path}_{type(node.layer).__name__.lower()}")
    layer = layers.TimeDistributed(layer=nodes[-1].layer.replace(name=None))
    return site.add(layer, [value], (0, *(axis + 1 for axis in result[0].order)))


def _call_on_steps(layer: Layer, inputs: list[Any]) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    return (inputs[0] if len(inputs) == 1 else list(inputs),), {}


def _bidirectional_layouts(layer: layers.Bidirectional, shapes: Shapes) -> Sequence[WeightLayout]:
    ways = zip(("forward_layer", "backward_layer"), layer.directions(), strict=True)
    return [layout for name, inner in ways for layout in _inner_layouts(name, inner, shapes)]


def _time_distributed_layouts(layer: layers.TimeDistributed, shapes: Shapes) -> Sequence[WeightLayout]:
    return _inner_layouts("layer", layer.layer, shapes)


def _inner_layouts(name: str, layer: Layer, shapes: Shapes) -> list[WeightLayout]:
    inner = {
        weight.removeprefix(f"{name}/"): shape for weight, shape in shapes.items() if weight.startswith(f"{name}/")
    }
    return [layout.under(f"{name}/", f"{name}/") for layout in LAYOUTS.layouts(layer, inner)]


def _read_embedding(site: KerasLayerImport) -> Values:
    fields = site.fields(layers.Embedding)
    fields["input_dim"] = site.config["input_dim"]
    return site.add(layers.Embedding(**fields), [site.builder.as_keras(site.one())])


def _recurrent(layer: type[Layer], **facts: Any) -> KerasRow:
    return KerasRow(
        layers=(layer,),
        old_arguments={"output_dim": "units"},
        weights=RECURRENT_WEIGHTS,
        parts={"cell": ""},
        keeps_constraints=True,
        call=_call_with_states,
        positional_arguments=2,
        read=_read_recurrent,
        left_out=_LEFT_OUT,
        **facts,
    )


ROWS = CounterpartRows(
    system="keras",
    rows=(
        # in Keras 1: i, c, f, o; today i, f, c, o
        _recurrent(layers.LSTM, gates=(0, 6, 3, 9), names_in_weight_files={"CuDNNLSTM": "LSTM"}),
        _recurrent(layers.GRU, gates=(0, 3, 6), names_in_weight_files={"CuDNNGRU": "GRU"}),
        _recurrent(layers.SimpleRNN),
        KerasRow(
            layers=(layers.ConvLSTM1D, layers.ConvLSTM2D, layers.ConvLSTM3D),
            weights=(
                WeightPair("kernel", "kernel", size_last),
                WeightPair("recurrent_kernel", "recurrent_kernel", size_last),
                BIAS,
            ),
            parts={"cell": ""},
            call=_call_with_states,
            positional_arguments=2,
            read=_read_conv_lstm,
            left_out=_LEFT_OUT,
        ),
        KerasRow(
            layers=(layers.Bidirectional,),
            weights=RECURRENT_WEIGHTS,  # of each of its layers
            layouts=_bidirectional_layouts,
            parts={"forward_layer": "forward_layer/", "backward_layer": "backward_layer/", "cell": ""},
            call=_call_with_states,
            positional_arguments=2,
            read=_read_bidirectional,
        ),
        KerasRow(
            layers=(layers.TimeDistributed,),
            names_in_weight_files={"TimeDistributedDense": "TimeDistributed"},
            layouts=_time_distributed_layouts,
            parts={"layer": "layer/"},
            call=_call_on_steps,
            read=_read_time_distributed,
        ),
        KerasRow(
            layers=(layers.Embedding,),
            old_arguments={
                "init": "embeddings_initializer",
                "W_regularizer": "embeddings_regularizer",
                "W_constraint": "embeddings_constraint",
            },
            weights=same_weights("embeddings"),
            keeps_constraints=True,
            read=_read_embedding,
        ),
        KerasRow(layers=(layers.Masking,)),
    ),
)
