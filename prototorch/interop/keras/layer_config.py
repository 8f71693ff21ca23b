"""The config that Keras has for one of our layers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from prototorch import layers
from prototorch.constraints import Constraint
from prototorch.initializers.base import Initializer
from prototorch.interop.keras.layer_classes import (
    ACTIVATIONS,
    FUNCTION_SETTINGS,
    IMAGE_LAYERS,
    NO_DATA_FORMAT,
    NOT_IN_KERAS,
    NOT_KERAS_INITIALIZERS,
    SAME_IN_KERAS,
)
from prototorch.interop.layouts import NotExpressibleError
from prototorch.layers.activation import ActivationLayer
from prototorch.layers.base import Layer
from prototorch.layers.recurrent import RecurrentLayer
from prototorch.regularizers import Regularizer
from prototorch.schema.block import Block

__all__ = ["activation_function", "layer_config", "serialized"]

#: fields of every layer that are no arguments there, and those that are written in another way
_LEFT_OUT = {"weights", "share", "lr_mult", "decay_mult", "name", "trainable"}
#: fields that Keras does not have -> the only value that it can express
_FIXED = {
    "ceil_mode": False, "count_include_pad": False, "groups": 1, "offset_rounding": "down", "keep_aspect_ratio": False,
    "round_pixels": False,
}  # fmt: skip


#: layers whose causal rule and scores are arguments of the call there
_ATTENTION = (layers.MultiHeadAttention, layers.GroupQueryAttention, layers.Attention, layers.AdditiveAttention)


def serialized(module: str, kind: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """An object as Keras writes it into a config."""
    return {"module": module, "class_name": kind, "config": dict(config), "registered_name": None}


def activation_function(layer: ActivationLayer) -> str | None:
    """Keras' name of the function that an activation layer is; None where it has settings that no function has."""
    name = ACTIVATIONS.get(layer.type_name())
    defaults = type(layer)(**FUNCTION_SETTINGS.get(type(layer).__name__, {}))
    fields = [field for field in type(layer).specs() if field not in _LEFT_OUT]
    is_default = all(getattr(layer, field) == getattr(defaults, field) for field in fields)
    return name if is_default else None


def layer_config(layer: Layer, name: str) -> tuple[str, dict[str, Any]]:
    """The class and the config. Raises NotExpressibleError where Keras has no such layer, or not with these fields.

    An explicit padding is not among them (see `split_layers`).
    """
    kind = layer.type_name()
    config: dict[str, Any] = {"name": name, "trainable": layer.trainable, "dtype": "float32"}
    if kind in NOT_IN_KERAS:
        raise NotExpressibleError(NOT_IN_KERAS[kind])
    if isinstance(layer, layers.Activation):
        layer = layer.activation
        kind = layer.type_name()
    if layer.own_settings():
        raise NotExpressibleError(f"Keras' {kind} has no {', '.join(layer.own_settings())}")
    if isinstance(layer, ActivationLayer) and not isinstance(
        layer, layers.PReLU | layers.ReLU | layers.LeakyReLU | layers.ELU | layers.Softmax
    ):
        function = activation_function(layer)
        if function is None and isinstance(layer, layers.GELU):
            raise NotExpressibleError(
                "Keras' Activation has the exact gelu alone; approximate: tanh is another function"
            )
        if function is None:
            raise NotExpressibleError(f"Keras has no {kind} with other settings than its defaults")
        return "Activation", config | {"activation": function}
    if kind not in SAME_IN_KERAS:
        raise NotExpressibleError(f"Keras has no {kind}")
    if isinstance(layer, layers.Rescaling) and len(layer.scale) + len(layer.offset) > 2:
        layer = _normalization_of(layer)
        kind = "Normalization"
    if kind.startswith("SpatialDropout"):
        del config["trainable"]
    config |= _fields(layer, kind)
    _adjust(layer, config)
    if (hasattr(type(layer), "rank") and kind not in NO_DATA_FORMAT) or kind in IMAGE_LAYERS:
        config["data_format"] = "channels_first"
    if isinstance(layer, layers.Flatten):
        config["data_format"] = "channels_last"  # leaves the axes in the order that they have
    return kind, config


