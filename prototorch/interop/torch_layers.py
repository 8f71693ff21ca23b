"""Translators of the layers without a state in time: products, convolutions, pooling, normalisation, shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from prototorch import layers
from prototorch.interop.torch_parts import Call, Site, Untranslatable, fill, translates
from prototorch.layers.conv_transpose import transposed
from prototorch.layers.spatial import Pads, pads_of

_CONV = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
_TURNED = {1: nn.ConvTranspose1d, 2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}
_MAX = {1: nn.MaxPool1d, 2: nn.MaxPool2d, 3: nn.MaxPool3d}
_MEAN = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}
_BATCH = {0: nn.BatchNorm1d, 1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}


# ---------------------------------------------------------------- products


@translates(layers.Dense)
def _dense(site: Site) -> nn.Module:
    made = nn.Linear(site.shape[-1], site.layer.units, bias=site.layer.use_bias)
    fill(made.weight, site.weights["kernel"].T)
    fill(made.bias, site.weights.get("bias"))
    return made


@translates(layers.Embedding)
def _embedding(site: Site) -> nn.Module:
    if site.layer.mask_zero:
        raise Untranslatable("masks are not translated")
    made = nn.Embedding(site.layer.input_dim, site.layer.output_dim)
    fill(made.weight, site.weights["embeddings"])
    return made


class _Positions(nn.Module):
    def __init__(self, site: Site):
        super().__init__()
        table = site.weights["position_embeddings"]
        self.table = nn.Parameter(torch.empty(table.shape))
        fill(self.table, table)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.table[: x.shape[1]]


@translates(layers.PositionEmbedding)
def _positions(site: Site) -> nn.Module:
    return _Positions(site)


# ---------------------------------------------------------------- convolution


def _around(pads: Pads, value: float = 0.0) -> tuple[tuple[int, ...], nn.Module | None]:
    """Padding as a module's own argument; where the two sides differ, as a step before it."""
    if all(a == b for a, b in pads):
        return tuple(a for a, _ in pads), None
    flat = [n for pair in reversed(pads) for n in pair]
    return (0,) * len(pads), Call(lambda x: F.pad(x, flat, value=value))


def _chained(*parts: nn.Module | None) -> nn.Module:
    found = [p for p in parts if p is not None]
    return found[0] if len(found) == 1 else nn.Sequential(*found)


def _convolution(site: Site, kernel: str, filters: int, groups: int, bias: bool) -> nn.Module:
    layer = site.layer
    pads = pads_of(layer.padding, site.shape[2:], layer.kernel_size, layer.strides, layer.dilation_rate)
    inside, before = _around(pads)
    kind: Any = _CONV[site.rank]
    made = kind(site.shape[1], filters, layer.kernel_size, layer.strides, inside, layer.dilation_rate, groups, bias)
    fill(made.weight, site.weights[kernel])
    fill(made.bias, site.weights.get("bias"))
    return _chained(before, made)


@translates(layers.Conv1D, layers.Conv2D, layers.Conv3D)
def _conv(site: Site) -> nn.Module:
    return _convolution(site, "kernel", site.layer.filters, site.layer.groups, site.layer.use_bias)


@translates(layers.DepthwiseConv1D, layers.DepthwiseConv2D)
def _depthwise(site: Site) -> nn.Module:
    channels = site.shape[1]
    return _convolution(site, "kernel", channels * site.layer.depth_multiplier, channels, site.layer.use_bias)


@translates(layers.SeparableConv1D, layers.SeparableConv2D)
def _separable(site: Site) -> nn.Module:
    wide = site.shape[1] * site.layer.depth_multiplier
    first = _convolution(site, "depthwise_kernel", wide, site.shape[1], False)
    second = _CONV[site.rank](wide, site.layer.filters, 1, bias=site.layer.use_bias)
    fill(second.weight, site.weights["pointwise_kernel"])
    fill(second.bias, site.weights.get("bias"))
    return nn.Sequential(first, second)


