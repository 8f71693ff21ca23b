"""Translators of the layers without a state in time: dense, convolution, pooling, normalization, shapes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from prototorch import layers
from prototorch.interop.torch_translator import (
    FunctionModule,
    LayerInstance,
    UntranslatableError,
    register_translator,
)
from prototorch.layers.conv_transpose import transposed_conv_shape
from prototorch.layers.windows import Pads, resolve_padding

_CONV = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
_CONV_TRANSPOSE = {1: nn.ConvTranspose1d, 2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}
_MAX = {1: nn.MaxPool1d, 2: nn.MaxPool2d, 3: nn.MaxPool3d}
_AVG = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}
_BATCH = {0: nn.BatchNorm1d, 1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}


# ---------------------------------------------------------------- products


@register_translator(layers.Dense)
def _dense(site: LayerInstance) -> nn.Module:
    return site.load(nn.Linear(site.shape[-1], site.layer.units, bias=site.layer.use_bias))


@register_translator(layers.Embedding)
def _embedding(site: LayerInstance) -> nn.Module:
    if site.layer.mask_zero:
        raise UntranslatableError("masks are not translated")
    return site.load(nn.Embedding(site.layer.input_dim, site.layer.output_dim))


class _PositionEmbedding(nn.Module):
    def __init__(self, site: LayerInstance):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(site.weights["position_embeddings"].shape))
        site.load(self)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.weight[: x.shape[1]]


@register_translator(layers.PositionEmbedding)
def _positions(site: LayerInstance) -> nn.Module:
    return _PositionEmbedding(site)


# ---------------------------------------------------------------- convolution


def _split_padding(pads: Pads, value: float = 0.0) -> tuple[tuple[int, ...], nn.Module | None]:
    """Padding as a module's own argument; where the two sides differ, as a module before it."""
    if all(a == b for a, b in pads):
        return tuple(a for a, _ in pads), None
    flat = [n for pair in reversed(pads) for n in pair]
    return (0,) * len(pads), FunctionModule(lambda x: F.pad(x, flat, value=value))


def _chain(*parts: nn.Module | None) -> nn.Module:
    modules = [p for p in parts if p is not None]
    return modules[0] if len(modules) == 1 else nn.Sequential(*modules)


def _convolution(site: LayerInstance, filters: int, groups: int, bias: bool) -> tuple[nn.Module | None, nn.Module]:
    """A convolution without its weights, and the padding before it where it needs one."""
    layer = site.layer
    pads = resolve_padding(layer.padding, site.shape[2:], layer.kernel_size, layer.strides, layer.dilation_rate)
    inside, before = _split_padding(pads)
    kind: Any = _CONV[site.rank]
    return before, kind(
        site.shape[1], filters, layer.kernel_size, layer.strides, inside, layer.dilation_rate, groups, bias
    )


@register_translator(layers.Conv1D, layers.Conv2D, layers.Conv3D)
def _conv(site: LayerInstance) -> nn.Module:
    before, module = _convolution(site, site.layer.filters, site.layer.groups, site.layer.use_bias)
    return _chain(before, site.load(module))


@register_translator(layers.DepthwiseConv1D, layers.DepthwiseConv2D)
def _depthwise(site: LayerInstance) -> nn.Module:
    channels = site.shape[1]
    before, module = _convolution(site, channels * site.layer.depth_multiplier, channels, site.layer.use_bias)
    return _chain(before, site.load(module))


@register_translator(layers.SeparableConv1D, layers.SeparableConv2D)
def _separable(site: LayerInstance) -> nn.Module:
    wide = site.shape[1] * site.layer.depth_multiplier
    before, first = _convolution(site, wide, site.shape[1], False)
    second = _CONV[site.rank](wide, site.layer.filters, 1, bias=site.layer.use_bias)
    return _chain(before, site.load(nn.Sequential(OrderedDict(depthwise=first, pointwise=second))))