def _normalization_of(layer: layers.Rescaling) -> layers.Normalization:
    """The normalization that a rescaling channel by channel is."""
    scale, offset = np.broadcast_arrays(np.asarray(layer.scale), np.asarray(layer.offset))
    if (scale <= 0).any():
        raise NotExpressibleError("Keras' Rescaling has one number for all channels, and no scale here is negative")
    return layers.Normalization(mean=(-offset / scale).tolist(), variance=(1 / scale**2).tolist())


def _adjust(layer: Layer, config: dict[str, Any]) -> None:
    """Write the arguments that have another form there."""
    if "dilation_rate" in config and max(layer.strides) > 1 and max(layer.dilation_rate) > 1:  # type: ignore[attr-defined]
        raise NotExpressibleError("Keras' convolutions have no strides together with a dilation_rate")
    if isinstance(layer, layers.ReLU) and layer.negative_slope < 0:
        raise NotExpressibleError(f"Keras' ReLU has no negative_slope below 0, here it is {layer.negative_slope:g}")
    if isinstance(layer, layers.Dot) and len(layer.axes) == 1:
        config["axes"] = layer.axes[0]
    elif isinstance(layer, layers.Rescaling):
        config |= {"scale": layer.scale[0], "offset": layer.offset[0]}
    elif isinstance(layer, layers.ZeroPadding1D | layers.Cropping1D | layers.UpSampling1D):
        name = next(name for name in ("padding", "cropping", "size") if name in config)
        config[name] = config[name][0]
    elif isinstance(layer, layers.RMSNormalization):
        if len(layer.axis) != 1:
            raise NotExpressibleError("Keras' RMSNormalization is over one axis alone")
        config["axis"] = layer.axis[0]
    elif isinstance(layer, layers.GaussianNoise) and layer.stddev > 1:
        raise NotExpressibleError(f"Keras' GaussianNoise has a stddev of at most 1, here it is {layer.stddev:g}")
    elif isinstance(layer, layers.Normalization):
        mean, variance = np.broadcast_arrays(np.asarray(layer.mean), np.asarray(layer.variance))
        is_one = mean.size == 1
        config |= {"axis": None if is_one else layer.axis, "mean": mean.item() if is_one else mean.tolist(),
                   "variance": variance.item() if is_one else variance.tolist()}  # fmt: skip


def _fields(layer: Layer, kind: str) -> dict[str, Any]:
    config: dict[str, Any] = {}
    for field in type(layer).specs():
        value = getattr(layer, field)
        if field in _LEFT_OUT or field in layer.own_fields:
            continue
        if field in _FIXED and not _has_argument(kind, field):
            if value not in (_FIXED[field], None):
                raise NotExpressibleError(f"Keras' {kind} has no {field}, here it is {_text(value)}")
            continue
        if isinstance(layer, _ATTENTION) and field in ("causal", "return_attention_scores"):
            continue  # arguments of the call there
        config[field] = _value(layer, field, value)
    return config


def _has_argument(kind: str, field: str) -> bool:
    return field == "groups" and kind in ("Conv1D", "Conv2D", "Conv3D", "GroupNormalization")


def _value(layer: Layer, field: str, value: Any) -> Any:
    if isinstance(value, ActivationLayer):
        function = activation_function(value)
        if function is None:
            raise NotExpressibleError(f"{field}: {type(value).__name__} with settings is no function of Keras")
        return function
    if isinstance(value, Initializer):
        if type(value).__name__ in NOT_KERAS_INITIALIZERS:
            return None  # Keras' default; it has no effect on the weights that are written
        return serialized("keras.initializers", type(value).__name__, _plain_fields(value))
    if isinstance(value, Regularizer):
        return serialized("keras.regularizers", type(value).__name__, _plain_fields(value))
    if isinstance(value, Constraint):
        if not isinstance(layer, layers.Dense | layers.Embedding | RecurrentLayer):
            return None  # its axes are those of our kernels
        return serialized("keras.constraints", type(value).__name__, _plain_fields(value))
    if isinstance(value, Layer):
        kind, config = layer_config(value, value.name or type(value).__name__.lower())
        return serialized("keras.layers", kind, config)
    if isinstance(value, tuple):
        return [_value(layer, field, item) for item in value]
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
