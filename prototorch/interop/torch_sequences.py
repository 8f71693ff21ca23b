"""Translators of the recurrent layers and of attention."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch.nn.functional as F
from torch import Tensor, nn

from prototorch import layers
from prototorch.interop.torch_translator import LayerInstance, UntranslatableError, register_translator, set_parameter


def _check_gates(layer: Any, activation: type, recurrent: type | None = None) -> None:
    if type(layer.activation) is not activation:
        raise UntranslatableError(f"the activation {type(layer.activation).__name__} is not translated")
    if recurrent is not None and type(layer.recurrent_activation) is not recurrent:
        raise UntranslatableError(
            f"the recurrent_activation {type(layer.recurrent_activation).__name__} is not translated"
        )
    if layer.dropout or layer.recurrent_dropout:
        raise UntranslatableError("dropout inside a recurrent layer is not translated")


class _Recurrent(nn.Module):
    """One of PyTorch's recurrent layers, with prototorch's outputs. ``order``: PyTorch's gates as indices of ours."""

    def __init__(
        self, site: LayerInstance, inner: Any, order: tuple[int, ...], recurrent_bias: np.ndarray | None = None
    ):
        super().__init__()
        self.layer, self.inner = site.layer, inner

        def transpose_gates(array: np.ndarray | None) -> np.ndarray | None:
            if array is None:
                return None
            parts = np.split(array, len(order), axis=-1)
            return np.concatenate([parts[i] for i in order], axis=-1).T

        weights = site.weights
        bias = weights.get("bias")
        set_parameter(inner.weight_ih_l0, transpose_gates(weights["kernel"]))
        set_parameter(inner.weight_hh_l0, transpose_gates(weights["recurrent_kernel"]))
        set_parameter(inner.bias_ih_l0, transpose_gates(bias if recurrent_bias is None or bias is None else bias[0]))
        set_parameter(inner.bias_hh_l0, transpose_gates(recurrent_bias))

    def forward(self, x: Tensor, *first: Tensor) -> Any:
        x = x.flip(1) if self.layer.go_backwards else x
        states = [s[None].contiguous() for s in first]
        whole, last = self.inner(x, *([tuple(states) if len(states) > 1 else states[0]] if states else []))
        y = whole if self.layer.return_sequences else whole[:, -1]
        if not self.layer.return_state:
            return y
        return (y, *(s[0] for s in (last if isinstance(last, tuple) else (last,))))


@register_translator(layers.LSTM)
def _lstm(site: LayerInstance) -> nn.Module:
    _check_gates(site.layer, layers.Tanh, layers.Sigmoid)
    inner = nn.LSTM(site.shape[2], site.layer.units, batch_first=True)
    return _Recurrent(site, inner, (0, 1, 2, 3))  # i, f, c, o in both


@register_translator(layers.GRU)
def _gru(site: LayerInstance) -> nn.Module:
    _check_gates(site.layer, layers.Tanh, layers.Sigmoid)
    if not site.layer.reset_after:
        raise UntranslatableError("reset_after: false is not translated")
    bias = site.weights.get("bias")
    inner = nn.GRU(site.shape[2], site.layer.units, batch_first=True)
    return _Recurrent(site, inner, (1, 0, 2), None if bias is None else bias[1])  # ours z, r, h; PyTorch's r, z, n


@register_translator(layers.SimpleRNN)
def _simple_rnn(site: LayerInstance) -> nn.Module:
    kind = "relu" if type(site.layer.activation) is layers.ReLU else "tanh"
    _check_gates(site.layer, layers.ReLU if kind == "relu" else layers.Tanh)
    return _Recurrent(site, nn.RNN(site.shape[2], site.layer.units, nonlinearity=kind, batch_first=True), (0,))


class _Attention(nn.Module):
    """Projections around PyTorch's own attention over all heads at once."""

    def __init__(self, site: LayerInstance):
        super().__init__()
        self.layer = layer = site.layer
        for name in ("query", "key", "value", "attention_output"):
            kernel, bias = site.weights[f"{name}/kernel"], site.weights.get(f"{name}/bias")
            wide = (
                bias.size if bias is not None else int(np.prod(kernel.shape[1 if name != "attention_output" else 2 :]))
            )
            flat = kernel.reshape(-1, wide)
            linear = nn.Linear(*flat.shape, bias=layer.use_bias)
            set_parameter(linear.weight, flat.T)
            set_parameter(linear.bias, None if bias is None else bias.reshape(-1))
            self.add_module(name, linear)

    def forward(self, query: Tensor, value: Tensor | None = None, key: Tensor | None = None) -> Tensor:
        value = query if value is None else value
        key = value if key is None else key
        q, k, v = (
            self.get_submodule(name)(x).unflatten(2, (self.layer.num_heads, -1)).transpose(1, 2)
            for name, x in (("query", query), ("key", key), ("value", value))
        )
        rate = self.layer.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=rate, is_causal=self.layer.causal)
        return self.get_submodule("attention_output")(y.transpose(1, 2).flatten(2))


@register_translator(layers.MultiHeadAttention)
def _attention(site: LayerInstance) -> nn.Module:
    if site.layer.return_attention_scores:
        raise UntranslatableError("return_attention_scores is not translated")
    if len(site.shapes) > 3:
        raise UntranslatableError("a mask as an input is not translated")
    return _Attention(site)