@register_translator(layers.Conv1DTranspose, layers.Conv2DTranspose, layers.Conv3DTranspose)
def _conv_transpose(site: LayerInstance) -> nn.Module:
    layer, rank = site.layer, site.rank
    paddings = (layer.padding,) * rank if isinstance(layer.padding, str) else layer.padding
    extras = layer.output_padding or (None,) * rank
    axes = zip(site.shape[2:], layer.kernel_size, layer.strides, layer.dilation_rate, paddings, extras, strict=True)
    sizes, pads = zip(*(transposed_conv_shape(*one) for one in axes), strict=True)
    module = _CONV_TRANSPOSE[rank](site.shape[1], layer.filters, layer.kernel_size, layer.strides, 0, 0, layer.groups,
                         layer.use_bias, layer.dilation_rate)  # fmt: skip
    site.load(module)
    full_sizes = [(n - 1) * s + (k - 1) * d + 1 for n, k, s, d in
             zip(site.shape[2:], layer.kernel_size, layer.strides, layer.dilation_rate, strict=True)]  # fmt: skip
    if any(a + size > n for (a, _), size, n in zip(pads, sizes, full_sizes, strict=True)):
        raise UntranslatableError("an output that reaches beyond its windows is not translated")
    if all(a + b + size == n and a == b for (a, b), size, n in zip(pads, sizes, full_sizes, strict=True)):
        module.padding = tuple(a for a, _ in pads)
        return module
    inner = (..., *(slice(a, a + size) for (a, _), size in zip(pads, sizes, strict=True)))
    return nn.Sequential(module, FunctionModule(lambda x: x[inner]))


# ---------------------------------------------------------------- pooling


def _windows(site: LayerInstance) -> tuple[Any, Any, Pads]:
    layer = site.layer
    strides = layer.strides or layer.pool_size
    return (
        layer.pool_size,
        strides,
        resolve_padding(layer.padding, site.shape[2:], layer.pool_size, strides, (1,) * site.rank),
    )


@register_translator(layers.MaxPooling1D, layers.MaxPooling2D, layers.MaxPooling3D)
def _max_pooling(site: LayerInstance) -> nn.Module:
    size, strides, pads = _windows(site)
    inside, before = _split_padding(pads, float("-inf"))
    if any(2 * p > k for p, k in zip(inside, size, strict=True)):
        raise UntranslatableError("a padding of more than half a window is not translated")
    return _chain(before, _MAX[site.rank](size, strides, inside, ceil_mode=site.layer.ceil_mode))


@register_translator(layers.AveragePooling1D, layers.AveragePooling2D, layers.AveragePooling3D)
def _average_pooling(site: LayerInstance) -> nn.Module:
    size, strides, pads = _windows(site)
    inside, before = _split_padding(pads)
    if before is not None or any(2 * p > k for p, k in zip(inside, size, strict=True)):
        raise UntranslatableError("this padding is not translated")
    counted = site.layer.count_include_pad and not isinstance(site.layer.padding, str)
    pool = _AVG[site.rank]
    return FunctionModule(lambda x: pool(x, size, strides, inside, site.layer.ceil_mode, counted))


@register_translator(layers.GlobalAveragePooling1D, layers.GlobalAveragePooling2D, layers.GlobalAveragePooling3D)
def _global_average(site: LayerInstance) -> nn.Module:
    over = tuple(range(2, len(site.shape)))
    return FunctionModule(lambda x: x.mean(over, keepdim=site.layer.keepdims))


@register_translator(layers.GlobalMaxPooling1D, layers.GlobalMaxPooling2D, layers.GlobalMaxPooling3D)
def _global_max(site: LayerInstance) -> nn.Module:
    over = tuple(range(2, len(site.shape)))
    return FunctionModule(lambda x: x.amax(over, keepdim=site.layer.keepdims))


# ---------------------------------------------------------------- normalisation and dropout


@register_translator(layers.BatchNormalization)
def _batch_norm(site: LayerInstance) -> nn.Module:
    if site.layer.axis not in (1, 1 - len(site.shape)):
        raise UntranslatableError("only the axis of the channels is translated")
    layer = site.layer
    affine = layer.scale or layer.center
    return site.load(_BATCH[site.rank](site.shape[1], eps=layer.epsilon, momentum=1 - layer.momentum, affine=affine))


@register_translator(layers.LayerNormalization)
def _layer_norm(site: LayerInstance) -> nn.Module:
    rank = len(site.shape)
    over = sorted(a % rank for a in site.layer.axis)
    if over != list(range(rank - len(over), rank)):
        raise UntranslatableError("only the last axes are translated")
    affine = site.layer.scale or site.layer.center
    return site.load(nn.LayerNorm(site.shape[over[0] :], eps=site.layer.epsilon, elementwise_affine=affine))


