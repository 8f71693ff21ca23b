"""Activations, layers that change shapes, and layers of several inputs."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from prototorch import layers
from prototorch.interop.layouts import NotExpressibleError
from prototorch.interop.torch.export_dense_conv_layers import flat_pads
from prototorch.interop.torch.layer_table import (
    TorchLayer,
    TorchLayerExport,
    identity,
    in_torch,
    module_call,
    single_module,
)

_Function = Callable[[Any, Any, Any], Any]


def _enter(kind: type[layers.Layer], work: Callable[..., Any]) -> None:
    in_torch(kind)(lambda export: TorchLayer(work))


in_torch(layers.Linear, layers.Activation)(lambda export: TorchLayer(identity))
_enter(layers.ReLU6, lambda t, m, x: t.F.relu6(x))
_enter(layers.Sigmoid, lambda t, m, x: t.torch.sigmoid(x))
_enter(layers.LogSigmoid, lambda t, m, x: t.F.logsigmoid(x))
_enter(layers.HardSigmoid, lambda t, m, x: t.F.hardsigmoid(x))
_enter(layers.Tanh, lambda t, m, x: t.torch.tanh(x))
_enter(layers.Softplus, lambda t, m, x: t.F.softplus(x))
_enter(layers.Softsign, lambda t, m, x: t.F.softsign(x))
_enter(layers.SELU, lambda t, m, x: t.F.selu(x))
_enter(layers.SiLU, lambda t, m, x: t.F.silu(x))
_enter(layers.HardSwish, lambda t, m, x: t.F.hardswish(x))
_enter(layers.Mish, lambda t, m, x: t.F.mish(x))
_enter(layers.Exponential, lambda t, m, x: t.torch.exp(x))


@in_torch(layers.ReLU)
def _relu(export: TorchLayerExport) -> TorchLayer:
    slope, threshold, limit = export.layer.negative_slope, export.layer.threshold, export.layer.max_value
    if threshold == 0 and limit is None:
        if slope == 0:
            return TorchLayer(lambda t, m, x: t.F.relu(x))
        return TorchLayer(lambda t, m, x: t.F.leaky_relu(x, slope))

    def work(t: Any, m: Any, x: Any) -> Any:
        x = t.let(x, "x")
        y = t.torch.where(x <= threshold, (x - threshold) * slope, x)
        return y if limit is None else y.clamp(max=limit)

    return TorchLayer(work)


@in_torch(layers.LeakyReLU)
def _leaky_relu(export: TorchLayerExport) -> TorchLayer:
    slope = export.layer.negative_slope
    return TorchLayer(lambda t, m, x: t.F.leaky_relu(x, slope))


@in_torch(layers.ELU)
def _elu(export: TorchLayerExport) -> TorchLayer:
    alpha = export.layer.alpha
    return TorchLayer(lambda t, m, x: t.F.elu(x, alpha))


@in_torch(layers.CELU)
def _celu(export: TorchLayerExport) -> TorchLayer:
    alpha = export.layer.alpha
    return TorchLayer(lambda t, m, x: t.F.celu(x, alpha))


@in_torch(layers.GELU)
def _gelu(export: TorchLayerExport) -> TorchLayer:
    options = {"approximate": "tanh"} if export.layer.approximate else {}
    return TorchLayer(lambda t, m, x: t.F.gelu(x, **options))


@in_torch(layers.PReLU)
def _prelu(export: TorchLayerExport) -> TorchLayer:
    return single_module(module_call("PReLU", export.weight_shapes["alpha"][0]))


@in_torch(layers.Softmax)
def _softmax(export: TorchLayerExport) -> TorchLayer:
    axis = export.layer.axis
    return TorchLayer(lambda t, m, x: t.torch.softmax(x, axis))


@in_torch(layers.LogSoftmax)
def _log_softmax(export: TorchLayerExport) -> TorchLayer:
    axis = export.layer.axis
    return TorchLayer(lambda t, m, x: t.torch.log_softmax(x, axis))


# ---------------------------------------------------------------- shapes


@in_torch(layers.Flatten)
def _flatten(export: TorchLayerExport) -> TorchLayer:
    if len(export.shape) == 1:
        return TorchLayer(lambda t, m, x: x.unsqueeze(1))
    return TorchLayer(lambda t, m, x: x.flatten(1))


@in_torch(layers.Reshape)
def _reshape(export: TorchLayerExport) -> TorchLayer:
    shape = export.layer.target_shape
    return TorchLayer(lambda t, m, x: x.reshape(x.shape[0], *shape))


@in_torch(layers.Permute)
def _permute(export: TorchLayerExport) -> TorchLayer:
    order = (0, *export.layer.dims)
    return TorchLayer(lambda t, m, x: x.permute(*order))


@in_torch(layers.RepeatVector)
def _repeat_vector(export: TorchLayerExport) -> TorchLayer:
    count = export.layer.n
    return TorchLayer(lambda t, m, x: x.unsqueeze(1).expand(-1, count, -1))


@in_torch(layers.ZeroPadding1D, layers.ZeroPadding2D, layers.ZeroPadding3D)
def _zero_padding(export: TorchLayerExport) -> TorchLayer:
    flat = flat_pads(export.layer.padding)
    return TorchLayer(lambda t, m, x: t.F.pad(x, flat))


@in_torch(layers.UpSampling1D, layers.UpSampling2D, layers.UpSampling3D)
def _upsampling(export: TorchLayerExport) -> TorchLayer:
    if getattr(export.layer, "interpolation", "nearest") != "nearest":
        raise NotExpressibleError("another interpolation than nearest")
    factors = [float(n) for n in export.layer.size]
    factor = factors[0] if export.rank == 1 else tuple(factors)
    return TorchLayer(lambda t, m, x: t.F.interpolate(x, scale_factor=factor))


@in_torch(layers.Rescaling)
def _rescaling(export: TorchLayerExport) -> TorchLayer:
    scale, offset = export.layer.scale, export.layer.offset
    if len(scale) > 1 or len(offset) > 1:
        shape = (-1, *(1,) * max(export.rank, 0))
        constants = {"scale": np.asarray(scale, np.float32).reshape(shape),
                     "offset": np.asarray(offset, np.float32).reshape(shape)}  # fmt: skip
        return TorchLayer(lambda t, m, x: x * m("").scale + m("").offset, constants=constants)
    if offset == (0.0,):
        return TorchLayer(lambda t, m, x: x * scale[0])
    return TorchLayer(lambda t, m, x: x * scale[0] + offset[0])


# ---------------------------------------------------------------- several inputs


_enter(layers.Add, lambda t, m, *xs: reduce(lambda a, b: a + b, xs))
_enter(layers.Subtract, lambda t, m, a, b: a - b)
_enter(layers.Multiply, lambda t, m, *xs: reduce(lambda a, b: a * b, xs))
_enter(layers.Average, lambda t, m, *xs: reduce(lambda a, b: a + b, xs) / len(xs))
_enter(layers.Maximum, lambda t, m, *xs: reduce(t.torch.maximum, xs))
_enter(layers.Minimum, lambda t, m, *xs: reduce(t.torch.minimum, xs))


@in_torch(layers.Concatenate)
def _concatenate(export: TorchLayerExport) -> TorchLayer:
    axis = export.layer.axis
    return TorchLayer(lambda t, m, *xs: t.torch.cat(list(xs), axis))
