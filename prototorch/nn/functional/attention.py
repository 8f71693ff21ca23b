"""Scaled dot product attention (Vaswani et al., 2017)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from prototorch import ops
from prototorch.eager.key_tensor import key_tensor
from prototorch.eager.registry import FUNCTIONS, tensor_function
from prototorch.eager.tracing import active_trace
from prototorch.errors import ShapeError, UsageError
from prototorch.nn.arguments import check_input

__all__ = ["scaled_dot_product_attention"]


@tensor_function(method=False)
def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """softmax(query key^T scale) value: query [..., t, d], key [..., s, d], value [..., s, e] give [..., t, e].

    attn_mask: broadcasts to [..., t, s]; bool, True where a query sees a key (one that sees none gives 0), or numbers
    that are added to the scores. dropout_p: fraction of the weights that is dropped, whatever the phase. is_causal: a
    query sees the keys up to its own step; not together with attn_mask. scale: 1 / sqrt(d) by default. enable_gqa:
    several heads (dimension -3) of queries share one of keys and values.

    The matrix of all weights is not stored, unless attn_mask holds other numbers than 0 and -inf.
    """
    shapes = _check(query, key, value, attn_mask, dropout_p, is_causal, scale)
    t, s = query.shape[-2], key.shape[-2]
    if enable_gqa:
        key, value = (_repeat_heads(x, query) for x in (key, value))
    lead = _broadcast(query, key, value)
    n, h = (math.prod(lead[:-1]), lead[-1]) if lead else (1, 1)
    if attn_mask is not None:
        _check_mask_shape(attn_mask, (*lead, t, s))
        attn_mask = _four_dimensions(attn_mask, lead)
    mask = _visible_keys(attn_mask)
    q, k, v = (_as_heads(x, lead, (n, h)) for x in (query, key, value))
    if not s:  # no key: 0, as for a query whose keys are all masked
        return ops.reshape(ops.matmul(q, k, transpose_b=True), shape=(*lead, t, 0)) @ value
    if mask is None and attn_mask is not None:
        y = _by_scores(q, k, v, attn_mask, dropout_p, scale)
    else:
        if is_causal and t != s:
            mask = np.tril(np.ones((1, 1, t, s), bool))
        y = _fused(q, k, v, mask, dropout_p, is_causal and t == s, scale, hides_rows=attn_mask is not None)
    return ops.reshape(y, shape=(*lead, t, shapes[2][-1]))


def _check(
    query: Any, key: Any, value: Any, attn_mask: Any, dropout_p: float, is_causal: bool, scale: Any
) -> list[Any]:
    name = "scaled_dot_product_attention"
    for x in (query, key, value, *(() if attn_mask is None else (attn_mask,))):
        check_input(x, name)
    shapes = [list(x.shape) for x in (query, key, value)]
    shapes_text = f"query {shapes[0]}, key {shapes[1]}, value {shapes[2]}"
    if any(len(shape) < 2 for shape in shapes):
        raise ShapeError(f"{name}: expected at least two dimensions [..., steps, features], got {shapes_text}")
    if shapes[0][-1] != shapes[1][-1] or shapes[1][-2] != shapes[2][-2]:
        raise ShapeError(f"{name}: expected query [..., t, d], key [..., s, d], value [..., s, e], got {shapes_text}")
    if len({str(x.dtype) for x in (query, key, value)}) > 1 or not query.spec.is_float:
        types = ", ".join(repr(x.dtype) for x in (query, key, value))
        raise UsageError(f"{name}: query, key and value must have one floating-point type, got {types}")
    if isinstance(dropout_p, bool) or not isinstance(dropout_p, int | float) or not 0 <= dropout_p <= 1:
        raise UsageError(f"{name}: dropout_p must be from 0 to 1, got {dropout_p!r:.60}")
    if scale is not None and not isinstance(scale, int | float):
        raise UsageError(f"{name}: scale must be a number, got {scale!r:.60}")
    if is_causal and attn_mask is not None:
        raise UsageError(f"{name}: is_causal and attn_mask exclude each other; put both into attn_mask")
    if attn_mask is not None and str(attn_mask.dtype) not in ("bool", str(query.dtype)):
        raise UsageError(
            f"{name}: attn_mask must be bool or of the query's type {query.dtype!r}, got {attn_mask.dtype!r}"
        )
    return shapes


def _broadcast(*tensors: Any) -> tuple[int, ...]:
    """The common dimensions in front of steps and features."""
    try:
        return tuple(np.broadcast_shapes(*(tuple(x.shape[:-2]) for x in tensors)))
    except ValueError:
        shapes = ", ".join(str(list(x.shape)) for x in tensors)
        raise ShapeError(
            f"scaled_dot_product_attention: the dimensions in front of steps and features do not broadcast: {shapes}"
        ) from None


def _repeat_heads(x: Any, query: Any) -> Any:
    if x.ndim < 3 or query.ndim < 3 or query.shape[-3] % max(x.shape[-3], 1):
        raise ShapeError(
            f"scaled_dot_product_attention: enable_gqa needs heads of keys that divide those of the queries, got "
            f"{list(query.shape)} and {list(x.shape)}"
        )
    return ops.repeat(x, query.shape[-3] // x.shape[-3], axis=x.ndim - 3)


def _check_mask_shape(mask: Any, shape: tuple[int, ...]) -> None:
    try:
        fits = tuple(np.broadcast_shapes(tuple(mask.shape), shape)) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ShapeError(
            f"scaled_dot_product_attention: attn_mask {list(mask.shape)} does not broadcast to the scores {list(shape)}"
        )


def _four_dimensions(mask: Any, lead: tuple[int, ...]) -> Any:
    """A mask as [batch, heads, t, s], where each dimension may be 1."""
    shape = (1,) * (max(len(lead), 2) + 2 - mask.ndim) + tuple(mask.shape)
    if len(shape) > 4:
        batch = 1
        if any(n != 1 for n in shape[:-3]):
            batch = math.prod(lead[:-1])
            mask = ops.broadcast_to(ops.reshape(mask, shape=shape), shape=(*lead[:-1], *shape[-3:]))
        shape = (batch, *shape[-3:])
    return ops.reshape(mask, shape=shape)


def _as_heads(x: Any, lead: tuple[int, ...], sizes: tuple[int, int]) -> Any:
    """[..., steps, features] as [batch, heads, steps, features]."""
    if tuple(x.shape[:-2]) != lead:
        x = ops.broadcast_to(x, shape=(*lead, *x.shape[-2:]))
    return ops.reshape(x, shape=(*sizes, *x.shape[-2:]))


def _visible_keys(mask: Any) -> Any:
    """The mask in bool, where it says no more than which keys are seen; else None."""
    if mask is None or str(mask.dtype) == "bool":
        return mask
    if mask.requires_grad or active_trace.get() is not None:
        return None
    numbers = mask.numpy()
    is_hidden = np.isneginf(numbers)
    return mask.interpreter.constant(~is_hidden) if np.all(is_hidden | (numbers == 0)) else None


def _fused(
    q: Any, k: Any, v: Any, mask: Any, dropout_p: float, causal: bool, scale: float | None, hides_rows: bool
) -> Any:
    """By the op that stores no matrix of weights."""
    masks = () if mask is None else (mask,)
    random: tuple[Any, ...] = ()
    attrs: dict[str, Any] = {"causal": causal} if scale is None else {"causal": causal, "scale": float(scale)}
    if 0 < dropout_p < 1:
        random = (key_tensor(interpreter=q.interpreter),)
        attrs |= {"rate": float(dropout_p), "site": 0}
    q, k, v = (ops.transpose(x, order=(0, 2, 1, 3)) for x in (q, k, v))
    y = ops.transpose(ops.attention_heads(q, k, v, *masks, *random, **attrs), order=(0, 2, 1, 3))
    y = y * 0.0 if dropout_p == 1 else y
    if not hides_rows:
        return y
    return ops.where(ops.any(mask, axis=3, keepdims=True), y, ops.zeros_like(y))


def _by_scores(q: Any, k: Any, v: Any, bias: Any, dropout_p: float, scale: float | None) -> Any:
    """With numbers that are added to the scores."""
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else float(scale)
    scores = ops.matmul(q, k, transpose_b=True) * factor + bias
    sees_none = ops.all(ops.equal(scores, -math.inf), axis=3, keepdims=True)
    scores = ops.where(sees_none, ops.zeros_like(scores), scores)
    weights = ops.softmax(scores)
    weights = ops.where(sees_none, ops.zeros_like(weights), weights)
    return ops.matmul(drop_weights(weights, dropout_p), v)


def drop_weights(weights: Any, dropout_p: float) -> Any:
    """Weights of which a fraction is 0, the others larger."""
    return FUNCTIONS["dropout"](weights, dropout_p, True) if dropout_p else weights
