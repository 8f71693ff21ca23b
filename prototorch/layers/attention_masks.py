"""Masks of attention: which keys a query sees, and which queries get anything."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from prototorch import ops
from prototorch.layers.context import ArrayValue, Context
from prototorch.layers.mask_shapes import steps_mask
from prototorch.ops.lazy_array import LazyArray


def key_masks(ctx: Context, *inputs: ArrayValue) -> list[Any]:
    """The masks of keys and values, each [batch, 1, 1, s]; one that both have once."""
    masks = {id(m): m for x in inputs if (m := steps_mask(ctx, x)) is not None}
    return [ops.reshape(m, shape=(m.shape[0], 1, 1, m.shape[1])) for m in masks.values()]


def visible_keys(ctx: Context, query: ArrayValue, value: Any, key: Any, mask: Any, is_causal: bool) -> tuple[Any, ...]:
    """One mask of the keys that are seen, beyond the op's own causal rule, or none: bool, broadcasts to [batch, heads,
    t, s]. ``mask``: that of an input [batch, t, s] or None. Raises ShapeError."""
    t, s = query.shape[1], key.shape[1]
    masks = []
    if mask is not None:
        if tuple(mask.shape[1:]) != (t, s):
            ctx.fail(f"the mask must have the shape [{t}, {s}], not {list(mask.shape[1:])}")
        mask = mask if mask.dtype == "bool" else ops.not_equal(mask, 0)
        masks.append(ops.expand_dims(mask, 1))
    masks += key_masks(ctx, value, key)
    if is_causal and t != s:
        masks.append(causal_mask(t, s))
    return (reduce(ops.logical_and, masks),) if masks else ()


def attending_queries(
    ctx: Context, query: ArrayValue, value: Any, masks: tuple[Any, ...], is_causal: bool
) -> Any | None:
    """The queries that their own mask does not leave out and that see a key: bool, broadcasts to [batch, t]; None for
    all."""
    t = query.shape[1]
    query_masks = [m for m in (steps_mask(ctx, query),) if m is not None]
    # in self-attention without a mask as an input each query that counts sees itself
    if masks and not isinstance(masks[0], LazyArray) and (value is not query or masks[0].shape[2] > 1):
        visible = masks[0]
        if is_causal and t == visible.shape[3]:
            visible = ops.logical_and(visible, causal_mask(t, t))
        query_masks.append(ops.squeeze(ops.any(visible, axis=3), axis=1))
    return reduce(ops.logical_and, query_masks) if query_masks else None


def causal_mask(t: int, s: int) -> LazyArray:
    """Which of s keys each of t queries sees: those up to its own step; bool [1, 1, t, s]."""
    return LazyArray((1, 1, t, s), "bool", lambda: np.tril(np.ones((1, 1, t, s), bool)))


def zero_rows(x: ArrayValue, keep: Any | None, axis: int) -> Any:
    """x [batch, ..., t, ...], t at an axis, with zeros at the steps that the mask [batch, t] leaves out."""
    if keep is None:
        return x
    return ops.where(ops.reshape(keep, shape=(keep.shape[0], *(1,) * (axis - 1), keep.shape[1], *(1,) * (3 - axis))), x,
                     ops.zeros_like(x))  # fmt: skip


def by_head(x: ArrayValue) -> Any:
    """[batch, time, heads, n] as [batch, heads, time, n], or back."""
    return ops.transpose(x, order=(0, 2, 1, 3))
