"""The names of a Keras layer's own weights, in the order in which Keras keeps them.

Its files of weights number them; what each number is follows from the layer's class, its config and how many there are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

__all__ = ["class_of_key", "key_of_class", "own_weight_names", "renamed_weight"]

_KERNEL = ("kernel", "bias")
_RECURRENT = ("kernel", "recurrent_kernel", "bias")
_AFFINE = ("gamma", "beta")

#: class -> the names of all of its weights; a config or a smaller number leaves some out
_WEIGHT_NAMES = {
    **dict.fromkeys(
        ("Dense", "EinsumDense", "Conv1D", "Conv2D", "Conv3D", "Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose",
         "DepthwiseConv1D", "DepthwiseConv2D"), _KERNEL,
    ),
    **dict.fromkeys(("SeparableConv1D", "SeparableConv2D"), ("depthwise_kernel", "pointwise_kernel", "bias")),
    **dict.fromkeys(("LSTM", "GRU", "SimpleRNN", "CuDNNLSTM", "CuDNNGRU", "RNN", "Bidirectional"), _RECURRENT),
    **dict.fromkeys(("ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D"), _RECURRENT),
    "BatchNormalization": (*_AFFINE, "moving_mean", "moving_variance"),
    **dict.fromkeys(("LayerNormalization", "GroupNormalization"), _AFFINE),
    **dict.fromkeys(("RMSNormalization", "AdditiveAttention"), ("scale",)),
    "Attention": ("scale", "concat_score_weight"),
    "Embedding": ("embeddings",),
    "PReLU": ("alpha",),
    "PositionEmbedding": ("embeddings",),
    "Normalization": ("mean", "variance", "count"),
    **dict.fromkeys(("TimeDistributed", "MultiHeadAttention", "GroupQueryAttention"), ()),
}  # fmt: skip
_FLAGS = {"bias": "use_bias", "gamma": "scale", "beta": "center"}
_CLASS_NAMES = {"GroupQueryAttention": "GroupedQueryAttention"}  # public names -> those of the classes
_KERAS_1_NAMES = {
    "W": "kernel", "b": "bias", "U": "recurrent_kernel", "running_mean": "moving_mean",
    "running_std": "moving_variance", "alphas": "alpha",
}  # fmt: skip


def key_of_class(kind: str) -> str:
    """What Keras makes of a class's name for names and files: ``PReLU``: p_re_lu."""
    kind = _CLASS_NAMES.get(kind, kind)
    words = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", re.sub(r"\W+", "", kind))
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", words).lower()


_CLASSES = {key_of_class(name): name for name in _WEIGHT_NAMES}


def class_of_key(key: str) -> str:
    """The class of an automatic name (``conv2d_3``: Conv2D); "" for another name."""
    return _CLASSES.get(re.sub(r"_\d+$", "", key), "")


def own_weight_names(kind: str, count: int, config: Mapping[str, Any] | None = None) -> tuple[str, ...]:
    """The names of the ``count`` weights of a layer of a class; their numbers where nothing tells which they are."""
    numbers = tuple(map(str, range(count)))
    names = _WEIGHT_NAMES.get(kind)
    if names is None:
        return numbers
    if config is not None:
        names = tuple(name for name in names if config.get(_FLAGS.get(name, ""), True) is not False)
    if kind == "Attention" and config is not None:
        kept = {"scale": bool(config.get("use_scale")), "concat_score_weight": config.get("score_mode") == "concat"}
        names = tuple(name for name in _WEIGHT_NAMES[kind] if kept[name])
    if len(names) == count:
        return names
    if config is None and names[-1:] == ("bias",) and len(names) == count + 1:
        return names[:-1]
    if config is None and kind == "BatchNormalization" and count == 2:
        return names[2:]
    return numbers


def renamed_weight(name: str, kind: str) -> str:
    """The name that Keras 2 and 3 have for a weight of Keras 1 (``W``: kernel)."""
    if kind == "Embedding" and name == "W":
        return "embeddings"
    return _KERAS_1_NAMES.get(name, name)
