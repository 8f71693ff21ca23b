"""Shapes of masks.

A mask (bool, True where an element counts) belongs to the leading axes of its value: it has the value's first
dimensions, each whole or of size 1, where it holds for all positions. [batch, time] is the usual mask of
[batch, time, features]; behind `Permute` it is [batch, 1, time].
"""

from __future__ import annotations

from functools import reduce
from typing import Any

from prototorch import ops
from prototorch.layers.context import ArrayValue, Context


def expand_mask(mask: ArrayValue, ndim: int) -> Any:
    """The mask with dimensions of size 1 at the end, ``ndim`` dimensions in all, so that it broadcasts to its value."""
    return mask if mask.ndim >= ndim else ops.reshape(mask, shape=(*mask.shape, *(1,) * (ndim - mask.ndim)))


def is_mask_shape(mask: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Whether a mask of the first shape can belong to a value of the second."""
    return len(mask) <= len(shape) and all(m in (1, n) for m, n in zip(mask, shape, strict=False))


def transpose_with_mask(ctx: Context, x: ArrayValue, order: tuple[int, ...]) -> Any:
    """A value with its axes in another order; its mask, if it has one, goes with them."""
    y = ops.transpose(x, order=order)
    mask = ctx.mask(x)
    if mask is not None:
        ndim = 1 + max(order.index(i) for i, n in enumerate(mask.shape) if n > 1 or x.shape[i] == 1 or i == 0)
        moved = ops.transpose(expand_mask(mask, x.ndim), order=order)
        ctx.set_mask(y, ops.reshape(moved, shape=moved.shape[:ndim]))
    return y


def steps_mask(ctx: Context, x: ArrayValue) -> Any | None:
    """The mask [batch, time] of a sequence [batch, time, ...], None without one.

    A mask of other axes is reported and left out, one of whole samples [batch] left out.
    """
    mask = ctx.mask(x)
    if mask is None or mask.ndim == 1:
        return None
    if tuple(mask.shape) == (*x.shape[:2], *(1,) * (mask.ndim - 2)):
        return mask if mask.ndim == 2 else ops.reshape(mask, shape=tuple(x.shape[:2]))
    ctx.warn(
        f"its input {list(x.shape[1:])} has a mask {list(mask.shape[1:])}, which is not one of its "
        f"{x.shape[1]} steps: every step counts"
    )
    return None


def join_masks(masks: list[Any]) -> Any:
    """True where any of the masks is True; masks of fewer dimensions hold for all positions of the others' further
    ones."""
    ndim = max(m.ndim for m in masks)
    return reduce(ops.logical_or, [expand_mask(m, ndim) for m in masks])