@register_translator(layers.GroupNormalization)
def _group_norm(site: LayerInstance) -> nn.Module:
    if site.layer.axis not in (1, 1 - len(site.shape)):
        raise UntranslatableError("only the axis of the channels is translated")
    groups = site.shape[1] if site.layer.groups == -1 else site.layer.groups
    affine = site.layer.scale or site.layer.center
    return site.load(nn.GroupNorm(groups, site.shape[1], eps=site.layer.epsilon, affine=affine))


@register_translator(layers.LRN)
def _lrn(site: LayerInstance) -> nn.Module:
    return nn.LocalResponseNorm(site.layer.size, site.layer.alpha, site.layer.beta, site.layer.k)


@register_translator(layers.Dropout)
def _dropout(site: LayerInstance) -> nn.Module:
    if site.layer.noise_shape is not None:
        raise UntranslatableError("noise_shape is not translated")
    return nn.Dropout(site.layer.rate)


@register_translator(layers.SpatialDropout1D, layers.SpatialDropout2D, layers.SpatialDropout3D)
def _spatial_dropout(site: LayerInstance) -> nn.Module:
    return {1: nn.Dropout1d, 2: nn.Dropout2d, 3: nn.Dropout3d}[site.rank](site.layer.rate)


# ---------------------------------------------------------------- shapes and numbers


@register_translator(layers.Flatten)
def _flatten(site: LayerInstance) -> nn.Module:
    return FunctionModule(lambda x: x.reshape(x.shape[0], -1))


@register_translator(layers.Reshape)
def _reshape(site: LayerInstance) -> nn.Module:
    return FunctionModule(lambda x: x.reshape(x.shape[0], *site.layer.target_shape))


@register_translator(layers.Permute)
def _permute(site: LayerInstance) -> nn.Module:
    return FunctionModule(lambda x: x.permute(0, *site.layer.dims))


@register_translator(layers.RepeatVector)
def _repeat_vector(site: LayerInstance) -> nn.Module:
    return FunctionModule(lambda x: x[:, None].expand(-1, site.layer.n, -1))


@register_translator(layers.ZeroPadding1D, layers.ZeroPadding2D, layers.ZeroPadding3D)
def _zero_padding(site: LayerInstance) -> nn.Module:
    flat = [n for pair in reversed(site.layer.padding) for n in pair]
    return FunctionModule(lambda x: F.pad(x, flat))


@register_translator(layers.UpSampling1D, layers.UpSampling2D, layers.UpSampling3D)
def _upsampling(site: LayerInstance) -> nn.Module:
    if getattr(site.layer, "interpolation", "nearest") != "nearest":
        raise UntranslatableError("only the interpolation nearest is translated")
    factor = [float(n) for n in site.layer.size]
    return nn.Upsample(scale_factor=factor[0] if site.rank == 1 else tuple(factor))


@register_translator(layers.Rescaling)
def _rescaling(site: LayerInstance) -> nn.Module:
    shape = (-1, *(1,) * max(site.rank, 0))
    scale, offset = (torch.tensor(v) if len(v) == 1 else torch.tensor(v).reshape(shape)
                     for v in (site.layer.scale, site.layer.offset))  # fmt: skip
    return FunctionModule(lambda x: x * scale + offset)


# ---------------------------------------------------------------- several inputs


def _register_merge(kind: type[layers.Layer], work: Callable[[Sequence[Tensor]], Tensor]) -> None:
    register_translator(kind)(lambda site: FunctionModule(lambda *inputs: work(inputs)))


for _kind, _work in {
    layers.Add: lambda xs: reduce(torch.add, xs),
    layers.Subtract: lambda xs: xs[0] - xs[1],
    layers.Multiply: lambda xs: reduce(torch.mul, xs),
    layers.Average: lambda xs: reduce(torch.add, xs) / len(xs),
    layers.Maximum: lambda xs: reduce(torch.maximum, xs),
    layers.Minimum: lambda xs: reduce(torch.minimum, xs),
}.items():
    _register_merge(_kind, _work)


@register_translator(layers.Concatenate)
def _concatenate(site: LayerInstance) -> nn.Module:
    return FunctionModule(lambda *inputs: torch.cat(inputs, site.layer.axis))
