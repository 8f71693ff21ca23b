"""The arguments of Keras' layers as fields of ours: activations, initializers, regularizers, constraints, numbers."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

import numpy as np

from prototorch import layers
from prototorch.constraints import Constraint
from prototorch.errors import UsageError
from prototorch.initializers import Initializer
from prototorch.interop.counterparts.keras.row import activation_of_function, class_of_name, keras_row
from prototorch.layers.activation import ActivationLayer
from prototorch.layers.base import Layer
from prototorch.regularizers import Regularizer
from prototorch.schema.block import Block
from prototorch.schema.neutral_arguments import neutral_arguments
from prototorch.schema.types import Optional

__all__ = [
    "IGNORED_ARGUMENTS",
    "MASK_ARGUMENTS",
    "OBJECT_FAMILIES",
    "READ_ELSEWHERE",
    "NotImportableError",
    "activation_layer",
    "is_of_keras_3",
    "object_of",
    "our_fields",
    "plain_name",
    "shortest_decimal",
]

#: arguments that change nothing here: element types, hints for speed, seeds, what `trace` finds by itself
IGNORED_ARGUMENTS = frozenset({
    "name", "dtype", "trainable", "batch_input_shape", "batch_shape", "input_dtype", "input_shape", "build_config",
    "data_format", "dim_ordering", "implementation", "consume_less", "unroll", "seed", "synchronized", "fused",
    "use_cudnn_on_gpu", "use_cudnn", "flash_attention", "autocast", "lora_rank", "lora_alpha", "quantization_config",
    "virtual_batch_size", "input_length", "input_dim", "sparse", "ragged", "optional", "bounding_box_format",
})  # fmt: skip
#: arguments that are read elsewhere: of data_format the order of axes follows (`KerasLayerImport.spatial_order`)
READ_ELSEWHERE = ("name", "trainable", "seed", "data_format")
#: arguments of calls that are masks
MASK_ARGUMENTS = ("mask", "query_mask", "value_mask", "key_mask")
_OLD_NAMES = {"glorot": "glorot_uniform", "zero": "zeros", "one": "ones", "normal": "random_normal",
              "uniform": "random_uniform", "random_normal": "random_normal"}  # fmt: skip
_VARIANCE_SCALING = {
    "GlorotUniform": (1, "fan_avg", "uniform"), "GlorotNormal": (1, "fan_avg", "truncated_normal"),
    "HeUniform": (2, "fan_in", "uniform"), "HeNormal": (2, "fan_in", "truncated_normal"),
    "LecunUniform": (1, "fan_in", "uniform"), "LecunNormal": (1, "fan_in", "truncated_normal"),
}  # fmt: skip
#: what the names of arguments end with whose values are members of a family
OBJECT_FAMILIES: tuple[tuple[str, type[Block]], ...] = (
    ("initializer", Initializer),
    ("regularizer", Regularizer),
    ("constraint", Constraint),
)


class NotImportableError(Exception):
    """A layer, or an argument of it, that has no counterpart here; the text is the reason."""


def plain_name(value: Any) -> str | None:
    """The name of a function or class in a config: text, or Keras 3's form of a function."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and value.get("class_name") == "function" and isinstance(value.get("config"), str):
        return value["config"]
    return None


def is_of_keras_3(config: Mapping[str, Any]) -> bool:
    """Whether Keras 3 wrote the config of a layer: its dtype is a policy of a class that older versions do not have."""
    policy = config.get("dtype")
    return isinstance(policy, dict) and str(policy.get("class_name")).endswith("DTypePolicy")


def activation_layer(value: Any) -> ActivationLayer:
    """The activation of a config: a function's name, or a layer. Raises NotImportableError for any other."""
    name = plain_name(value)
    if value is None:
        return layers.Linear()
    if name is not None:
        layer = activation_of_function(name)
        if layer is None:
            raise NotImportableError(f"the activation {name!r:.60} has no counterpart")
        return layer
    if isinstance(value, dict) and isinstance(value.get("class_name"), str):
        kind, config = value["class_name"], value.get("config") or {}
        if value.get("registered_name") not in (None, kind) or ">" in str(value.get("registered_name")):
            raise NotImportableError(f"the activation {kind!r:.60} is a class of somebody's own")
        cls = class_of_name(kind)
        if kind == "Activation":
            return activation_layer(config.get("activation"))
        if cls is not None and issubclass(cls, ActivationLayer) and isinstance(config, dict):
            return cls(**our_fields(cls, config))
        raise NotImportableError(f"the activation {kind!r:.60} has no counterpart")
    raise NotImportableError(f"the activation {value!r:.60} has no counterpart")


