"""Layers of Keras 1 with the names and arguments of today."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from prototorch.interop.counterparts.keras.row import modern_name, row_of_name
from prototorch.interop.keras.config_import.config_graph import KerasLayerCall

__all__ = ["modern_call"]

#: those whose new name depends on the layer are in its row
_ARGUMENTS = {
    "nb_filter": "filters", "border_mode": "padding", "subsample": "strides", "subsample_length": "strides",
    "filter_length": "kernel_size", "init": "kernel_initializer", "inner_init": "recurrent_initializer",
    "inner_activation": "recurrent_activation", "W_regularizer": "kernel_regularizer", "bias": "use_bias",
    "b_regularizer": "bias_regularizer", "U_regularizer": "recurrent_regularizer", "W_constraint": "kernel_constraint",
    "b_constraint": "bias_constraint", "U_constraint": "recurrent_constraint", "pool_length": "pool_size",
    "stride": "strides", "atrous_rate": "dilation_rate", "dropout_W": "dropout", "dropout_U": "recurrent_dropout",
    "length": "size", "beta_init": "beta_initializer", "gamma_init": "gamma_initializer",
}  # fmt: skip
_OLD_ONLY = frozenset({"weights", "activity_regularizer", "forget_bias_init", "dropout_seed", "return_runtime"})


def modern_call(call: KerasLayerCall) -> KerasLayerCall:
    """The call with Keras 3's class and arguments; one that has them already is not changed."""
    kind = modern_name(call.kind)
    row = row_of_name(kind)
    old_arguments = {**_ARGUMENTS, **(row.old_arguments if row is not None else {})}
    config: dict[str, Any] = {}
    for key, value in call.config.items():
        if key in ("nb_row", "nb_col", "kernel_dim1", "kernel_dim2", "kernel_dim3"):
            continue
        if key in _OLD_ONLY and value is None:
            continue
        if key == "forget_bias_init":
            config["unit_forget_bias"] = value == "one"
            continue
        config[old_arguments.get(key, key)] = value
    if "nb_row" in call.config:
        config["kernel_size"] = [call.config["nb_row"], call.config["nb_col"]]
    if "kernel_dim1" in call.config:
        config["kernel_size"] = [call.config[f"kernel_dim{i}"] for i in (1, 2, 3)]
    if kind == call.kind and config == call.config:
        return call
    return replace(call, kind=kind, config=config)
