"""Attention of several heads as a module."""

from __future__ import annotations

from typing import Any

from prototorch import ops
from prototorch.errors import ShapeError, UsageError
from prototorch.nn import functional as F
from prototorch.nn.arguments import as_sizes, check_dtype, check_input
from prototorch.nn.init import constant_, xavier_normal_, xavier_uniform_
from prototorch.nn.module import Module
from prototorch.nn.modules.linear import Linear
from prototorch.nn.parameter import new_parameter

__all__ = ["MultiheadAttention"]


class NonDynamicallyQuantizableLinear(Linear):
    """A `Linear`, by the name that PyTorch's text of an attention shows."""


class MultiheadAttention(Module):
    """Attention of several heads (Vaswani et al., 2017): each looks up values by keys, all at once.

    Parameters: in_proj_weight [3 embed_dim, embed_dim] and in_proj_bias [3 embed_dim], out_proj (a `Linear`); with
    another kdim or vdim q_proj_weight [embed_dim, embed_dim], k_proj_weight [embed_dim, kdim] and v_proj_weight
    [embed_dim, vdim]; with ``add_bias_kv`` bias_k and bias_v [1, 1, embed_dim], one more key and value.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ):
        super().__init__()
        (embed_dim,), (num_heads,) = as_sizes(embed_dim, 1, "embed_dim", 1), as_sizes(num_heads, 1, "num_heads", 1)
        if embed_dim % num_heads:
            raise UsageError(f"embed_dim must be divisible by num_heads, got {embed_dim} and {num_heads}")
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.kdim, self.vdim = kdim if kdim is not None else embed_dim, vdim if vdim is not None else embed_dim
        self.dropout, self.batch_first, self.add_zero_attn = dropout, batch_first, add_zero_attn
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        widths = {"q_proj_weight": embed_dim, "k_proj_weight": self.kdim, "v_proj_weight": self.vdim}
        for name, width in widths.items():
            parameter = None if self._qkv_same_embed_dim else new_parameter((embed_dim, width), device, dtype)
            self.register_parameter(name, parameter)
        in_proj = new_parameter((3 * embed_dim, embed_dim), device, dtype) if self._qkv_same_embed_dim else None
        self.register_parameter("in_proj_weight", in_proj)
        self.register_parameter("in_proj_bias", new_parameter((3 * embed_dim,), device, dtype) if bias else None)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias, device, dtype)
        for name in ("bias_k", "bias_v"):
            self.register_parameter(name, new_parameter((1, 1, embed_dim), device, dtype) if add_bias_kv else None)
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        weights = [self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight]
        for weight in weights:
            if weight is not None:
                xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            constant_(self.in_proj_bias, 0.0)
            constant_(self.out_proj.bias, 0.0)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                xavier_normal_(bias)

    def forward(
        self,
        query: Any,
        key: Any,
        value: Any,
        key_padding_mask: Any = None,
        need_weights: bool = True,
        attn_mask: Any = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Any, Any]:
        """query [t, batch, embed_dim], key [s, batch, kdim] and value [s, batch, vdim] (with ``batch_first`` the batch
        first, or none for one sequence): the output, of the query's form, and the weights (None without
        ``need_weights``). See `nn.functional.multi_head_attention_forward` for masks and weights."""
        for x in (query, key, value):
            check_input(x, "MultiheadAttention")
            check_dtype(x, self.out_proj.weight, "MultiheadAttention")
        if query.ndim not in (2, 3):
            raise ShapeError(f"MultiheadAttention: expected a query of 2 or 3 dimensions, got {list(query.shape)}")
        moves = self.batch_first and query.ndim == 3
        if moves and key.ndim == value.ndim == 3:
            query, key, value = (ops.transpose(x, order=(1, 0, 2)) for x in (query, key, value))
        y, weights = F.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            self.training,
            key_padding_mask,
            need_weights,
            attn_mask,
            not self._qkv_same_embed_dim,
            self.q_proj_weight,
            self.k_proj_weight,
            self.v_proj_weight,
            None,
            None,
            average_attn_weights,
            is_causal,
        )
        return (ops.transpose(y, order=(1, 0, 2)) if moves else y), weights
