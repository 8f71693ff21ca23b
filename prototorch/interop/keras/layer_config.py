"""The config that Keras has for one of our layers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prototorch import layers
from prototorch.constraints import Constraint
from prototorch.initializers.base import Initializer
from prototorch.interop.counterparts.keras.row import KerasRow, keras_row
from prototorch.layers.activation import ActivationLayer
from prototorch.layers.base import Layer
from prototorch.layers.channels import MapLayer
from prototorch.model.loading.layout.layout_table import NotExpressibleError
from prototorch.regularizers import Regularizer
from prototorch.schema.block import Block

__all__ = ["activation_function", "layer_config", "serialized"]

#: fields of every layer that are no arguments there, and those that are written in another way
_LEFT_OUT = {"weights", "share", "lr_mult", "decay_mult", "name", "trainable", "data_format"}
#: initializers that Keras does not have
_NOT_KERAS_INITIALIZERS = frozenset({"Bilinear", "PositiveUnitBall", "SparseNormal"})
#: constraints that Keras does not have
_NOT_KERAS_CONSTRAINTS = frozenset({"ClipValue"})


def serialized(module: str, kind: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """An object as Keras writes it into a config."""
    return {"module": module, "class_name": kind, "config": dict(config), "registered_name": None}


def activation_function(layer: ActivationLayer) -> str | None:
    """Keras' name of the function that an activation layer is; None where it has settings that no function has."""
    row = keras_row(type(layer))
    if row is None or not row.function:
        return None
    function = type(layer)(**row.function_settings)
    fields = [field for field in type(layer).specs() if field not in _LEFT_OUT]
    return row.function if all(getattr(layer, field) == getattr(function, field) for field in fields) else None


def layer_config(layer: Layer, name: str) -> tuple[str, dict[str, Any]]:
    """The class and the config. Raises NotExpressibleError where Keras has no such layer, or not with these fields.

    An explicit padding is not among them (see `split_layers`).
    """
    config: dict[str, Any] = {"name": name, "trainable": layer.trainable, "dtype": "float32"}
    if isinstance(layer, layers.Activation):
        layer = layer.activation
    kind, row = layer.type_name(), keras_row(type(layer))
    if row is None:
        raise NotExpressibleError(f"Keras has no layer {kind}")
    if row.reason:
        raise NotExpressibleError(row.reason)
    if layer.own_settings():
        raise NotExpressibleError(f"Keras' {kind} has no {', '.join(layer.own_settings())}")
    if isinstance(layer, ActivationLayer) and not row.has_class:
        function = activation_function(layer)
        if function is None:
            reason = row.other_settings or f"Keras has no {kind} with other settings than its defaults"
            raise NotExpressibleError(reason)
        return "Activation", config | {"activation": function}
    if row.instead is not None and (other := row.instead(layer)) is not layer:
        return layer_config(other, name)
    config |= _fields(layer, row)
    if "dilation_rate" in config and max(layer.strides) > 1 and max(layer.dilation_rate) > 1:  # type: ignore[attr-defined]
        raise NotExpressibleError("Keras' convolutions have no strides together with a dilation_rate")
    if row.write is not None:
        row.write(layer, config)
    if data_format := row.written_data_format(type(layer)):
        config["data_format"] = "channels_last" if has_channels_last(layer) else data_format
    return row.name_of(type(layer)), config


def has_channels_last(layer: Layer) -> bool:
    """Whether it is a layer over a map of a number of axes that its class tells, and has the channels behind them."""
    return isinstance(layer, MapLayer) and hasattr(type(layer), "rank") and layer.has_channels_last(0)


def _fields(layer: Layer, row: KerasRow) -> dict[str, Any]:
    config: dict[str, Any] = {}
    of_call = {pair.ours for pair in row.call_fields.values()}
    for field in type(layer).specs():
        value = getattr(layer, field)
        if field in _LEFT_OUT or field in layer.own_fields or field in of_call:
            continue
        if field in row.fixed:
            if value not in (row.fixed[field], None):
                raise NotExpressibleError(f"Keras' {layer.type_name()} has no {field}, here it is {_text(value)}")
            continue
        config[field] = _value(row, field, value)
    return config


def _value(row: KerasRow, field: str, value: Any) -> Any:
    if isinstance(value, ActivationLayer):
        function = activation_function(value)
        if function is None and keras_row(type(value)) is None:
            raise NotExpressibleError(f"{field}: Keras has no function {type(value).__name__}")
        if function is None:
            raise NotExpressibleError(f"{field}: {type(value).__name__} with settings is no function of Keras")
        return function
    if isinstance(value, Initializer):
        if type(value).__name__ in _NOT_KERAS_INITIALIZERS:
            return None  # Keras' default; it has no effect on the weights that are written
        return serialized("keras.initializers", type(value).__name__, _plain_fields(value))
    if isinstance(value, Regularizer):
        return serialized("keras.regularizers", type(value).__name__, _plain_fields(value))
    if isinstance(value, Constraint):
        if type(value).__name__ in _NOT_KERAS_CONSTRAINTS:
            raise NotExpressibleError(f"{field}: Keras has no constraint {type(value).__name__}")
        if not row.keeps_constraints:
            return None  # its axes are those of our kernels
        return serialized("keras.constraints", type(value).__name__, _plain_fields(value))
    if isinstance(value, Layer):
        kind, config = layer_config(value, value.name or type(value).__name__.lower())
        return serialized("keras.layers", kind, config)
    if isinstance(value, tuple):
        return [_value(row, field, item) for item in value]
    return value


def _plain_fields(block: Block) -> dict[str, Any]:
    """The fields of an initializer, regularizer or constraint; objects inside it as Keras writes them."""
    config = {}
    for field in type(block).specs():
        value = getattr(block, field)
        if isinstance(value, Block):
            value = serialized("keras.initializers", type(value).__name__, _plain_fields(value))
        config[field] = list(value) if isinstance(value, tuple) else value
    return config


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value!s:.60}"
