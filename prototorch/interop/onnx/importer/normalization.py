"""Normalization."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from prototorch import layers
from prototorch.interop.onnx.importer.builder import NetBuilder
from prototorch.interop.onnx.importer.node import OnnxNode
from prototorch.interop.onnx.importer.operands import KnownArray, Operand, broadcasts, positive_axis
from prototorch.interop.onnx.importer.registry import NoLayerError, imports

__all__: list[str] = []


@imports("BatchNormalization")
def _batch_norm(b: NetBuilder, node: OnnxNode) -> Operand:
    if node.flag("training_mode", 0) or len([n for n in node.outputs if n]) > 1:
        raise NoLayerError("batch normalization in training mode; export the model for inference")
    if not node.flag("spatial", 1):
        raise NoLayerError("batch normalization of each element (spatial 0) has no layer")
    gamma, beta, mean, variance = (node.weight(i, n) for i, n in enumerate(("scale", "B", "mean", "var"), 1))
    x = node.value(0)
    fields = {"epsilon": node.get("epsilon", 1e-5), "momentum": node.get("momentum", 0.9)}
    layer = b.make(layers.BatchNormalization, **fields, **({} if (axis := x.axis(1)) == 1 else {"axis": axis}))
    return b.add(layer, x, gamma=gamma, beta=beta, moving_mean=mean, moving_variance=variance)


@imports("InstanceNormalization")
def _instance_norm(b: NetBuilder, node: OnnxNode) -> Operand:
    layer = b.make(layers.GroupNormalization, groups=-1, epsilon=node.get("epsilon", 1e-5))
    return b.add(layer, node.batch_first(0), gamma=node.weight(1, "scale"), beta=node.weight(2, "B"))


@imports("GroupNormalization")
def _group_norm(b: NetBuilder, node: OnnxNode) -> Operand:
    x, groups = node.batch_first(0), node.get("num_groups")
    gamma, beta = node.weight(1, "scale"), node.weight(2, "bias")
    if node.version < 21:  # one number a group
        times = x.dims[0] // groups
        gamma, beta = (KnownArray(np.repeat(w.array, times), w.name) for w in (gamma, beta))
    layer = b.make(layers.GroupNormalization, groups=groups, epsilon=node.get("epsilon", 1e-5))
    return b.add(layer, x, gamma=gamma, beta=beta)


@imports("LayerNormalization")
def _layer_norm(b: NetBuilder, node: OnnxNode) -> Operand | None:
    return _normalize_last(b, node, layers.LayerNormalization)


@imports("RMSNormalization")
def _rms_norm(b: NetBuilder, node: OnnxNode) -> Operand | None:
    return _normalize_last(b, node, layers.RMSNormalization)


def _normalize_last(b: NetBuilder, node: OnnxNode, kind: Any) -> Operand | None:
    """Over all dimensions from an axis on; None where the op's own definition must stand in."""
    x = node.value(0)
    if len([n for n in node.outputs if n]) > 1 or any(
        a is not None and not isinstance(a, KnownArray) for a in node.args[1:]
    ):
        return None
    gamma, beta = node.weight(1, "Scale"), node.constant(2, "B")
    first = positive_axis(node.get("axis", -1), x.ndim)
    over = x.axes(range(first, x.ndim))
    sizes = tuple(x.dims[a - 1] for a in over)
    for weight in (gamma, beta):
        if weight is not None and not broadcasts(weight.shape, sizes):
            raise NoLayerError(f"weights of shape {list(weight.shape)} do not broadcast to {list(sizes)}")
    if gamma.array.size != prod(sizes) or (beta is not None and beta.array.size != prod(sizes)):
        return None
    name = "gamma" if kind is layers.LayerNormalization else "scale"
    weights = {name: KnownArray(gamma.array.reshape(sizes), gamma.name)}
    fields: dict[str, Any] = {
        "axis": [-1] if over == (len(x.dims),) else list(over),
        "epsilon": node.get("epsilon", 1e-5),
    }
    if kind is layers.LayerNormalization:
        fields["center"] = beta is not None
        if beta is not None:
            weights["beta"] = KnownArray(beta.array.reshape(sizes), beta.name)
    return b.add(b.make(kind, **fields), x, **weights)


@imports("LpNormalization")
def _lp_norm(b: NetBuilder, node: OnnxNode) -> Operand:
    x, p = node.value(0), node.get("p", 2)
    if p not in (1, 2):
        raise NoLayerError(f"p is {p}; norms are of p 1 or 2")
    axis = x.axis(node.get("axis", -1))
    if p == 2:
        powers = b.add(layers.Square(), x)
        norm = b.add(layers.Sqrt(), b.add(b.make(layers.ReduceSum, axis=[axis], keepdims=True), powers))
    else:
        norm = b.add(b.make(layers.ReduceSum, axis=[axis], keepdims=True), b.add(layers.Abs(), x))
    return b.add(layers.Divide(), x, norm)


@imports("MeanVarianceNormalization")
def _mean_variance(b: NetBuilder, node: OnnxNode) -> Operand | None:
    return None  # over the batch as well, unless its axes leave it out: as ONNX defines it
