"""How Keras' layers store the weights of ours: [*size, in, out] for kernels of convolutions, other layers as here.

The names are those that the readers give, in Keras' own order. What depends on the net, because Keras' images have
their channels last (rows of a Dense behind Flatten), is in `net_layouts`.
Source: the `build` of each layer of Keras 3.
"""

from __future__ import annotations

from collections.abc import Sequence

from prototorch import layers
from prototorch.interop.keras.net_layouts import net_layouts
from prototorch.interop.layouts import LayoutTable, NotExpressibleError, Shapes, WeightLayout
from prototorch.interop.transforms import Chain, ReshapeArray, TransposeArray

__all__ = ["LAYOUTS"]

LAYOUTS = LayoutTable(system="keras", separator="/", net_layouts=net_layouts)
_Layouts = Sequence[WeightLayout]


def _pairs(shapes: Shapes, *names: str) -> list[WeightLayout]:
    """Weights that have the same name and form there, in this order; those that the layer does not have left out."""
    return [WeightLayout((name,), (name,)) for name in names if name in shapes]


def _size_last(rank: int) -> tuple[int, ...]:
    """The axes of [a, b, *size] for an array [*size, b, a]."""
    return (rank + 1, rank, *range(rank))


@LAYOUTS.register(layers.Dense)
def _dense(layer: layers.Dense, shapes: Shapes) -> _Layouts:
    return _pairs(shapes, "kernel", "bias")


@LAYOUTS.register(layers.Conv1D, layers.Conv2D, layers.Conv3D)
def _conv(layer: layers.Layer, shapes: Shapes) -> _Layouts:
    """[*size, in / groups, out] there."""
    transform = TransposeArray(_size_last(len(shapes["kernel"]) - 2))
    return [WeightLayout(("kernel",), ("kernel",), transform), *_pairs(shapes, "bias")]


@LAYOUTS.register(layers.Conv1DTranspose, layers.Conv2DTranspose, layers.Conv3DTranspose)
def _conv_transpose(layer: layers.Conv2DTranspose, shapes: Shapes) -> _Layouts:
    """[*size, out, in] there."""
    if layer.groups != 1:
        raise NotExpressibleError(f"Keras' {type(layer).__name__} has no groups, here it has {layer.groups}")
    return _conv(layer, shapes)


def _depthwise_kernel(name: str, shapes: Shapes, multiplier: int) -> WeightLayout:
    """[*size, channels, multiplier] there."""
    channels_by_multiplier, _, *size = shapes[name]
    split = (channels_by_multiplier // multiplier, multiplier, *size)
    rank = len(size)
    transform = Chain((TransposeArray((rank, rank + 1, *range(rank))), ReshapeArray(shapes[name], split)))
    return WeightLayout((name,), (name,), transform)


@LAYOUTS.register(layers.DepthwiseConv1D, layers.DepthwiseConv2D)
def _depthwise(layer: layers.DepthwiseConv2D, shapes: Shapes) -> _Layouts:
    return [_depthwise_kernel("kernel", shapes, layer.depth_multiplier), *_pairs(shapes, "bias")]


@LAYOUTS.register(layers.SeparableConv1D, layers.SeparableConv2D)
def _separable(layer: layers.SeparableConv2D, shapes: Shapes) -> _Layouts:
    mix = TransposeArray(_size_last(len(shapes["pointwise_kernel"]) - 2))
    return [
        _depthwise_kernel("depthwise_kernel", shapes, layer.depth_multiplier),
        WeightLayout(("pointwise_kernel",), ("pointwise_kernel",), mix),
        *_pairs(shapes, "bias"),
    ]


@LAYOUTS.register(layers.BatchNormalization, layers.LayerNormalization, layers.GroupNormalization)
def _norm(layer: layers.Layer, shapes: Shapes) -> _Layouts:
    return _pairs(shapes, "gamma", "beta", "moving_mean", "moving_variance")


@LAYOUTS.register(layers.RMSNormalization)
def _rms_norm(layer: layers.RMSNormalization, shapes: Shapes) -> _Layouts:
    return [WeightLayout(("scale",), ("scale",))]


@LAYOUTS.register(layers.Embedding)
def _embedding(layer: layers.Embedding, shapes: Shapes) -> _Layouts:
    return _pairs(shapes, "embeddings")


@LAYOUTS.register(layers.PositionEmbedding)
def _position_embedding(layer: layers.PositionEmbedding, shapes: Shapes) -> _Layouts:
    """KerasHub's layer of this name."""
    return [WeightLayout(("position_embeddings",), ("embeddings",))]


@LAYOUTS.register(layers.PReLU)
def _prelu(layer: layers.PReLU, shapes: Shapes) -> _Layouts:
    return _pairs(shapes, "alpha")


@LAYOUTS.register(layers.Activation)
def _activation(layer: layers.Activation, shapes: Shapes) -> _Layouts:
    """Those of the activation inside (see `LayoutTable.layouts`)."""
    return []


@LAYOUTS.register(layers.LSTM, layers.GRU, layers.SimpleRNN)
def _recurrent(layer: layers.Layer, shapes: Shapes) -> _Layouts:
    return _pairs(shapes, "kernel", "recurrent_kernel", "bias")


@LAYOUTS.register(layers.ConvLSTM1D, layers.ConvLSTM2D, layers.ConvLSTM3D)
def _conv_lstm(layer: layers.Layer, shapes: Shapes) -> _Layouts:
    """[*size, in, out] there."""
    transform = TransposeArray(_size_last(len(shapes["kernel"]) - 2))
    kernels = [WeightLayout((name,), (name,), transform) for name in ("kernel", "recurrent_kernel")]
    return [*kernels, *_pairs(shapes, "bias")]


@LAYOUTS.register(layers.Attention, layers.AdditiveAttention)
def _score_attention(layer: layers.Layer, shapes: Shapes) -> _Layouts:
    return _pairs(shapes, "scale", "concat_score_weight")


@LAYOUTS.register(layers.MultiHeadAttention, layers.GroupQueryAttention)
def _attention(layer: layers.Layer, shapes: Shapes) -> _Layouts:
    heads = ("query", "key", "value", "attention_output")
    return _pairs(shapes, *(f"{head}/{weight}" for head in heads for weight in ("kernel", "bias")))


@LAYOUTS.register(layers.Bidirectional)
def _bidirectional(layer: layers.Bidirectional, shapes: Shapes) -> _Layouts:
    ways = zip(("forward_layer", "backward_layer"), layer.directions(), strict=True)
    return [layout for name, inner in ways for layout in _inner_layouts(name, inner, shapes)]


@LAYOUTS.register(layers.TimeDistributed)
def _time_distributed(layer: layers.TimeDistributed, shapes: Shapes) -> _Layouts:
    return _inner_layouts("layer", layer.layer, shapes)


def _inner_layouts(name: str, layer: layers.Layer, shapes: Shapes) -> list[WeightLayout]:
    inner = {
        weight.removeprefix(f"{name}/"): shape for weight, shape in shapes.items() if weight.startswith(f"{name}/")
    }
    return [layout.under(f"{name}/", f"{name}/") for layout in LAYOUTS.layouts(layer, inner)]
