"""Layers with a number for each channel, and normalization without weights: Scale, Bias, BatchNorm, MVN."""

from __future__ import annotations

from typing import Any

import numpy as np

from prototorch import layers
from prototorch.caffe.interop.export.fillers import filler
from prototorch.caffe.interop.export.layer_export import CaffeLayerExport, exports, make_message
from prototorch.caffe.text.message import Message

_GLOBAL_STATS = {"training": None, "always": False, "never": True}


def _axes(site: CaffeLayerExport) -> dict[str, Any]:
    layer: Any = site.layer
    axis = layer.axis % max(len(site.input_shapes[0]), 1)
    return {"axis": axis if axis != 1 else None, "num_axes": layer.num_axes if layer.num_axes != 1 else None}


@exports(layers.Scale)
def _scale(site: CaffeLayerExport) -> None:
    layer: Any = site.layer
    param = make_message(
        "ScaleParameter",
        **_axes(site),
        bias_term=True if layer.use_bias else None,
        bias_filler=filler(layer.bias_initializer) if layer.use_bias else None,
    )
    blobs = [site.weights[name] for name in ("scale", "bias") if name in site.weights]
    site.add("Scale", blobs=blobs, in_place=True, scale_param=param)


@exports(layers.Bias)
def _bias(site: CaffeLayerExport) -> None:
    layer: Any = site.layer
    param = make_message("BiasParameter", **_axes(site), filler=filler(layer.bias_initializer))
    site.add("Bias", blobs=[*site.weights.values()], in_place=True, bias_param=param)


@exports(layers.BatchNormalization)
def _batch_norm(site: CaffeLayerExport) -> None:
    layer: Any = site.layer
    if layer.axis % len(site.input_shapes[0]) != 1:
        site.fail(f"its axis is {layer.axis}; Caffe's BatchNorm normalizes along axis 1")
    param = make_message(
        "BatchNormParameter",
        eps=layer.epsilon if layer.epsilon != 1e-5 else None,
        moving_average_fraction=layer.momentum if layer.momentum != 0.999 else None,
        use_global_stats=_GLOBAL_STATS[layer.batch_statistics],
    )
    total = site.weights.get("moving_weight", np.ones(1, np.float32))
    blobs = [site.weights["moving_mean"], site.weights["moving_variance"], total]
    site.add("BatchNorm", blobs=blobs, batch_norm_param=param)
    gamma, beta = site.weights.get("gamma"), site.weights.get("beta")
    if gamma is not None:
        scale = make_message("ScaleParameter", bias_term=True if beta is not None else None)
        site.add("Scale", "scale", blobs=[b for b in (gamma, beta) if b is not None], in_place=True, scale_param=scale)
    elif beta is not None:
        site.add("Bias", "bias", blobs=[beta], in_place=True)


@exports(layers.MeanVarianceNormalization)
def _mvn(site: CaffeLayerExport) -> None:
    layer: Any = site.layer
    rank = len(site.input_shapes[0])
    axes = sorted(axis % rank for axis in layer.axis)
    if rank != 4 or axes not in ([1, 2, 3], [2, 3]):
        site.fail(f"its axes are {axes} of {rank}; Caffe's MVN normalizes images over [2, 3] or [1, 2, 3]")
    param = make_message(
        "MVNParameter",
        across_channels=True if len(axes) == 3 else None,
        normalize_variance=None if layer.normalize_variance else False,
        eps=layer.epsilon if layer.epsilon != 1e-9 else None,
    )
    site.add("MVN", mvn_param=param)


@exports(layers.Binarize)
def _binarize(site: CaffeLayerExport) -> None:
    threshold = site.layer.threshold  # type: ignore[attr-defined]
    site.add("Threshold", threshold_param=make_message("ThresholdParameter", threshold=threshold or None))


@exports(layers.FullLike)
def _full_like(site: CaffeLayerExport) -> None:
    value = site.layer.value  # type: ignore[attr-defined]
    site.add("Power", power_param=Message("PowerParameter", scale=0.0, shift=value))


@exports(layers.StopGradient)
def _stop_gradient(site: CaffeLayerExport) -> None:
    site.pass_through()
