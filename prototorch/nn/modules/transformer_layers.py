"""The layers of transformers as modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prototorch.errors import UsageError
from prototorch.nn import functional as F
from prototorch.nn.module import Module
from prototorch.nn.modules.attention import MultiheadAttention
from prototorch.nn.modules.dropout import Dropout
from prototorch.nn.modules.linear import Linear
from prototorch.nn.modules.normalization import LayerNorm

__all__ = ["TransformerDecoderLayer", "TransformerEncoderLayer"]


class _TransformerLayer(Module):
    """What both layers have: attention to itself, a feed-forward part, norms, dropout."""

    def __init__(
        self,
        parts: int,
        d_model: int,
        nhead: int,
        dim_feedforward: int,
        dropout: float,
        activation: Any,
        layer_norm_eps: float,
        batch_first: bool,
        norm_first: bool,
        bias: bool,
        device: Any,
        dtype: Any,
    ):
        super().__init__()
        tensor_options = {"device": device, "dtype": dtype}
        for name in ("self_attn", "multihead_attn")[: parts - 1]:
            setattr(
                self, name, MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **tensor_options)
            )
        self.linear1 = Linear(d_model, dim_feedforward, bias, **tensor_options)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, **tensor_options)
        self.norm_first = norm_first
        for k in range(1, parts + 1):
            setattr(self, f"norm{k}", LayerNorm(d_model, layer_norm_eps, bias=bias, **tensor_options))
        for k in range(1, parts + 1):
            setattr(self, f"dropout{k}", Dropout(dropout))
        self.activation = _activation(activation)

    def _attend(self, attention: Any, dropout: Any, x: Any, memory: Any, mask: Any, padding: Any, causal: bool) -> Any:
        y = attention(
            x, memory, memory, key_padding_mask=padding, need_weights=False, attn_mask=mask, is_causal=causal
        )[0]
        return dropout(y)

    def _feed_forward(self, dropout: Any, x: Any) -> Any:
        return dropout(self.linear2(self.dropout(self.activation(self.linear1(x)))))

    def _add(self, norm: Any, x: Any, part: Callable[[Any], Any]) -> Any:
        """x + part(norm(x)) with ``norm_first``, else norm(x + part(x))."""
        return x + part(norm(x)) if self.norm_first else norm(x + part(x))


class TransformerEncoderLayer(_TransformerLayer):
    """A layer of an encoder: attention to itself and a feed-forward part, each added to its input and normalized.

    d_model: the number of features; nhead: of heads; dim_feedforward: of units of the feed-forward part. activation:
    "relu", "gelu" or a function. norm_first: normalize before each part, not after the sum.
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Any = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ):
        super().__init__(
            2,
            d_model,
            nhead,
            dim_feedforward,
            dropout,
            activation,
            layer_norm_eps,
            batch_first,
            norm_first,
            bias,
            device,
            dtype,
        )

    def forward(self, src: Any, src_mask: Any = None, src_key_padding_mask: Any = None, is_causal: bool = False) -> Any:
        """src [t, batch, d_model] (with ``batch_first`` [batch, t, d_model], or [t, d_model] of one sequence). Masks as
        for `MultiheadAttention`; is_causal: a hint that src_mask is the causal one."""

        def attend(x: Any) -> Any:
            return self._attend(self.self_attn, self.dropout1, x, x, src_mask, src_key_padding_mask, is_causal)

        x = self._add(self.norm1, src, attend)
        return self._add(self.norm2, x, lambda x: self._feed_forward(self.dropout2, x))


class TransformerDecoderLayer(_TransformerLayer):
    """A layer of a decoder: attention to itself, attention to the outputs of an encoder, and a feed-forward part.

    Arguments as for `TransformerEncoderLayer`.
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Any = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ):
        super().__init__(
            3,
            d_model,
            nhead,
            dim_feedforward,
            dropout,
            activation,
            layer_norm_eps,
            batch_first,
            norm_first,
            bias,
            device,
            dtype,
        )

    def forward(
        self,
        tgt: Any,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Any:
        """tgt [t, batch, d_model] and the encoder's outputs memory [s, batch, d_model] (with ``batch_first`` the batch
        first, or none). Masks as for `MultiheadAttention`; the hints say that a mask is the causal one."""

        def attend(x: Any) -> Any:
            return self._attend(self.self_attn, self.dropout1, x, x, tgt_mask, tgt_key_padding_mask, tgt_is_causal)

        def look_up(x: Any) -> Any:
            return self._attend(
                self.multihead_attn, self.dropout2, x, memory, memory_mask, memory_key_padding_mask, memory_is_causal
            )

        x = self._add(self.norm1, tgt, attend)
        x = self._add(self.norm2, x, look_up)
        return self._add(self.norm3, x, lambda x: self._feed_forward(self.dropout3, x))


def _activation(activation: Any) -> Any:
    if isinstance(activation, str):
        if activation not in ("relu", "gelu"):
            raise UsageError(f"activation must be 'relu', 'gelu' or a function, got {activation!r:.60}")
        return {"relu": F.relu, "gelu": F.gelu}[activation]
    if not callable(activation):
        raise UsageError(f"activation must be 'relu', 'gelu' or a function, got {activation!r:.60}")
    return activation
