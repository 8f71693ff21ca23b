"""What layers with sliding windows share: their fields, and the padding that a word stands for."""

from __future__ import annotations

from typing import Any

from prototorch.layers.context import Context
from prototorch.ops.windows import dilated_size, same_padding
from prototorch.schema import Ints, Padding, field

Sizes = tuple[int, ...]
Pads = tuple[tuple[int, int], ...]

DIMENSION_NAMES = {1: "steps", 2: "rows, columns", 3: "depth, rows, columns"}


def kernel_field(rank: int) -> Any:
    """The field ``kernel_size``."""
    return field(type=Ints(rank, min=1), doc=f"The kernel's size ({DIMENSION_NAMES[rank]}).")


def strides_field(rank: int, default: int | None = 1) -> Any:
    """The field ``strides``; without a default (None) the window's size stands in."""
    rest = "" if default is not None else "; the window's size where it is left out"
    return field(default=default, type=Ints(rank, min=1), doc=f"The step from one window to the next{rest}.")


def padding_field(rank: int, words: tuple[str, ...] = ("valid", "same")) -> Any:
    """The field ``padding``."""
    said = ["'valid': none", "'same': ceil(size / strides) windows, an odd place goes to the end"]
    said += ["'causal': all before the input, so that no window sees a later step"] if "causal" in words else []
    return field(default="valid", type=Padding(rank, words), doc="; ".join(said) + "; or explicit places a side.")


def dilation_field(rank: int) -> Any:
    """The field ``dilation_rate``."""
    return field(default=1, type=Ints(rank, min=1), doc="The distance between two places of the kernel.")


def check_rank(ctx: Context, x: Any, rank: int) -> None:
    """Raise ShapeError where the input is not [batch, channels, and ``rank`` sizes]."""
    if x.ndim != rank + 2:
        ctx.fail(f"it wants an input of {rank + 1} dimensions (channels, {DIMENSION_NAMES[rank]}), not {x.ndim - 1}")


def resolve_padding(padding: str | Pads, size: Sizes, kernel: Sizes, strides: Sizes, dilation: Sizes) -> Pads:
    """The places before and after along each dimension that ``padding`` stands for."""
    if not isinstance(padding, str):
        return padding
    if padding == "same":
        return tuple(same_padding(n, k, s, d) for n, k, s, d in zip(size, kernel, strides, dilation, strict=True))
    if padding == "causal":
        return tuple((dilated_size(k, d) - 1, 0) for k, d in zip(kernel, dilation, strict=True))
    return ((0, 0),) * len(size)
