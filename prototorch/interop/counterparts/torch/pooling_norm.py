"""Pooling, normalization and dropout."""

from __future__ import annotations

from typing import Any

from prototorch import layers
from prototorch.interop.counterparts.row import CounterpartRows
from prototorch.interop.counterparts.torch.dense_conv import plain_sizes, split_padding, window_options
from prototorch.interop.counterparts.torch.row import (
    ModuleCall,
    TorchLayer,
    TorchLayerExport,
    TorchRow,
    module_call,
    named_weights,
    single_module,
)
from prototorch.layers.windows import Pads, resolve_padding
from prototorch.model.loading.layout.layout_table import NotExpressibleError, Shapes, WeightLayout
from prototorch.model.loading.layout.transforms import IgnoredArray, NeutralArray


def _windows(export: TorchLayerExport) -> tuple[Any, Any, Pads]:
    layer = export.layer
    strides = layer.strides or layer.pool_size
    pads = resolve_padding(layer.padding, export.shape[2:], layer.pool_size, strides, (1,) * export.rank)
    return layer.pool_size, strides, pads


def _max_pooling(export: TorchLayerExport) -> TorchLayer:
    size, strides, pads = _windows(export)
    inside, before = split_padding(pads, float("-inf"))
    if any(2 * p > k for p, k in zip(inside, size, strict=True)):
        raise NotExpressibleError("a padding of more than half a window")
    ceil = {"ceil_mode": True} if export.layer.ceil_mode else {}
    options = {**window_options(padding=inside), **ceil}
    return single_module(_pool_call(f"MaxPool{export.rank}d", size, strides, options), before)


def _pool_call(kind: str, size: Any, strides: Any, options: dict[str, Any]) -> ModuleCall:
    return module_call(kind, {"kernel_size": plain_sizes(size), "stride": plain_sizes(strides)}, **options)


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
    return single_module(_pool_call(f"AvgPool{export.rank}d", size, strides, options))


# ---------------------------------------------------------------- normalization and dropout


def _check_axis(export: TorchLayerExport) -> None:
    if export.layer.channel_axis(len(export.shape)) % len(export.shape) != 1:
        raise NotExpressibleError("another axis than that of the channels")


def _batch_norm(export: TorchLayerExport) -> TorchLayer:
    _check_axis(export)
    layer = export.layer
    affine = {} if layer.scale or layer.center else {"affine": False}
    kind = f"BatchNorm{max(export.rank, 1)}d"
    return single_module(
        module_call(
            kind, {"num_features": export.shape[1]}, eps=layer.epsilon, momentum=round(1 - layer.momentum, 12), **affine
        )
    )


def _layer_norm(export: TorchLayerExport) -> TorchLayer:
    rank = len(export.shape)
    over = sorted(a % rank for a in export.layer.axis)
    if over != list(range(rank - len(over), rank)):
        raise NotExpressibleError("other axes than the last")
    affine = {} if export.layer.scale or export.layer.center else {"elementwise_affine": False}
    shape = export.shape[over[0] :]
    sizes = {"normalized_shape": shape[0] if len(shape) == 1 else tuple(shape)}
    return single_module(module_call("LayerNorm", sizes, eps=export.layer.epsilon, **affine))


def _group_norm(export: TorchLayerExport) -> TorchLayer:
    _check_axis(export)
    groups = export.shape[1] if export.layer.groups == -1 else export.layer.groups
    affine = {} if export.layer.scale or export.layer.center else {"affine": False}
    sizes = {"num_groups": groups, "num_channels": export.shape[1]}
    return single_module(module_call("GroupNorm", sizes, eps=export.layer.epsilon, **affine))


def _lrn(export: TorchLayerExport) -> TorchLayer:
    layer = export.layer
    if len(export.shape) < 3:
        raise NotExpressibleError("LRN of vectors")
    return single_module(
        module_call("LocalResponseNorm", {"size": layer.size}, alpha=layer.alpha, beta=layer.beta, k=layer.k)
    )


def _dropout(export: TorchLayerExport) -> TorchLayer:
    if export.layer.noise_shape is not None:
        raise NotExpressibleError("noise_shape")
    return single_module(module_call("Dropout", {"rate": export.layer.rate}))


def _spatial_dropout(export: TorchLayerExport) -> TorchLayer:
    return single_module(module_call(f"Dropout{export.rank}d", {"rate": export.layer.rate}))


def _scale_and_shift(layer: layers.Layer, shapes: Shapes) -> list[WeightLayout]:
    """``weight`` and ``bias``, which PyTorch's modules have both or not at all."""
    present = [n for n in ("gamma", "beta") if n in shapes]
    if not present:
        return []
    shape = shapes[present[0]]
    return [
        WeightLayout((ours,), (theirs,))
        if ours in shapes
        else WeightLayout((), (theirs,), NeutralArray(neutral, shape))
        for ours, theirs, neutral in (("gamma", "weight", 1.0), ("beta", "bias", 0.0))
    ]


def _batch_norm_weights(layer: layers.BatchNormalization, shapes: Shapes) -> list[WeightLayout]:
    if layer.weighted_sums:
        raise NotExpressibleError("torch.nn.BatchNorm has a moving mean and variance, not weighted_sums of them")
    statistics = (("moving_mean", "running_mean"), ("moving_variance", "running_var"))
    return [
        *_scale_and_shift(layer, shapes),
        *(WeightLayout((ours,), (theirs,)) for ours, theirs in statistics if ours in shapes),
        WeightLayout((), ("num_batches_tracked",), IgnoredArray()),
    ]


ROWS = CounterpartRows(
    system="torch",
    rows=(
        TorchRow(layers=(layers.MaxPooling1D, layers.MaxPooling2D, layers.MaxPooling3D), module=_max_pooling),
        TorchRow(
            layers=(layers.AveragePooling1D, layers.AveragePooling2D, layers.AveragePooling3D), module=_average_pooling
        ),
        TorchRow(layers=(layers.BatchNormalization,), module=_batch_norm, layouts=_batch_norm_weights),
        TorchRow(layers=(layers.LayerNormalization,), module=_layer_norm, layouts=_scale_and_shift),
        TorchRow(layers=(layers.GroupNormalization,), module=_group_norm, layouts=_scale_and_shift),
        TorchRow(layers=(layers.RMSNormalization,), weights=named_weights(scale="weight")),
        # parameters of the module that stands for the layer
        TorchRow(layers=(layers.Scale, layers.Bias), weights=named_weights(scale="weight", bias="bias")),
        TorchRow(layers=(layers.LRN,), module=_lrn),
        TorchRow(layers=(layers.Dropout,), module=_dropout),
        TorchRow(
            layers=(layers.SpatialDropout1D, layers.SpatialDropout2D, layers.SpatialDropout3D), module=_spatial_dropout
        ),
    ),
)
