"""Small models of Keras, and values that the arguments of their layers may have."""

from __future__ import annotations

import copy
import os
import random
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from tests.fuzz.json_changes import exchanged

__all__ = ["ARGUMENTS", "exchanged_arguments", "keras_models", "keras_module"]


def keras_module() -> Any:
    os.environ.setdefault("KERAS_BACKEND", "torch")
    import keras

    return keras


@cache
def keras_models() -> list[Any]:
    """Small models of odd sizes with random weights."""
    keras = keras_module()
    kl = keras.layers
    keras.utils.set_random_seed(0)

    def functional(shape: Sequence[int], body: Callable[[Any], Any]) -> Any:
        x = keras.Input(shape)
        return keras.Model(x, body(x))

    def branches(x: Any) -> Any:
        y = kl.Conv2D(4, 3, padding="same", activation="relu")(x)
        y = kl.Add()([y, kl.DepthwiseConv2D(2, depth_multiplier=2, padding="same")(kl.Conv2D(2, 1)(x))])
        y = kl.Concatenate()([kl.MaxPooling2D(2)(y), kl.AveragePooling2D(2)(y)])
        return kl.Dense(3, activation="softmax")(kl.GlobalAveragePooling2D()(kl.LayerNormalization()(y)))

    def sequence(x: Any) -> Any:
        y = kl.Bidirectional(kl.LSTM(3, return_sequences=True))(x)
        y = kl.TimeDistributed(kl.Dense(4))(kl.GRU(5, return_sequences=True)(y))
        y = kl.Conv1D(4, 2, padding="causal", activation="gelu")(y)
        return kl.Dense(2)(kl.GlobalMaxPooling1D()(y))

    def attention(x: Any) -> Any:
        y = kl.Embedding(11, 6, mask_zero=False)(x)
        y = kl.Add()([y, kl.MultiHeadAttention(2, 3)(y, y)])
        return kl.Dense(3)(kl.Flatten()(kl.LayerNormalization(axis=-1)(y)))

    def operators(x: Any) -> Any:
        y = kl.Dense(4)(x)
        return kl.Concatenate()([kl.Multiply()([y, y * 2 + 1]), y[:, 1:3], kl.Subtract()([y, -y])])

    inner = keras.Sequential([keras.Input((4,)), kl.Dense(4, activation="tanh"), kl.BatchNormalization()])
    models = [
        keras.Sequential([keras.Input((6,)), kl.Dense(5, activation="relu"), kl.BatchNormalization(), kl.Dropout(0.3),
                          kl.Dense(3)]),
        keras.Sequential([keras.Input((9, 7, 3)), kl.Conv2D(4, (3, 2), strides=2), kl.BatchNormalization(),
                          kl.PReLU(shared_axes=[1, 2]), kl.MaxPooling2D((2, 1)), kl.Flatten(), kl.Dense(3)]),
        keras.Sequential([keras.Input((6, 5, 2)), kl.ZeroPadding2D((1, 2)), kl.SeparableConv2D(3, 2), kl.ReLU(6.0),
                          kl.UpSampling2D((2, 1)), kl.Conv2DTranspose(2, 3), kl.Permute((2, 1, 3)),
                          kl.Reshape((-1, 2)), kl.GlobalAveragePooling1D()]),
        functional((9, 7, 3), branches),
        functional((6, 4), sequence),
        functional((5,), attention),
        functional((3,), operators),
        functional((4,), lambda x: kl.Dense(2)(inner(kl.Dense(4)(inner(x))))),
    ]  # fmt: skip
    rng = np.random.default_rng(0)
    for model in models:
        for variable in model.weights:
            if "seed" not in variable.path:
                values = rng.standard_normal(tuple(variable.shape)) * 0.4
                variable.assign(np.abs(values) + 0.5 if "variance" in variable.path else values)
    return models


def exchanged_arguments(config: dict[str, Any], rng: random.Random, count: int) -> dict[str, Any]:
    config = copy.deepcopy(config)
    for _ in range(count):
        names = [name for name in config if name in ARGUMENTS and not isinstance(config[name], dict)]
        if names and rng.random() < 0.75:
            name = rng.choice(names)
            config[name] = rng.choice(ARGUMENTS[name])
        else:
            config = exchanged(config, rng, 1, ARGUMENTS)
    return config


_SIZES = (1, 2, 3, [1, 2], [2, 1], [1, 1], [2, 2])
_TRUTH = (True, False)
_ACTIVATIONS = (
    "relu", "tanh", "sigmoid", "linear", "softmax", "elu", "gelu", "silu", "hard_sigmoid", "softplus", "softsign",
    "leaky_relu", "selu", "relu6", "mish", "exponential", "glu", "sparse_plus", "squareplus", "log_softmax",
    "hard_tanh", "tanh_shrink", "soft_shrink", "hard_shrink", "threshold", "celu", "log_sigmoid", "sparse_sigmoid",
)  # fmt: skip
#: values that arguments of layers may have, by name
ARGUMENTS: dict[str, Sequence[Any]] = {
    "activation": _ACTIVATIONS, "recurrent_activation": _ACTIVATIONS, "use_bias": _TRUTH, "center": _TRUTH,
    "scale": _TRUTH, "trainable": _TRUTH, "return_sequences": _TRUTH, "go_backwards": _TRUTH, "keepdims": _TRUTH,
    "reset_after": _TRUTH, "unit_forget_bias": _TRUTH, "unroll": _TRUTH, "mask_zero": _TRUTH,
    "padding": ("same", "valid", "causal", 1, [1, 2]), "data_format": ("channels_last", "channels_first", None),
    "strides": _SIZES, "kernel_size": _SIZES, "pool_size": _SIZES, "dilation_rate": _SIZES, "size": _SIZES,
    "groups": (1, 2), "axis": (-1, 1, 2, 3, -2, [-1], [1], [2, 3]), "epsilon": (1e-3, 0.1, 1.0),
    "momentum": (0.5, 0.9), "units": (1, 2, 3, 4, 5), "filters": (1, 2, 4, 6), "rate": (0.0, 0.5, 0.9),
    "max_value": (1.0, 6.0, None), "negative_slope": (0.0, 0.1, 1.5), "threshold": (0.0, 0.5),
    "dims": ([1, 2, 3], [3, 2, 1], [2, 1, 3], [1, 3, 2]), "target_shape": ([-1], [-1, 3], [2, -1], [-1, 1]),
    "interpolation": ("nearest", "bilinear"), "merge_mode": ("concat", "sum", "ave", "mul", None),
    "output_padding": (None, 0, 1), "depth_multiplier": (1, 2), "num_heads": (1, 2, 3), "key_dim": (2, 3),
    "value_dim": (2, 3, None), "output_shape": (None, 4, [6]), "rms_scaling": _TRUTH,
    "shared_axes": ([1, 2], [1], [2], None),
}  # fmt: skip
