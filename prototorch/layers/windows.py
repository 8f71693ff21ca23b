"""The fields of layers with sliding windows, and the padding that ``valid``, ``same`` and ``causal`` mean."""

from __future__ import annotations

from math import prod
from typing import Any

from prototorch import ops
from prototorch.layers.context import ArrayValue, Context
from prototorch.ops.windows import dilated_size, same_padding
from prototorch.schema import Ints, Padding, field

Sizes = tuple[int, ...]
Pads = tuple[tuple[int, int], ...]

DIMENSION_NAMES = {1: "steps", 2: "rows, columns", 3: "depth, rows, columns"}


def kernel_field(rank: int) -> Any:
    """The field ``kernel_size``."""
    return field(type=Ints(rank, min=1), doc=f"Kernel size ({DIMENSION_NAMES[rank]}).")


def strides_field(rank: int, default: int | None = 1) -> Any:
    """The field ``strides``; default None means the window size."""
    rest = "" if default is not None else "; default: the window size"
    return field(default=default, type=Ints(rank, min=1), doc=f"Stride of the windows{rest}.")


def padding_field(rank: int, words: tuple[str, ...] = ("valid", "same")) -> Any:
    """The field ``padding``."""
    parts = ["'valid': none", "'same': ceil(size / strides) windows, extra padding goes at the end"]
    parts += ["'causal': all before the input, so that no window sees a later step"] if "causal" in words else []
    return field(default="valid", type=Padding(rank, words), doc="; ".join(parts) + "; or explicit padding per side.")


def dilation_field(rank: int) -> Any:
    """The field ``dilation_rate``."""
    return field(default=1, type=Ints(rank, min=1), doc="Dilation rate.")


def batch_axes_field() -> Any:
    """The field ``batch_axes``."""
    doc = (
        "Number of axes before the channels: 1 is the batch, more count as the batch, too; with 0 there is none. "
        "Another number than 1 makes channels_first the default."
    )
    return field(default=1, min=0, doc=doc)


def merge_batch_axes(ctx: Context, x: ArrayValue, batch_axes: int, rank: int) -> Any:
    """x with the axes before its channels as one. Raises ShapeError unless ``rank`` axes follow the channels."""
    if batch_axes == 1:
        check_rank(ctx, x, rank)
        return x
    if x.ndim != batch_axes + 1 + rank:
        ctx.fail(
            f"with batch_axes {batch_axes} the input must have {batch_axes + 1 + rank} axes, the batch's included "
            f"({batch_axes} of the batch, channels, {DIMENSION_NAMES[rank]}), got {x.ndim}"
        )
    return ops.reshape(x, shape=(prod(x.shape[:batch_axes]), *x.shape[batch_axes:]))


def split_batch_axes(y: ArrayValue, x: ArrayValue, batch_axes: int) -> Any:
    """The output of what `merge_batch_axes` gave, with the axes of the batch that x has."""
    return y if batch_axes == 1 else ops.reshape(y, shape=(*x.shape[:batch_axes], *y.shape[1:]))


def check_rank(ctx: Context, x: ArrayValue, rank: int) -> None:
    """Raise ShapeError if the input is not [batch, channels, and ``rank`` dimensions]."""
    if x.ndim != rank + 2:
        ctx.fail(
            f"the input must have {rank + 1} dimensions (channels, {DIMENSION_NAMES[rank]}), got {x.ndim - 1}; "
            "a Reshape before it adds those that are missing"
        )


def resolve_padding(padding: str | Pads, size: Sizes, kernel: Sizes, strides: Sizes, dilation: Sizes) -> Pads:
    """The padding (before, after) along each dimension; ``same`` and ``causal`` depend on the sizes."""
    if not isinstance(padding, str):
        return padding
    if padding == "same":
        return tuple(same_padding(n, k, s, d) for n, k, s, d in zip(size, kernel, strides, dilation, strict=True))
    if padding == "causal":
        return tuple((dilated_size(k, d) - 1, 0) for k, d in zip(kernel, dilation, strict=True))
    return ((0, 0),) * len(size)
