"""Translators of the recurrent layers and of attention."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from prototorch import layers
from prototorch.interop.torch.layouts import attention_projections
from prototorch.interop.torch_translator import LayerInstance, UntranslatableError, register_translator


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
    """One of PyTorch's recurrent layers, with prototorch's outputs."""

    def __init__(self, site: LayerInstance, kind: Any, **options: Any):
        super().__init__()
        self.layer = site.layer
        self.inner = site.load(
            kind(site.shape[2], site.layer.units, bias=site.layer.use_bias, batch_first=True, **options)
        )

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
    return _Recurrent(site, nn.LSTM)


@register_translator(layers.GRU)
def _gru(site: LayerInstance) -> nn.Module:
    _check_gates(site.layer, layers.Tanh, layers.Sigmoid)
    if not site.layer.reset_after:
        raise UntranslatableError("reset_after: false is not translated")
    return _Recurrent(site, nn.GRU)


@register_translator(layers.SimpleRNN)
def _simple_rnn(site: LayerInstance) -> nn.Module:
    kind = "relu" if type(site.layer.activation) is layers.ReLU else "tanh"
    _check_gates(site.layer, layers.ReLU if kind == "relu" else layers.Tanh)
    return _Recurrent(site, nn.RNN, nonlinearity=kind)


class _Attention(nn.Module):
    """Projections around PyTorch's own attention over all heads at once."""

    def __init__(self, site: LayerInstance):
        super().__init__()
        self.layer = layer = site.layer
        layouts = attention_projections(layer, {name: w.shape for name, w in site.weights.items()})
        for layout in layouts:
            name, _, kind = layout.theirs[0].partition(".")
            if kind == "weight":
                ((size, length),) = layout.their_shapes({n: site.weights[n].shape for n in layout.ours})
                self.add_module(name, nn.Linear(length, size, bias=layer.use_bias))
        site.load(self, layouts)

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
