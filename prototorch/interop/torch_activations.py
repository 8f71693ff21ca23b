"""Translators of the activations."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from prototorch import layers
from prototorch.interop.torch_translator import FunctionModule, LayerInstance, register_translator

_SIMPLE: dict[type[layers.Layer], type[nn.Module]] = {
    layers.Activation: nn.Identity, layers.Linear: nn.Identity, layers.ReLU6: nn.ReLU6, layers.Sigmoid: nn.Sigmoid,
    layers.LogSigmoid: nn.LogSigmoid, layers.HardSigmoid: nn.Hardsigmoid, layers.Tanh: nn.Tanh,
    layers.Softplus: nn.Softplus, layers.Softsign: nn.Softsign, layers.SELU: nn.SELU, layers.SiLU: nn.SiLU,
    layers.HardSwish: nn.Hardswish, layers.Mish: nn.Mish,
}  # fmt: skip


def _enter(kind: type[layers.Layer], module: type[nn.Module]) -> None:
    register_translator(kind)(lambda site: module())


for _kind, _module in _SIMPLE.items():
    _enter(_kind, _module)


@register_translator(layers.ReLU)
def _relu(site: LayerInstance) -> nn.Module:
    layer = site.layer
    if layer.threshold == 0 and layer.negative_slope == 0 and layer.max_value is None:
        return nn.ReLU()

    def work(x: Tensor) -> Tensor:
        y = torch.where(x < layer.threshold, (x - layer.threshold) * layer.negative_slope, x)
        return y if layer.max_value is None else y.clamp(max=layer.max_value)

    return FunctionModule(work)


@register_translator(layers.LeakyReLU)
def _leaky_relu(site: LayerInstance) -> nn.Module:
    return nn.LeakyReLU(site.layer.negative_slope)


@register_translator(layers.ELU)
def _elu(site: LayerInstance) -> nn.Module:
    return nn.ELU(site.layer.alpha)


@register_translator(layers.CELU)
def _celu(site: LayerInstance) -> nn.Module:
    return nn.CELU(site.layer.alpha)


@register_translator(layers.GELU)
def _gelu(site: LayerInstance) -> nn.Module:
    return nn.GELU("tanh" if site.layer.approximate else "none")


@register_translator(layers.Softmax)
def _softmax(site: LayerInstance) -> nn.Module:
    return nn.Softmax(site.layer.axis)


@register_translator(layers.LogSoftmax)
def _log_softmax(site: LayerInstance) -> nn.Module:
    return nn.LogSoftmax(site.layer.axis)


@register_translator(layers.Exponential)
def _exponential(site: LayerInstance) -> nn.Module:
    return FunctionModule(torch.exp)
