"""Layers of Keras 1 with the names and arguments of today."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from prototorch.interop.keras.config_import.config_graph import KerasLayerCall

__all__ = ["modern_call"]

_CLASSES = {
    "Convolution1D": "Conv1D", "Convolution2D": "Conv2D", "Convolution3D": "Conv3D",
    "Deconvolution2D": "Conv2DTranspose",
    "SeparableConvolution2D": "SeparableConv2D", "AtrousConvolution2D": "Conv2D", "AtrousConvolution1D": "Conv1D",
    "Conv2DTranspose": "Conv2DTranspose", "SeparableConvolution1D": "SeparableConv1D", "TimeDistributedDense": "Dense",
    "Convolution2DTranspose": "Conv2DTranspose", "Convolution3DTranspose": "Conv3DTranspose",
    "GlobalAvgPool1D": "GlobalAveragePooling1D", "GlobalAvgPool2D": "GlobalAveragePooling2D",
    "MaxPool2D": "MaxPooling2D",
    "GlobalMaxPool1D": "GlobalMaxPooling1D", "GlobalMaxPool2D": "GlobalMaxPooling2D", "AvgPool2D": "AveragePooling2D",
    "MaxPool1D": "MaxPooling1D", "AvgPool1D": "AveragePooling1D", "BatchNormalizationV1": "BatchNormalization",
    "BatchNormalizationV2": "BatchNormalization", "SyncBatchNormalization": "BatchNormalization",
}  # fmt: skip
_ARGUMENTS = {
    "nb_filter": "filters", "border_mode": "padding", "subsample": "strides", "subsample_length": "strides",
    "filter_length": "kernel_size", "init": "kernel_initializer", "inner_init": "recurrent_initializer",
    "inner_activation": "recurrent_activation", "W_regularizer": "kernel_regularizer", "bias": "use_bias",
    "b_regularizer": "bias_regularizer", "U_regularizer": "recurrent_regularizer", "W_constraint": "kernel_constraint",
    "b_constraint": "bias_constraint", "U_constraint": "recurrent_constraint", "pool_length": "pool_size",
    "stride": "strides", "atrous_rate": "dilation_rate", "dropout_W": "dropout", "dropout_U": "recurrent_dropout",
    "length": "size", "beta_init": "beta_initializer", "gamma_init": "gamma_initializer",
}  # fmt: skip
#: arguments whose new name depends on the layer
_OF_LAYER = {
    ("Dense", "output_dim"): "units", ("LSTM", "output_dim"): "units", ("GRU", "output_dim"): "units",
    ("SimpleRNN", "output_dim"): "units", ("Dropout", "p"): "rate", ("SpatialDropout2D", "p"): "rate",
    ("SpatialDropout1D", "p"): "rate", ("GaussianDropout", "p"): "rate", ("GaussianNoise", "sigma"): "stddev",
    ("Embedding", "W_regularizer"): "embeddings_regularizer", ("Embedding", "W_constraint"): "embeddings_constraint",
    ("Embedding", "init"): "embeddings_initializer",
}  # fmt: skip
_OLD_ONLY = frozenset({"weights", "activity_regularizer", "forget_bias_init", "dropout_seed", "return_runtime"})


def modern_call(call: KerasLayerCall) -> KerasLayerCall:
    """The call with Keras 3's class and arguments; one that has them already is not changed."""
    kind = _CLASSES.get(call.kind, call.kind)
    config: dict[str, Any] = {}
    for key, value in call.config.items():
        if key in ("nb_row", "nb_col", "kernel_dim1", "kernel_dim2", "kernel_dim3"):
            continue
        if key in _OLD_ONLY and value is None:
            continue
        if key == "forget_bias_init":
            config["unit_forget_bias"] = value == "one"
            continue
        config[_OF_LAYER.get((kind, key)) or (key if kind == "Embedding" else _ARGUMENTS.get(key, key))] = value
    if "nb_row" in call.config:
        config["kernel_size"] = [call.config["nb_row"], call.config["nb_col"]]
    if "kernel_dim1" in call.config:
        config["kernel_size"] = [call.config[f"kernel_dim{i}"] for i in (1, 2, 3)]
    if kind == call.kind and config == call.config:
        return call
    return replace(call, kind=kind, config=config)
