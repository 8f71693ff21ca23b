"""Activations, layers that change shapes, and layers of several inputs.

A layer that is one function of PyTorch has no row: its `call` records an op, which `op_table` writes.
"""

from __future__ import annotations

from functools import reduce
from math import prod
from typing import Any

import numpy as np

from prototorch import layers
from prototorch.interop.counterparts.row import CounterpartRows
from prototorch.interop.counterparts.torch.row import (
    TorchLayer,
    TorchLayerExport,
    TorchRow,
    module_call,
    single_module,
)
from prototorch.model.loading.layout.layout_table import NotExpressibleError, Shapes, WeightLayout
from prototorch.model.loading.layout.transforms import ReshapeArray, Transform


def _relu(export: TorchLayerExport) -> TorchLayer | None:
    layer, threshold, limit = export.layer, export.layer.threshold, export.layer.max_value
    if threshold == 0 and limit is None:
        return None

    def work(t: Any, m: Any, x: Any) -> Any:
        x = t.let(x, "x")
        y = t.torch.where(x <= threshold, (x - threshold) * layer.negative_slope, x)
        return y if limit is None else y.clamp(max=limit)

    return TorchLayer(work)


def _celu(export: TorchLayerExport) -> TorchLayer:
    alpha = export.layer.alpha
    return TorchLayer(lambda t, m, x: t.F.celu(x, alpha))


def _prelu(export: TorchLayerExport) -> TorchLayer:
    return single_module(module_call("PReLU", {"num_parameters": export.weight_shapes["alpha"][0]}))


def _prelu_weights(layer: layers.PReLU, shapes: Shapes) -> list[WeightLayout]:
    """One alpha, or one a channel."""
    shape = shapes["alpha"]
    if prod(shape[1:]) != 1:
        raise NotExpressibleError(
            f"torch.nn.PReLU has one alpha a channel, not {list(shape)} (shared_axes leaves one a channel)"
        )
    transform = ReshapeArray(shape, shape[:1]) if len(shape) > 1 else Transform()
    return [WeightLayout(("alpha",), ("weight",), transform)]


# ---------------------------------------------------------------- shapes


def _flatten(export: TorchLayerExport) -> TorchLayer:
    if len(export.shape) == 1:
        return TorchLayer(lambda t, m, x: x.unsqueeze(1))
    return TorchLayer(lambda t, m, x: x.flatten(1))


def _reshape(export: TorchLayerExport) -> TorchLayer:
    shape = export.layer.target_shape
    return TorchLayer(lambda t, m, x: x.reshape(x.shape[0], *shape))


def _repeat_vector(export: TorchLayerExport) -> TorchLayer:
    count = export.layer.n
    return TorchLayer(lambda t, m, x: x.unsqueeze(1).expand(-1, count, -1))


def _upsampling(export: TorchLayerExport) -> TorchLayer:
    if getattr(export.layer, "interpolation", "nearest") != "nearest":
        raise NotExpressibleError("another interpolation than nearest")
    factors = [float(n) for n in export.layer.size]
    factor = factors[0] if export.rank == 1 else tuple(factors)
    return TorchLayer(lambda t, m, x: t.F.interpolate(x, scale_factor=factor))


def _rescaling(export: TorchLayerExport) -> TorchLayer:
    scale, offset = export.layer.scale, export.layer.offset
    if len(scale) > 1 or len(offset) > 1:
        shape = (-1, *(1,) * max(export.rank, 0))
        constants = {
            "scale": np.asarray(scale, np.float32).reshape(shape),
            "offset": np.asarray(offset, np.float32).reshape(shape),
        }
        return TorchLayer(lambda t, m, x: x * m("").scale + m("").offset, constants=constants)
    if offset == (0.0,):
        return TorchLayer(lambda t, m, x: x * scale[0])
    return TorchLayer(lambda t, m, x: x * scale[0] + offset[0])


# ---------------------------------------------------------------- several inputs, as one expression


def _sum(t: Any, m: Any, *xs: Any) -> Any:
    return reduce(lambda a, b: a + b, xs)


def _product(t: Any, m: Any, *xs: Any) -> Any:
    return reduce(lambda a, b: a * b, xs)


ROWS = CounterpartRows(
    system="torch",
    rows=(
        TorchRow(layers=(layers.ReLU,), module=_relu),
        TorchRow(layers=(layers.CELU,), module=_celu),
        TorchRow(layers=(layers.PReLU,), module=_prelu, layouts=_prelu_weights),
        # its activation is behind it
        TorchRow(layers=(layers.Activation,), module=lambda export: TorchLayer(lambda t, m, x: x)),
        TorchRow(layers=(layers.Flatten,), module=_flatten),
        TorchRow(layers=(layers.Reshape,), module=_reshape),
        TorchRow(layers=(layers.RepeatVector,), module=_repeat_vector),
        TorchRow(layers=(layers.UpSampling1D, layers.UpSampling2D, layers.UpSampling3D), module=_upsampling),
        TorchRow(layers=(layers.Rescaling,), module=_rescaling),
        TorchRow(layers=(layers.Add,), module=lambda export: TorchLayer(_sum)),
        TorchRow(layers=(layers.Multiply,), module=lambda export: TorchLayer(_product)),
        TorchRow(
            layers=(layers.Average,), module=lambda export: TorchLayer(lambda t, m, *xs: _sum(t, m, *xs) / len(xs))
        ),
        TorchRow(
            layers=(layers.Maximum,), module=lambda export: TorchLayer(lambda t, m, *xs: reduce(t.torch.maximum, xs))
        ),
        TorchRow(
            layers=(layers.Minimum,), module=lambda export: TorchLayer(lambda t, m, *xs: reduce(t.torch.minimum, xs))
        ),
    ),
)
