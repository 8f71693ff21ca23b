"""Padding, and the shuffles of channels and pixels."""

from __future__ import annotations

from typing import Any

from prototorch import ops
from prototorch.eager.registry import FUNCTIONS, tensor_function
from prototorch.eager.scalars import check_number, number_array
from prototorch.eager.value_bounds import bounded
from prototorch.errors import ShapeError, UsageError
from prototorch.nn.arguments import as_tuple, check_input

__all__ = ["channel_shuffle", "one_hot", "pad", "pixel_shuffle", "pixel_unshuffle"]

_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def pad(input: Any, pad: Any, mode: str = "constant", value: float | None = None) -> Any:
    """Elements added at the ends of the last dimensions: ``pad`` = (before, after) of the last one, then of the one
    before it, and so on; negative numbers remove elements.

    mode: "constant" (``value``, default 0), "reflect", "replicate" or "circular", the latter for dimensions behind the
    first two. Raises UsageError and ShapeError for what does not fit.
    """
    check_input(input, "pad")
    if not isinstance(pad, tuple | list):
        raise UsageError(f"pad: expected a sequence of integers, got {pad!r:.60}")
    pairs = as_tuple(pad, 1, "pad")
    if len(pairs) % 2 or len(pairs) > 2 * input.ndim:
        raise UsageError(f"pad: expected pairs for at most {input.ndim} dimensions, got {list(pairs)}")
    if mode not in _MODES:
        raise UsageError(f"pad: mode must be one of {', '.join(map(repr, _MODES))}, got {mode!r:.60}")
    if mode != "constant" and value:
        raise UsageError(f"pad: mode {mode!r} takes no value, got {value}")
    count = len(pairs) // 2
    ends = [(0, 0)] * (input.ndim - count) + [(pairs[2 * i], pairs[2 * i + 1]) for i in reversed(range(count))]
    if mode != "constant":
        if not 1 <= count <= 3 or input.ndim - count not in (1, 2):
            raise ShapeError(
                f"pad: mode {mode!r} takes pairs for the last 1 to 3 dimensions behind the channels; got {len(pairs)} "
                f"numbers for {list(input.shape)}"
            )
        for n, (a, b) in zip(input.shape, ends, strict=True):
            if mode == "circular" and max(a, b) > n:
                raise ShapeError(f"pad: padding {max(a, b)} exceeds the size {n} that is repeated")
    if any(n + a + b < 0 for n, (a, b) in zip(input.shape, ends, strict=True)):
        raise ShapeError(f"pad: {list(pairs)} removes more elements than {list(input.shape)} has")
    if mode == "circular" and min(pairs) < 0:  # what is left repeats
        left = tuple(slice(max(-a, 0), n - max(-b, 0)) for n, (a, b) in zip(input.shape, ends, strict=True))
        input, pairs = input[left], tuple(max(n, 0) for n in pairs)
        ends = [(max(a, 0), max(b, 0)) for a, b in ends]
    positive = [(max(a, 0), max(b, 0)) for a, b in ends]
    if not any(map(any, ends)):
        return input * 1 if input.spec.is_float else FUNCTIONS["clone"](input)
    number = getattr(value, "item", None)
    fill = number() if number is not None else value or 0
    if mode != "constant" and not input.spec.size:
        if any(n == 0 and any(pair) for n, pair in zip(input.shape, positive, strict=True)):
            raise ShapeError(f"pad: mode {mode!r} cannot fill a dimension without elements, of {list(input.shape)}")
        mode = "constant"
    check_number(fill, input.dtype, "pad")
    fill = float(fill) if input.spec.is_float else bool(fill) if input.dtype == "bool" else int(fill)
    if not input.spec.is_float:
        fill = number_array(fill, input.spec.dtype).item()
    y = ops.pad(input, pads=tuple(positive), mode=_MODES[mode], value=fill)
    if min(pairs) >= 0:
        return y
    start = tuple(max(-a, 0) for a, _ in ends)
    stop = tuple(n - max(-b, 0) for n, (_, b) in zip(y.shape, ends, strict=True))
    return ops.slice(y, start=start, stop=stop, step=(1,) * y.ndim)


def one_hot(tensor: Any, num_classes: int = -1) -> Any:
    """Indices [...] as int64 rows [..., num_classes] with a 1 at the index; -1: the largest index and 1.

    Raises UsageError for indices that are no integers, IndexRangeError for negative ones, and for those that are not
    below ``num_classes``.
    """
    check_input(tensor, "one_hot")
    if str(tensor.dtype) != "int64":
        raise UsageError(f"one_hot: expected int64 indices, got {tensor.dtype}")
    if num_classes == -1:
        if not tensor.spec.size:
            raise UsageError("one_hot: an empty tensor needs num_classes")
        num_classes = int(tensor.numpy().max()) + 1
    classes = int(num_classes)
    tensor = bounded(
        tensor, classes, f"one_hot: indices must lie in 0 .. {classes - 1}, got {{}}", waits_for_device=True
    )
    return ops.one_hot(tensor, classes=classes, dtype="int64")


@tensor_function(method=False)
def pixel_shuffle(input: Any, upscale_factor: int) -> Any:
    """[..., C r^2, H, W] to [..., C, H r, W r] (Shi et al., 2016)."""
    check_input(input, "pixel_shuffle")
    r = upscale_factor
    if input.ndim < 3 or r < 1 or input.shape[-3] % (r * r):
        raise ShapeError(f"pixel_shuffle: the channels of {list(input.shape)} must be a multiple of {r} * {r}")
    *rows, channels, h, w = input.shape
    c = channels // (r * r)
    n = len(rows)
    x = ops.reshape(input, shape=(*rows, c, r, r, h, w))
    x = ops.transpose(x, order=(*range(n), n, n + 3, n + 1, n + 4, n + 2))
    return ops.reshape(x, shape=(*rows, c, h * r, w * r))


@tensor_function(method=False)
def pixel_unshuffle(input: Any, downscale_factor: int) -> Any:
    """[..., C, H r, W r] to [..., C r^2, H, W]: undoes `pixel_shuffle`."""
    check_input(input, "pixel_unshuffle")
    r = downscale_factor
    if input.ndim < 3 or r < 1 or input.shape[-1] % r or input.shape[-2] % r:
        raise ShapeError(f"pixel_unshuffle: rows and columns of {list(input.shape)} must be multiples of {r}")
    *rows, c, h, w = input.shape
    n = len(rows)
    x = ops.reshape(input, shape=(*rows, c, h // r, r, w // r, r))
    x = ops.transpose(x, order=(*range(n), n, n + 2, n + 4, n + 1, n + 3))
    return ops.reshape(x, shape=(*rows, c * r * r, h // r, w // r))


@tensor_function(method=False)
def channel_shuffle(input: Any, groups: int) -> Any:
    """Channels [batch, groups * n, ...] in the order [batch, n * groups, ...] (Zhang et al., 2018)."""
    check_input(input, "channel_shuffle")
    if input.ndim < 3 or groups < 1 or input.shape[1] % groups:
        raise ShapeError(f"channel_shuffle: the channels of {list(input.shape)} must divide into {groups} groups")
    batch, channels, *size = input.shape
    x = ops.reshape(input, shape=(batch, groups, channels // groups, *size))
    x = ops.transpose(x, order=(0, 2, 1, *range(3, x.ndim)))
    return ops.reshape(x, shape=(batch, channels, *size))