@translates(layers.Conv1DTranspose, layers.Conv2DTranspose, layers.Conv3DTranspose)
def _conv_transpose(site: Site) -> nn.Module:
    layer, rank = site.layer, site.rank
    paddings = (layer.padding,) * rank if isinstance(layer.padding, str) else layer.padding
    extras = layer.output_padding or (None,) * rank
    each = zip(site.shape[2:], layer.kernel_size, layer.strides, layer.dilation_rate, paddings, extras, strict=True)
    sizes, pads = zip(*(transposed(*one) for one in each), strict=True)
    made = _TURNED[rank](site.shape[1], layer.filters, layer.kernel_size, layer.strides, 0, 0, layer.groups,
                         layer.use_bias, layer.dilation_rate)  # fmt: skip
    fill(made.weight, site.weights["kernel"])
    fill(made.bias, site.weights.get("bias"))
    whole = [(n - 1) * s + (k - 1) * d + 1 for n, k, s, d in
             zip(site.shape[2:], layer.kernel_size, layer.strides, layer.dilation_rate, strict=True)]  # fmt: skip
    if any(a + size > n for (a, _), size, n in zip(pads, sizes, whole, strict=True)):
        raise Untranslatable("an output that reaches beyond its windows is not translated")
    if all(a + b + size == n and a == b for (a, b), size, n in zip(pads, sizes, whole, strict=True)):
        made.padding = tuple(a for a, _ in pads)
        return made
    inner = (..., *(slice(a, a + size) for (a, _), size in zip(pads, sizes, strict=True)))
    return nn.Sequential(made, Call(lambda x: x[inner]))


# ---------------------------------------------------------------- pooling


def _windows(site: Site) -> tuple[Any, Any, Pads]:
    layer = site.layer
    strides = layer.strides or layer.pool_size
    return layer.pool_size, strides, pads_of(layer.padding, site.shape[2:], layer.pool_size, strides, (1,) * site.rank)


@translates(layers.MaxPooling1D, layers.MaxPooling2D, layers.MaxPooling3D)
def _max_pooling(site: Site) -> nn.Module:
    size, strides, pads = _windows(site)
    inside, before = _around(pads, float("-inf"))
    if any(2 * p > k for p, k in zip(inside, size, strict=True)):
        raise Untranslatable("a padding of more than half a window is not translated")
    return _chained(before, _MAX[site.rank](size, strides, inside, ceil_mode=site.layer.ceil_mode))


@translates(layers.AveragePooling1D, layers.AveragePooling2D, layers.AveragePooling3D)
def _average_pooling(site: Site) -> nn.Module:
    size, strides, pads = _windows(site)
    inside, before = _around(pads)
    if before is not None or any(2 * p > k for p, k in zip(inside, size, strict=True)):
        raise Untranslatable("this padding is not translated")
    counted = site.layer.count_include_pad and not isinstance(site.layer.padding, str)
    pool = _MEAN[site.rank]
    return Call(lambda x: pool(x, size, strides, inside, site.layer.ceil_mode, counted))


@translates(layers.GlobalAveragePooling1D, layers.GlobalAveragePooling2D, layers.GlobalAveragePooling3D)
def _global_average(site: Site) -> nn.Module:
    over = tuple(range(2, len(site.shape)))
    return Call(lambda x: x.mean(over, keepdim=site.layer.keepdims))


@translates(layers.GlobalMaxPooling1D, layers.GlobalMaxPooling2D, layers.GlobalMaxPooling3D)
def _global_max(site: Site) -> nn.Module:
    over = tuple(range(2, len(site.shape)))
    return Call(lambda x: x.amax(over, keepdim=site.layer.keepdims))


# ---------------------------------------------------------------- normalisation and dropout


def _scaled(made: Any, site: Site) -> nn.Module:
    fill(made.weight, site.weights.get("gamma"), 1.0)
    fill(made.bias, site.weights.get("beta"))
    return made


@translates(layers.BatchNormalization)
def _batch_norm(site: Site) -> nn.Module:
    if site.layer.axis not in (1, 1 - len(site.shape)):
        raise Untranslatable("only the axis of the channels is translated")
    made: Any = _BATCH[site.rank](site.shape[1], eps=site.layer.epsilon, momentum=1 - site.layer.momentum)
    made.running_mean.copy_(torch.from_numpy(site.weights["moving_mean"]))
    made.running_var.copy_(torch.from_numpy(site.weights["moving_variance"]))
    return _scaled(made, site)


