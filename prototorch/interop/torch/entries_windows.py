"""Pooling, normalization and dropout."""

from __future__ import annotations

from typing import Any

from prototorch import layers
from prototorch.interop.layouts import NotExpressibleError
from prototorch.interop.torch.entries_products import plain_sizes, split_padding, window_options
from prototorch.interop.torch.layer_table import LayerSite, TorchLayer, in_torch, module_call, single_module
from prototorch.layers.windows import Pads, resolve_padding


def _windows(site: LayerSite) -> tuple[Any, Any, Pads]:
    layer = site.layer
    strides = layer.strides or layer.pool_size
    pads = resolve_padding(layer.padding, site.shape[2:], layer.pool_size, strides, (1,) * site.rank)
    return layer.pool_size, strides, pads


@in_torch(layers.MaxPooling1D, layers.MaxPooling2D, layers.MaxPooling3D)
def _max_pooling(site: LayerSite) -> TorchLayer:
    size, strides, pads = _windows(site)
    inside, before = split_padding(pads, float("-inf"))
    if any(2 * p > k for p, k in zip(inside, size, strict=True)):
        raise NotExpressibleError("a padding of more than half a window")
    ceil = {"ceil_mode": True} if site.layer.ceil_mode else {}
    call = module_call(f"MaxPool{site.rank}d", plain_sizes(size), plain_sizes(strides),
                       **window_options(padding=inside), **ceil)  # fmt: skip
    return single_module(call, before)


@in_torch(layers.AveragePooling1D, layers.AveragePooling2D, layers.AveragePooling3D)
def _average_pooling(site: LayerSite) -> TorchLayer:
    size, strides, pads = _windows(site)
    inside, before = split_padding(pads)
    if before is not None or any(2 * p > k for p, k in zip(inside, size, strict=True)):
        raise NotExpressibleError("a mean over windows whose padding differs on the two sides")
    options: dict[str, Any] = {**window_options(padding=inside)}
    if site.layer.ceil_mode:
        options["ceil_mode"] = True
    if not site.layer.count_include_pad or isinstance(site.layer.padding, str):
        options["count_include_pad"] = False
    return single_module(module_call(f"AvgPool{site.rank}d", plain_sizes(size), plain_sizes(strides), **options))


@in_torch(layers.GlobalAveragePooling1D, layers.GlobalAveragePooling2D, layers.GlobalAveragePooling3D)
def _global_average(site: LayerSite) -> TorchLayer:
    over, options = tuple(range(2, len(site.shape))), _keepdim(site)
    return TorchLayer(lambda t, m, x: x.mean(over, **options))


@in_torch(layers.GlobalMaxPooling1D, layers.GlobalMaxPooling2D, layers.GlobalMaxPooling3D)
def _global_max(site: LayerSite) -> TorchLayer:
    over, options = tuple(range(2, len(site.shape))), _keepdim(site)
    return TorchLayer(lambda t, m, x: x.amax(over, **options))


def _keepdim(site: LayerSite) -> dict[str, bool]:
    return {"keepdim": True} if site.layer.keepdims else {}


# ---------------------------------------------------------------- normalization and dropout


def _check_axis(site: LayerSite) -> None:
    if site.layer.axis not in (1, 1 - len(site.shape)):
        raise NotExpressibleError("another axis than that of the channels")


@in_torch(layers.BatchNormalization)
def _batch_norm(site: LayerSite) -> TorchLayer:
    _check_axis(site)
    layer = site.layer
    affine = {} if layer.scale or layer.center else {"affine": False}
    kind = f"BatchNorm{max(site.rank, 1)}d"
    return single_module(module_call(kind, site.shape[1], eps=layer.epsilon, momentum=round(1 - layer.momentum, 12),
                                     **affine))  # fmt: skip


@in_torch(layers.LayerNormalization)
def _layer_norm(site: LayerSite) -> TorchLayer:
    rank = len(site.shape)
    over = sorted(a % rank for a in site.layer.axis)
    if over != list(range(rank - len(over), rank)):
        raise NotExpressibleError("other axes than the last")
    affine = {} if site.layer.scale or site.layer.center else {"elementwise_affine": False}
    shape = site.shape[over[0] :]
    return single_module(module_call("LayerNorm", shape[0] if len(shape) == 1 else tuple(shape),
                                     eps=site.layer.epsilon, **affine))  # fmt: skip


@in_torch(layers.GroupNormalization)
def _group_norm(site: LayerSite) -> TorchLayer:
    _check_axis(site)
    groups = site.shape[1] if site.layer.groups == -1 else site.layer.groups
    affine = {} if site.layer.scale or site.layer.center else {"affine": False}
    return single_module(module_call("GroupNorm", groups, site.shape[1], eps=site.layer.epsilon, **affine))


@in_torch(layers.LRN)
def _lrn(site: LayerSite) -> TorchLayer:
    layer = site.layer
    if len(site.shape) < 3:
        raise NotExpressibleError("LRN of vectors")
    return single_module(module_call("LocalResponseNorm", layer.size, alpha=layer.alpha, beta=layer.beta, k=layer.k))


@in_torch(layers.Dropout)
def _dropout(site: LayerSite) -> TorchLayer:
    if site.layer.noise_shape is not None:
        raise NotExpressibleError("noise_shape")
    return single_module(module_call("Dropout", site.layer.rate))


@in_torch(layers.SpatialDropout1D, layers.SpatialDropout2D, layers.SpatialDropout3D)
def _spatial_dropout(site: LayerSite) -> TorchLayer:
    return single_module(module_call(f"Dropout{site.rank}d", site.layer.rate))
