"""Pooling, normalization and dropout."""

from __future__ import annotations

from typing import Any

from prototorch import layers
from prototorch.interop.layouts import NotExpressibleError
from prototorch.interop.torch.export_dense_conv_layers import plain_sizes, split_padding, window_options
from prototorch.interop.torch.layer_table import TorchLayer, TorchLayerExport, in_torch, module_call, single_module
from prototorch.layers.windows import Pads, resolve_padding


def _windows(export: TorchLayerExport) -> tuple[Any, Any, Pads]:
    layer = export.layer
    strides = layer.strides or layer.pool_size
    pads = resolve_padding(layer.padding, export.shape[2:], layer.pool_size, strides, (1,) * export.rank)
    return layer.pool_size, strides, pads


@in_torch(layers.MaxPooling1D, layers.MaxPooling2D, layers.MaxPooling3D)
def _max_pooling(export: TorchLayerExport) -> TorchLayer:
    size, strides, pads = _windows(export)
    inside, before = split_padding(pads, float("-inf"))
    if any(2 * p > k for p, k in zip(inside, size, strict=True)):
        raise NotExpressibleError("a padding of more than half a window")
    ceil = {"ceil_mode": True} if export.layer.ceil_mode else {}
    call = module_call(f"MaxPool{export.rank}d", plain_sizes(size), plain_sizes(strides),
                       **window_options(padding=inside), **ceil)  # fmt: skip
    return single_module(call, before)


@in_torch(layers.AveragePooling1D, layers.AveragePooling2D, layers.AveragePooling3D)
def _average_pooling(export: TorchLayerExport) -> TorchLayer:
    size, strides, pads = _windows(export)
    inside, before = split_padding(pads)
    if before is not None or any(2 * p > k for p, k in zip(inside, size, strict=True)):
        raise NotExpressibleError("a mean over windows whose padding differs on the two sides")
    options: dict[str, Any] = {**window_options(padding=inside)}
    if export.layer.ceil_mode:
        options["ceil_mode"] = True
    if not export.layer.count_include_pad or isinstance(export.layer.padding, str):
        options["count_include_pad"] = False
    return single_module(module_call(f"AvgPool{export.rank}d", plain_sizes(size), plain_sizes(strides), **options))


@in_torch(layers.GlobalAveragePooling1D, layers.GlobalAveragePooling2D, layers.GlobalAveragePooling3D)
def _global_average(export: TorchLayerExport) -> TorchLayer:
    over, options = tuple(range(2, len(export.shape))), _keepdim(export)
    return TorchLayer(lambda t, m, x: x.mean(over, **options))


@in_torch(layers.GlobalMaxPooling1D, layers.GlobalMaxPooling2D, layers.GlobalMaxPooling3D)
def _global_max(export: TorchLayerExport) -> TorchLayer:
    over, options = tuple(range(2, len(export.shape))), _keepdim(export)
    return TorchLayer(lambda t, m, x: x.amax(over, **options))


def _keepdim(export: TorchLayerExport) -> dict[str, bool]:
    return {"keepdim": True} if export.layer.keepdims else {}


# ---------------------------------------------------------------- normalization and dropout


def _check_axis(export: TorchLayerExport) -> None:
    if export.layer.axis not in (1, 1 - len(export.shape)):
        raise NotExpressibleError("another axis than that of the channels")


@in_torch(layers.BatchNormalization)
def _batch_norm(export: TorchLayerExport) -> TorchLayer:
    _check_axis(export)
    layer = export.layer
    affine = {} if layer.scale or layer.center else {"affine": False}
    kind = f"BatchNorm{max(export.rank, 1)}d"
    return single_module(module_call(kind, export.shape[1], eps=layer.epsilon, momentum=round(1 - layer.momentum, 12),
                                     **affine))  # fmt: skip


@in_torch(layers.LayerNormalization)
def _layer_norm(export: TorchLayerExport) -> TorchLayer:
    rank = len(export.shape)
    over = sorted(a % rank for a in export.layer.axis)
    if over != list(range(rank - len(over), rank)):
        raise NotExpressibleError("other axes than the last")
    affine = {} if export.layer.scale or export.layer.center else {"elementwise_affine": False}
    shape = export.shape[over[0] :]
    return single_module(module_call("LayerNorm", shape[0] if len(shape) == 1 else tuple(shape),
                                     eps=export.layer.epsilon, **affine))  # fmt: skip


@in_torch(layers.GroupNormalization)
def _group_norm(export: TorchLayerExport) -> TorchLayer:
    _check_axis(export)
    groups = export.shape[1] if export.layer.groups == -1 else export.layer.groups
    affine = {} if export.layer.scale or export.layer.center else {"affine": False}
    return single_module(module_call("GroupNorm", groups, export.shape[1], eps=export.layer.epsilon, **affine))


@in_torch(layers.LRN)
def _lrn(export: TorchLayerExport) -> TorchLayer:
    layer = export.layer
    if len(export.shape) < 3:
        raise NotExpressibleError("LRN of vectors")
    return single_module(module_call("LocalResponseNorm", layer.size, alpha=layer.alpha, beta=layer.beta, k=layer.k))


@in_torch(layers.Dropout)
def _dropout(export: TorchLayerExport) -> TorchLayer:
    if export.layer.noise_shape is not None:
        raise NotExpressibleError("noise_shape")
    return single_module(module_call("Dropout", export.layer.rate))


@in_torch(layers.SpatialDropout1D, layers.SpatialDropout2D, layers.SpatialDropout3D)
def _spatial_dropout(export: TorchLayerExport) -> TorchLayer:
    return single_module(module_call(f"Dropout{export.rank}d", export.layer.rate))
