"""Activations, functions of each element and merging layers."""

from __future__ import annotations

from typing import Any

import numpy as np

from prototorch import layers
from prototorch.caffe.interop.export.layer_export import CaffeLayerExport, exports, make_message
from prototorch.caffe.text.message import Message

_WITHOUT_FIELDS = {
    layers.Sigmoid: "Sigmoid",
    layers.Tanh: "TanH",
    layers.Softplus: "BNLL",
    layers.Abs: "AbsVal",
    layers.Exponential: "Exp",
    layers.Log: "Log",
}
_POWERS = {
    layers.Square: (2.0, 1.0),
    layers.Sqrt: (0.5, 1.0),
    layers.Reciprocal: (-1.0, 1.0),
    layers.Negative: (1.0, -1.0),
}


@exports(*_WITHOUT_FIELDS)
def _without_fields(site: CaffeLayerExport) -> None:
    site.add(_WITHOUT_FIELDS[type(site.layer)], in_place=True)


@exports(*_POWERS)
def _fixed_power(site: CaffeLayerExport) -> None:
    power, scale = _POWERS[type(site.layer)]
    _add_power(site, power=power, scale=scale)


def _add_power(site: CaffeLayerExport, power: float = 1.0, scale: float = 1.0, shift: float = 0.0) -> None:
    param = make_message(
        "PowerParameter",
        power=power if power != 1 else None,
        scale=scale if scale != 1 else None,
        shift=shift if shift != 0 else None,
    )
    site.add("Power", in_place=True, power_param=param)


@exports(layers.SiLU)
def _silu(site: CaffeLayerExport) -> None:
    beta = site.layer.beta  # type: ignore[attr-defined]
    site.add("Swish", in_place=True, swish_param=make_message("SwishParameter", beta=beta if beta != 1 else None))


@exports(layers.Linear)
def _linear(site: CaffeLayerExport) -> None:
    site.pass_through()


@exports(layers.Activation)
def _activation(site: CaffeLayerExport) -> None:
    site.pass_through()
    site.add_activation(site.layer.activation)  # type: ignore[attr-defined]


@exports(layers.ReLU)
def _relu(site: CaffeLayerExport) -> None:
    layer: Any = site.layer
    if layer.threshold:
        site.fail("threshold: Caffe's ReLU has none")
    if layer.max_value is not None:
        if layer.negative_slope:
            site.fail("max_value and negative_slope together: Caffe's ReLU has no max_value")
        site.add("Clip", in_place=True, clip_param=Message("ClipParameter", min=0.0, max=layer.max_value))
    else:
        _add_relu(site, layer.negative_slope)


def _add_relu(site: CaffeLayerExport, slope: float) -> None:
    param = make_message("ReLUParameter", negative_slope=slope if slope else None)
    site.add("ReLU", in_place=True, relu_param=param)


@exports(layers.LeakyReLU)
def _leaky_relu(site: CaffeLayerExport) -> None:
    _add_relu(site, site.layer.negative_slope)  # type: ignore[attr-defined]


@exports(layers.ReLU6)
def _relu6(site: CaffeLayerExport) -> None:
    site.add("Clip", in_place=True, clip_param=Message("ClipParameter", min=0.0, max=6.0))


@exports(layers.Clip)
def _clip(site: CaffeLayerExport) -> None:
    layer: Any = site.layer
    if layer.min is None or layer.max is None:
        site.fail("Caffe's Clip has two bounds")
    site.add("Clip", in_place=True, clip_param=Message("ClipParameter", min=layer.min, max=layer.max))


@exports(layers.ELU)
def _elu(site: CaffeLayerExport) -> None:
    alpha = site.layer.alpha  # type: ignore[attr-defined]
    site.add("ELU", in_place=True, elu_param=make_message("ELUParameter", alpha=alpha if alpha != 1 else None))


@exports(layers.PReLU)
def _prelu(site: CaffeLayerExport) -> None:
    alpha = site.weights["alpha"]
    channels = site.input_shapes[0][1]
    if alpha.size not in (1, channels) or (alpha.size != 1 and alpha.shape[0] != channels):
        site.fail(
            f"alpha has the shape {list(alpha.shape)}; Caffe's PReLU has one for each channel, or one for all: "
            "shared_axes says which axes share it"
        )
    param = make_message("PReLUParameter", channel_shared=True if alpha.size == 1 and channels != 1 else None)
    site.add(
        "PReLU",
        blobs=[alpha.reshape(() if alpha.size == 1 and channels != 1 else -1)],
        in_place=True,
        prelu_param=param,
    )


@exports(layers.Softmax)
def _softmax(site: CaffeLayerExport) -> None:
    axis = site.layer.axis % len(site.input_shapes[0])  # type: ignore[attr-defined]
    param = make_message("SoftmaxParameter", axis=axis if axis != 1 else None)
    site.add("Softmax", softmax_param=param)


@exports(layers.Power)
def _power(site: CaffeLayerExport) -> None:
    exponent = site.layer.exponent  # type: ignore[attr-defined]
    if exponent is None:
        site.fail("the exponent is an input: Caffe's Power has a number")
    _add_power(site, power=exponent)


@exports(layers.Rescaling)
def _rescaling(site: CaffeLayerExport) -> None:
    layer: Any = site.layer
    scale, offset = np.array(layer.scale, np.float32), np.array(layer.offset, np.float32)
    if scale.size == 1 and offset.size == 1:
        _add_power(site, scale=float(scale.item()), shift=float(offset.item()))
        return
    channels = site.input_shapes[0][1]
    blobs = [np.broadcast_to(scale, (channels,)), np.broadcast_to(offset, (channels,))]
    site.add("Scale", blobs=blobs, frozen=True, in_place=True, scale_param=Message("ScaleParameter", bias_term=True))


@exports(layers.Add, layers.Subtract, layers.Multiply, layers.Average, layers.Maximum)
def _eltwise(site: CaffeLayerExport) -> None:
    layer = site.layer
    count = len(site.bottoms)
    if len(set(site.input_shapes)) > 1:
        shapes = " and ".join(str(list(s[1:])) for s in site.input_shapes)
        site.fail(f"its inputs have the shapes {shapes}; Caffe's Eltwise takes equal ones")
    if count == 1:
        site.pass_through()
        return
    operation, coeff = "SUM", None
    if isinstance(layer, layers.Multiply):
        operation = "PROD"
    elif isinstance(layer, layers.Maximum):
        operation = "MAX"
    elif isinstance(layer, layers.Subtract):
        coeff = [1.0, -1.0]
    elif isinstance(layer, layers.Average):
        coeff = [1.0 / count] * count
    site.add(
        "Eltwise",
        eltwise_param=make_message(
            "EltwiseParameter", coeff=coeff, operation=operation if operation != "SUM" else None
        ),
    )
