"""Attention of several heads with PyTorch's weights and masks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from prototorch import ops
from prototorch.eager.registry import tensor_function
from prototorch.errors import ShapeError, UsageError
from prototorch.nn.arguments import check_input
from prototorch.nn.functional.attention import drop_weights, scaled_dot_product_attention
from prototorch.nn.functional.linear import linear

__all__ = ["multi_head_attention_forward"]

_NAME = "multi_head_attention_forward"


@tensor_function(method=False)
def multi_head_attention_forward(
    query: Any,
    key: Any,
    value: Any,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Any,
    in_proj_bias: Any,
    bias_k: Any,
    bias_v: Any,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Any,
    out_proj_bias: Any,
    training: bool = True,
    key_padding_mask: Any = None,
    need_weights: bool = True,
    attn_mask: Any = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Any = None,
    k_proj_weight: Any = None,
    v_proj_weight: Any = None,
    static_k: Any = None,
    static_v: Any = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Any, Any]:
    """query [t, batch, embed], key and value [s, batch, ...] (all without the batch for one sequence) give the output
    [t, batch, embed] and, with ``need_weights``, the weights [batch, t, s] (without ``average_attn_weights`` [batch,
    heads, t, s]), else None.

    in_proj_weight [3 embed, embed], or with ``use_separate_proj_weight`` three of their own; in_proj_bias [3 embed];
    bias_k, bias_v [1, 1, embed] are one more key and value; add_zero_attn adds one of zeros. key_padding_mask [batch,
    s] and attn_mask [t, s] or [batch * heads, t, s]: bool, True where a key is NOT seen, or numbers that are added to
    the scores. is_causal: a hint that attn_mask is the causal one, which must be given. Without ``need_weights`` the
    matrix of all weights is not stored (see `scaled_dot_product_attention`).
    """
    if static_k is not None or static_v is not None:
        raise UsageError(f"{_NAME}: static_k and static_v are not available; pass key and value")
    if is_causal and attn_mask is None:
        raise UsageError(
            f"{_NAME}: is_causal is a hint about attn_mask, which must be given: "
            "nn.Transformer.generate_square_subsequent_mask makes it"
        )
    _check_inputs(query, key, value, embed_dim_to_check, num_heads)
    is_one = query.ndim == 2
    if is_one:
        query, key, value = (ops.expand_dims(x, 1) for x in (query, key, value))
        key_padding_mask = None if key_padding_mask is None else ops.expand_dims(key_padding_mask, 0)
    t, batch, embed = query.shape
    s = key.shape[0]
    weights = _projections(in_proj_weight, use_separate_proj_weight, (q_proj_weight, k_proj_weight, v_proj_weight))
    biases = (None,) * 3 if in_proj_bias is None else ops.split(in_proj_bias, 3, axis=0)
    q, k, v = (linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases, strict=True))
    masks = _Masks(batch, num_heads, t, s, attn_mask, key_padding_mask)
    if bias_k is not None and bias_v is not None:
        k, v = (_append(x, ops.broadcast_to(extra, shape=(1, batch, embed))) for x, extra in ((k, bias_k), (v, bias_v)))
        masks.add_key()
    if add_zero_attn:
        zeros = ops.full.apply_like(k, shape=(1, batch, embed), value=0.0, dtype=str(k.dtype))
        k, v = (_append(x, zeros) for x in (k, v))
        masks.add_key()
    q, k, v = (_by_head(x, num_heads) for x in (q, k, v))
    dropout_p = dropout_p if training else 0.0
    attention = None
    if need_weights:
        attention = drop_weights(_weights(q, k, masks.as_bias(str(q.dtype))), dropout_p)
        y = ops.matmul(attention, v)
    elif is_causal and key_padding_mask is None and k.shape[2] == s:
        y = scaled_dot_product_attention(q, k, v, dropout_p=dropout_p, is_causal=True)
    else:
        y = scaled_dot_product_attention(q, k, v, masks.seen_or_bias(str(q.dtype)), dropout_p)
    y = ops.reshape(ops.transpose(y, order=(2, 0, 1, 3)), shape=(t, batch, embed))
    y = linear(y, out_proj_weight, out_proj_bias)
    if attention is not None and average_attn_weights:
        attention = ops.mean(attention, axis=1)
    if is_one:
        y = ops.squeeze(y, axis=1)
        attention = None if attention is None else ops.squeeze(attention, axis=0)
    return y, attention


def _check_inputs(query: Any, key: Any, value: Any, embed: int, heads: int) -> None:
    for x in (query, key, value):
        check_input(x, _NAME)
    shapes = f"query {list(query.shape)}, key {list(key.shape)}, value {list(value.shape)}"
    if query.ndim not in (2, 3) or {key.ndim, value.ndim} != {query.ndim}:
        raise ShapeError(f"{_NAME}: expected [steps, batch, features], or [steps, features] each, got {shapes}")
    if query.shape[-1] != embed:
        raise ShapeError(f"{_NAME}: embed_dim is {embed}, but the query has {query.shape[-1]} features: {shapes}")
    if tuple(key.shape[:-1]) != tuple(value.shape[:-1]) or tuple(key.shape[1:-1]) != tuple(query.shape[1:-1]):
        raise ShapeError(f"{_NAME}: keys and values must be as many, of the queries' batch: {shapes}")
    if embed % heads:
        raise UsageError(f"{_NAME}: embed_dim {embed} does not divide into {heads} heads")


def _projections(in_proj_weight: Any, is_separate: bool, single: tuple[Any, Any, Any]) -> tuple[Any, ...]:
    if not is_separate:
        return tuple(ops.split(in_proj_weight, 3, axis=0))
    if any(w is None for w in single):
        raise UsageError(f"{_NAME}: use_separate_proj_weight needs q_proj_weight, k_proj_weight and v_proj_weight")
    return single


def _by_head(x: Any, heads: int) -> Any:
    """[steps, batch, embed] as [batch, heads, steps, embed / heads]."""
    steps, batch, embed = x.shape
    return ops.transpose(ops.reshape(x, shape=(steps, batch, heads, embed // heads)), order=(1, 2, 0, 3))


def _append(x: Any, row: Any) -> Any:
    return ops.concat(x, row, axis=0)


def _weights(q: Any, k: Any, bias: Any) -> Any:
    """softmax(q k^T / sqrt(d) + bias); NaN for a query that sees no key, as in PyTorch."""
    scores = ops.matmul(q, k, transpose_b=True) * (1 / math.sqrt(q.shape[-1]))
    return ops.softmax(scores if bias is None else scores + bias)


class _Masks:
    """The masks of attention, each broadcasts to [batch, heads, t, s]; one may be bool and the other numbers."""

    def __init__(self, batch: int, heads: int, t: int, s: int, attention: Any, padding: Any):
        self.masks: list[Any] = []
        if attention is not None:
            check_input(attention, _NAME)
            shapes = {(t, s): (1, 1, t, s), (batch * heads, t, s): (batch, heads, t, s)}
            self._add("attn_mask", attention, shapes)
        if padding is not None:
            check_input(padding, _NAME)
            self._add("key_padding_mask", padding, {(batch, s): (batch, 1, 1, s)})

    def _add(self, name: str, mask: Any, shapes: Mapping[tuple[int, ...], tuple[int, ...]]) -> None:
        if tuple(mask.shape) not in shapes:
            expected = " or ".join(str(list(shape)) for shape in shapes)
            raise ShapeError(f"{_NAME}: {name} must be {expected}, got {list(mask.shape)}")
        if str(mask.dtype) != "bool" and not mask.spec.is_float:
            raise UsageError(f"{_NAME}: {name} must be bool or floating-point, got {mask.dtype!r}")
        self.masks.append(ops.reshape(mask, shape=shapes[tuple(mask.shape)]))

    def add_key(self) -> None:
        """One more key, which all queries see."""
        for i, mask in enumerate(self.masks):
            value = False if str(mask.dtype) == "bool" else 0.0
            more = ops.full.apply_like(mask, shape=(*mask.shape[:3], 1), value=value, dtype=str(mask.dtype))
            self.masks[i] = ops.concat(mask, more, axis=3)

    def as_bias(self, dtype: str) -> Any:
        """The sum of the masks as numbers; None without masks."""
        biases = [_as_numbers(mask, dtype) for mask in self.masks]
        return None if not biases else biases[0] if len(biases) == 1 else biases[0] + biases[1]

    def seen_or_bias(self, dtype: str) -> Any:
        """Where a query sees a key, in bool, where all masks are; else `as_bias`."""
        if self.masks and all(str(mask.dtype) == "bool" for mask in self.masks):
            seen = [ops.logical_not(mask) for mask in self.masks]
            return seen[0] if len(seen) == 1 else ops.logical_and(*seen)
        return self.as_bias(dtype)


def _as_numbers(mask: Any, dtype: str) -> Any:
    if str(mask.dtype) != "bool":
        return mask if str(mask.dtype) == dtype else ops.cast(mask, dtype=dtype)
    zeros = ops.full.apply_like(mask, shape=tuple(mask.shape), value=0.0, dtype=dtype)
    minus_infinity = ops.full.apply_like(mask, shape=tuple(mask.shape), value=-math.inf, dtype=dtype)
    return ops.where(mask, minus_infinity, zeros)
