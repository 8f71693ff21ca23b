"""Keras' attention."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prototorch import layers
from prototorch.interop.counterparts.keras.row import KerasRow
from prototorch.interop.counterparts.keras.weights import unless_off
from prototorch.interop.counterparts.row import CounterpartRows, FieldPair, WeightPair, same_weights
from prototorch.interop.keras.config_import.axis_orders import OrderedValue
from prototorch.interop.keras.config_import.config_fields import NotImportableError
from prototorch.interop.keras.config_import.site import KerasLayerImport, Values
from prototorch.layers.base import Layer

#: the causal rule and the scores are arguments of the call there
_CALL_FIELDS = {
    "use_causal_mask": FieldPair("causal", False, is_always_stated=True),
    "return_attention_scores": FieldPair("return_attention_scores", False),
}
_HEADS = ("query", "key", "value", "attention_output")
_PROJECTIONS = tuple(
    WeightPair(f"{head}/{weight}", f"{head}/{weight}", is_stored=unless_off("use_bias") if weight == "bias" else None)
    for head in _HEADS
    for weight in ("kernel", "bias")
)


def _call_on_list(layer: Layer, inputs: list[Any]) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    return (list(inputs),), {}


def _read_scores(site: KerasLayerImport) -> Values:
    cls = site.layer_class
    return site.add(cls(**site.fields(cls)), [site.builder.as_keras(value) for value in site.values()])


def _call_on_query(layer: Layer, inputs: list[Any]) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    query, *rest = inputs
    value = rest[0] if rest else query
    return (query, value), dict(zip(("key", "attention_mask"), rest[1:], strict=False))


def _read_projections(site: KerasLayerImport) -> Values:
    if site.config.get("attention_axes") not in (None, [1]) or site.config.get("use_gate"):
        raise NotImportableError("attention_axes and use_gate have no counterpart")
    if site.config.get("sliding_window") is not None:
        raise NotImportableError("sliding_window has no counterpart")
    for name, value in site.config.items():
        if name.endswith("_initializer") and value is None:
            raise NotImportableError(f"{name}=None, of which Keras makes no projection")
    cls = site.layer_class
    fields = site.fields(cls)
    names = ("query", "value", "key", "query_mask", "value_mask", "key_mask", "attention_mask")
    arguments = dict(zip(names, site.args, strict=False)) | {
        k: v for k, v in site.kwargs.items() if isinstance(v, OrderedValue)
    }
    if any(arguments.get(name) is not None for name in ("query_mask", "value_mask", "key_mask")):
        raise NotImportableError("masks of query, value and key have no counterpart")
    query, value = arguments["query"], arguments["value"]
    key = arguments.get("key") or value
    values = [query] if query == value == key and "attention_mask" not in arguments else [query, value]
    if key != value or arguments.get("attention_mask") is not None:
        values.append(key)
    if arguments.get("attention_mask") is not None:
        values.append(arguments["attention_mask"])
    return site.add(cls(**fields), [site.builder.as_keras(v) for v in values])


def _projection_row(layer: type[Layer], attribute: str, name_in_files: str = "") -> KerasRow:
    """attribute: the name of the layer's attribute that holds a projection."""
    return KerasRow(
        layers=(layer,),
        name_in_files=name_in_files,
        weights=_PROJECTIONS,
        parts={attribute.format(head.removeprefix("attention_")): f"{head}/" for head in _HEADS},
        call_fields=_CALL_FIELDS,
        call=_call_on_query,
        call_arguments=("query", "value", "key", "attention_mask", "return_attention_scores"),
        positional_arguments=7,
        read=_read_projections,
        left_out=("attention_axes", "use_gate", "sliding_window", "query_shape", "value_shape", "key_shape"),
    )


ROWS = CounterpartRows(
    system="keras",
    rows=(
        _projection_row(layers.MultiHeadAttention, "{}_dense"),
        _projection_row(layers.GroupQueryAttention, "_{}_dense", "GroupedQueryAttention"),
        KerasRow(
            layers=(layers.Attention,),
            weights=(
                WeightPair("scale", "scale", is_stored=lambda config: bool(config.get("use_scale"))),
                WeightPair(
                    "concat_score_weight",
                    "concat_score_weight",
                    is_stored=lambda config: config.get("score_mode") == "concat",
                ),
            ),
            call_fields=_CALL_FIELDS,
            call=_call_on_list,
            call_arguments=("return_attention_scores",),
            read=_read_scores,
        ),
        KerasRow(
            layers=(layers.AdditiveAttention,),
            weights=same_weights("scale"),
            call_fields=_CALL_FIELDS,
            call=_call_on_list,
            call_arguments=("return_attention_scores",),
            read=_read_scores,
        ),
    ),
)
