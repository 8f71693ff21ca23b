"""Keras' layers over sequences as ours: recurrent layers, attention, embeddings, wrappers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from prototorch import layers
from prototorch.interop.keras.config_import.axis_orders import OrderedNetBuilder, OrderedValue, channels_first, identity
from prototorch.interop.keras.config_import.config_fields import NotImportableError, our_fields
from prototorch.interop.keras.config_import.config_graph import CallOutput, KerasLayerCall
from prototorch.interop.keras.config_import.layer_import import import_call
from prototorch.interop.keras.config_import.site import Site, Values, imports
from prototorch.layers.base import Layer
from prototorch.layers.recurrent import RecurrentLayer

__all__ = ["sequence_layers"]

sequence_layers = ("Embedding", "LSTM", "GRU", "SimpleRNN", "Bidirectional", "TimeDistributed", "MultiHeadAttention",
                   "GroupQueryAttention", "Attention", "AdditiveAttention", "ConvLSTM1D", "ConvLSTM2D",
                   "ConvLSTM3D")  # fmt: skip


@imports("Embedding")
def _embedding(site: Site) -> Values:
    fields = site.fields(layers.Embedding, {"init": "embeddings_initializer"})
    fields["input_dim"] = site.config["input_dim"]
    return site.add(layers.Embedding(**fields), [site.builder.as_keras(site.one())])


_RECURRENT_LEFT_OUT = ("stateful", "time_major", "zero_output_for_mask", "return_runtime", "input_dim", "input_length")


def _recurrent_layer(kind: str, config: Mapping[str, Any], notes: list[str]) -> Layer:
    """A recurrent layer for a config. Raises NotImportableError."""
    cls = Layer.members().get(kind)
    if cls is None or not issubclass(cls, RecurrentLayer):
        raise NotImportableError(f"the recurrent layer {kind!r:.60} has no counterpart")
    fields = our_fields(cls, config, left_out=_RECURRENT_LEFT_OUT, notes=notes)
    if kind == "GRU":
        fields["reset_after"] = bool(config.get("reset_after", False))  # the default of versions that do not state it
    return cls(**fields)


@imports("LSTM", "GRU", "SimpleRNN")
def _recurrent(site: Site) -> Values:
    values = [site.builder.as_keras(value) for value in site.values()]
    return site.add(_recurrent_layer(site.call.kind, site.config, site.notes), values)


@imports("Bidirectional")
def _bidirectional(site: Site) -> Values:
    config = site.config
    inner = _inner(config.get("layer"))
    backward = config.get("backward_layer")
    fields: dict[str, Any] = {"layer": _recurrent_layer(*inner, site.notes), "merge_mode": config.get("merge_mode")}
    if backward is not None:
        fields["backward_layer"] = _recurrent_layer(*_inner(backward), site.notes)
    values = [site.builder.as_keras(value) for value in site.values()]
    return site.add(layers.Bidirectional(**fields), values)


def _inner(node: Any) -> tuple[str, Mapping[str, Any]]:
    if not isinstance(node, dict) or not isinstance(node.get("class_name"), str):
        raise NotImportableError("its config names no layer inside")
    config = node.get("config")
    return node["class_name"], config if isinstance(config, dict) else {}


@imports("TimeDistributed")
def _time_distributed(site: Site) -> Values:
    kind, config = _inner(site.config.get("layer"))
    value = site.one()
    inner_builder = OrderedNetBuilder("inner")
    is_map = hasattr(Layer.members().get(kind), "rank")
    rank = value.rank - 1
    data_format = config.get("data_format")
    inner_order = channels_first(rank) if is_map and data_format != "channels_first" else identity(rank)
    value = site.builder.in_order(value, (0, *(axis + 1 for axis in inner_order)))
    step = inner_builder.input("step", [value.their_shape[1:][axis] for axis in range(rank)], "float32", inner_order)
    call = KerasLayerCall(0, "layer", kind, "", config, (CallOutput(-1),))
    result = import_call(
        Site(inner_builder, call, (step,), {}, is_channels_last=site.is_channels_last, notes=site.notes)
    )
    if len(inner_builder.nodes) != 1 or len(result) != 1:
        raise NotImportableError(f"the layer {kind!r:.60} inside it is several layers here")
    layer = inner_builder.nodes[0].layer.replace(name=None)
    return site.add(layers.TimeDistributed(layer=layer), [value], (0, *(axis + 1 for axis in result[0].order)))


@imports("ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D")
def _conv_lstm(site: Site) -> Values:
    cls: Any = Layer.lookup(site.call.kind)
    state = site.spatial_order(cls.rank + 1)
    sequence = (0, *(axis + 1 for axis in state))
    fields = our_fields(cls, site.config, left_out=_RECURRENT_LEFT_OUT, notes=site.notes)
    values = [site.builder.in_order(value, order)
              for value, order in zip(site.values(), (sequence, state, state), strict=False)]  # fmt: skip
    return tuple(
        replace(value, order=sequence if len(value.shape) == len(sequence) else state)
        for value in site.add(cls(**fields), values)
    )


@imports("Attention", "AdditiveAttention")
def _score_attention(site: Site) -> Values:
    cls: Any = Layer.lookup(site.call.kind)
    fields = our_fields(cls, site.config, notes=site.notes)
    fields["causal"] = bool(site.kwargs.get("use_causal_mask", False))
    fields["return_attention_scores"] = bool(site.kwargs.get("return_attention_scores", False))
    return site.add(cls(**fields), [site.builder.as_keras(value) for value in site.values()])


@imports("MultiHeadAttention", "GroupQueryAttention")
def _attention(site: Site) -> Values:
    config = dict(site.config)
    if config.pop("attention_axes", None) not in (None, [1]) or config.pop("use_gate", False):
        raise NotImportableError("attention_axes and use_gate have no counterpart")
    for key in ("query_shape", "value_shape", "key_shape"):
        config.pop(key, None)
    cls: Any = Layer.lookup(site.call.kind)
    if config.pop("sliding_window", None) is not None:
        raise NotImportableError("sliding_window has no counterpart")
    fields = our_fields(cls, config, notes=site.notes)
    names = ("query", "value", "key", "query_mask", "value_mask", "key_mask", "attention_mask")
    given = dict(zip(names, site.args, strict=False)) | {
        k: v for k, v in site.kwargs.items() if isinstance(v, OrderedValue)
    }
    if any(given.get(name) is not None for name in ("query_mask", "value_mask", "key_mask")):
        raise NotImportableError("masks of query, value and key have no counterpart")
    fields["causal"] = bool(site.kwargs.get("use_causal_mask", False))
    fields["return_attention_scores"] = bool(site.kwargs.get("return_attention_scores", False))
    query, value = given["query"], given["value"]
    key = given.get("key") or value
    values = [query] if query == value == key and "attention_mask" not in given else [query, value]
    if key != value or given.get("attention_mask") is not None:
        values.append(key)
    if given.get("attention_mask") is not None:
        values.append(given["attention_mask"])
    return site.add(cls(**fields), [site.builder.as_keras(v) for v in values])