def object_of(family: type[Block], value: Any, notes: list[str] | None = None) -> Any:
    """A member of a family of ours (initializer, ...) for an object of a config; None for None.

    notes: receives a sentence where there is no counterpart, and None is returned; without it NotImportableError is
    raised.
    """
    if value is None:
        return None
    name = plain_name(value)
    config: Mapping[str, Any] = {}
    if name is None and isinstance(value, dict):
        name, config = value.get("class_name"), value.get("config") or {}
    try:
        if not isinstance(name, str) or not isinstance(config, dict) or ">" in str(value):
            raise UsageError("")
        name, config = _short_form(name, config)
        cls = family.lookup(_OLD_NAMES.get(name, name))
        fields = {k: _nested_object(family, v) for k, v in config.items() if k in cls.specs() and k != "seed"}
        return cls.from_name(name) if not fields and name != cls.__name__ else cls(**fields)
    except UsageError as error:
        reason = f"the {family.__name__.lower()} {str(name or value)[:60]!r} has no counterpart{_because(error)}"
        if notes is None:
            raise NotImportableError(reason) from None
        notes.append(reason)
        return None


def _because(error: UsageError) -> str:
    return f" ({error})" if str(error) and "named" not in str(error) else ""


def _nested_object(family: type[Block], value: Any) -> Any:
    return object_of(family, value) if isinstance(value, dict) else shortest_decimal(value)


def _short_form(name: str, config: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """An initializer or regularizer under its usual name, where old versions write the general one."""
    if name == "VarianceScaling":
        key = config.get("scale"), config.get("mode"), config.get("distribution")
        usual = next((n for n, k in _VARIANCE_SCALING.items() if k == key), None)
        return (usual, {}) if usual is not None else (name, config)
    if name == "L1L2" and not config.get("l1"):
        return "L2", {"l2": config.get("l2", 0.0)}
    if name == "L1L2" and not config.get("l2"):
        return "L1", {"l1": config.get("l1", 0.0)}
    return name, config


def shortest_decimal(value: Any) -> Any:
    """A float that is a float32 value as the shortest decimal of that: 0.001, not 0.0010000000474974513."""
    if isinstance(value, float) and isfinite(value) and abs(value) < 1e30 and float(np.float32(value)) == value:
        return float(str(np.float32(value)))
    return value


def our_fields(
    cls: type[Layer],
    config: Mapping[str, Any],
    notes: list[str] | None = None,
) -> dict[str, Any]:
    """The fields of a layer of ours for the arguments of Keras' layer, as its row says.

    notes: receives what is left out without changing what the net computes (an initializer that does not exist here).
    Raises NotImportableError for an argument without counterpart that is not off.
    """
    specs, fields, sink = cls.specs(), {}, notes if notes is not None else []
    row = keras_row(cls)
    new_names, left_out = (row.old_arguments, row.left_out) if row is not None else ({}, ())
    neutral = neutral_arguments(cls)
    for key, value in config.items():
        name = new_names.get(key, key)
        if key in left_out or (name in IGNORED_ARGUMENTS and name not in specs) or name in READ_ELSEWHERE:
            continue
        if name not in specs:
            if value is None or value is False or (key in neutral and neutral[key].accepts(value)):
                continue
            if key in ("input_length", "kernel_initializer") or (key == "fill_mode" and not hasattr(cls, "fill_mode")):
                continue
            if key.startswith("kernel_") and f"depthwise_{key[7:]}" in specs:
                continue  # Keras lists them for depthwise layers, which have no kernel of this name
            raise NotImportableError(f"{key}={value!s:.60} has no counterpart")
        family = next((f for ending, f in OBJECT_FAMILIES if key.endswith(ending)), None)
        if family is Constraint and hasattr(cls, "rank") and value is not None:
            sink.append(f"the {key} of a {cls.__name__} is left out: its axes are those of Keras' kernel")
        elif family is not None:
            member = object_of(family, value, sink)
            if member is not None:
                fields[name] = member
        elif key.endswith("activation"):
            fields[name] = activation_layer(value)
        elif value is None and isinstance(specs[name].type, Optional):
            continue
        elif value is None:
            raise NotImportableError(f"{key}=None is no value of this argument")
        else:
            fields[name] = shortest_decimal(value)
    return fields