@translates(layers.LayerNormalization)
def _layer_norm(site: Site) -> nn.Module:
    rank = len(site.shape)
    over = sorted(a % rank for a in site.layer.axis)
    if over != list(range(rank - len(over), rank)):
        raise Untranslatable("only the last axes are translated")
    return _scaled(nn.LayerNorm(site.shape[over[0] :], eps=site.layer.epsilon), site)


@translates(layers.GroupNormalization)
def _group_norm(site: Site) -> nn.Module:
    if site.layer.axis not in (1, 1 - len(site.shape)):
        raise Untranslatable("only the axis of the channels is translated")
    groups = site.shape[1] if site.layer.groups == -1 else site.layer.groups
    return _scaled(nn.GroupNorm(groups, site.shape[1], eps=site.layer.epsilon), site)


@translates(layers.LRN)
def _lrn(site: Site) -> nn.Module:
    return nn.LocalResponseNorm(site.layer.size, site.layer.alpha, site.layer.beta, site.layer.k)


@translates(layers.Dropout)
def _dropout(site: Site) -> nn.Module:
    if site.layer.noise_shape is not None:
        raise Untranslatable("noise_shape is not translated")
    return nn.Dropout(site.layer.rate)


@translates(layers.SpatialDropout1D, layers.SpatialDropout2D, layers.SpatialDropout3D)
def _spatial_dropout(site: Site) -> nn.Module:
    return {1: nn.Dropout1d, 2: nn.Dropout2d, 3: nn.Dropout3d}[site.rank](site.layer.rate)


# ---------------------------------------------------------------- shapes and numbers


@translates(layers.Flatten)
def _flatten(site: Site) -> nn.Module:
    return Call(lambda x: x.reshape(x.shape[0], -1))


@translates(layers.Reshape)
def _reshape(site: Site) -> nn.Module:
    return Call(lambda x: x.reshape(x.shape[0], *site.layer.target_shape))


@translates(layers.Permute)
def _permute(site: Site) -> nn.Module:
    return Call(lambda x: x.permute(0, *site.layer.dims))


@translates(layers.RepeatVector)
def _repeat_vector(site: Site) -> nn.Module:
    return Call(lambda x: x[:, None].expand(-1, site.layer.n, -1))


@translates(layers.ZeroPadding1D, layers.ZeroPadding2D, layers.ZeroPadding3D)
def _zero_padding(site: Site) -> nn.Module:
    flat = [n for pair in reversed(site.layer.padding) for n in pair]
    return Call(lambda x: F.pad(x, flat))


@translates(layers.UpSampling1D, layers.UpSampling2D, layers.UpSampling3D)
def _upsampling(site: Site) -> nn.Module:
    if getattr(site.layer, "interpolation", "nearest") != "nearest":
        raise Untranslatable("only the interpolation nearest is translated")
    factor = [float(n) for n in site.layer.size]
    return nn.Upsample(scale_factor=factor[0] if site.rank == 1 else tuple(factor))


@translates(layers.Rescaling)
def _rescaling(site: Site) -> nn.Module:
    shape = (-1, *(1,) * max(site.rank, 0))
    scale, offset = (torch.tensor(v) if len(v) == 1 else torch.tensor(v).reshape(shape)
                     for v in (site.layer.scale, site.layer.offset))  # fmt: skip
    return Call(lambda x: x * scale + offset)


# ---------------------------------------------------------------- several inputs


def _merges(kind: type[layers.Layer], work: Callable[[Sequence[Tensor]], Tensor]) -> None:
    translates(kind)(lambda site: Call(lambda *inputs: work(inputs)))


for _kind, _work in {
    layers.Add: lambda xs: reduce(torch.add, xs),
    layers.Subtract: lambda xs: xs[0] - xs[1],
    layers.Multiply: lambda xs: reduce(torch.mul, xs),
    layers.Average: lambda xs: reduce(torch.add, xs) / len(xs),
    layers.Maximum: lambda xs: reduce(torch.maximum, xs),
    layers.Minimum: lambda xs: reduce(torch.minimum, xs),
}.items():
    _merges(_kind, _work)


@translates(layers.Concatenate)
def _concatenate(site: Site) -> nn.Module:
    return Call(lambda *inputs: torch.cat(inputs, site.layer.axis))
