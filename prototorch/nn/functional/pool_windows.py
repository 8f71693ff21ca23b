"""The windows of pooling: their maxima where they are dilated, and the positions of maxima in the input."""

from __future__ import annotations

from math import prod
from typing import Any

from prototorch import ops
from prototorch.errors import ShapeError
from prototorch.ops.windows import Ints, Pads, dilated_size, kernel_offsets, num_windows

__all__: list[str] = []  # no names of nn.functional


def max_of_windows(x: Any, kernel: Ints, strides: Ints, pads: Pads, dilation: Ints, ceil: bool) -> tuple[Any, Any]:
    """The maxima of dilated windows of x [N, C, ...], and their indices within the window (int64)."""
    sizes = tuple(x.shape[2:])
    spans = [dilated_size(k, d) for k, d in zip(kernel, dilation, strict=True)]
    for n, span, (a, b) in zip(sizes, spans, pads, strict=True):
        if span > n + a + b:
            raise ShapeError(f"a window of {span} elements (dilation included) exceeds the padded size {n + a + b}")
    out = tuple(
        num_windows(n, k, s, p, d, bool(ceil))
        for n, k, s, p, d in zip(sizes, kernel, strides, pads, dilation, strict=True)
    )
    ends = [
        (a, max((o - 1) * s + span - n - a, b))
        for n, o, s, span, (a, b) in zip(sizes, out, strides, spans, pads, strict=True)
    ]
    full = ops.pad(x, pads=((0, 0), (0, 0), *ends), value=float("-inf"))
    parts = []
    for _, at in kernel_offsets(kernel):
        start = tuple(a * d for a, d in zip(at, dilation, strict=True))
        stop = tuple(a + (o - 1) * s + 1 for a, o, s in zip(start, out, strides, strict=True))
        parts.append(ops.slice(full, start=(0, 0, *start), stop=(*x.shape[:2], *stop), step=(1, 1, *strides)))
    windows = ops.stack(parts, axis=-1)
    number = ops.argmax(windows, axis=windows.ndim - 1)
    value = ops.take_along_axis(windows, ops.expand_dims(number, axis=-1))
    return ops.squeeze(value, axis=-1), number


def window_positions(number: Any, size: Ints, kernel: Ints, strides: Ints, pads: Pads, dilation: Ints) -> Any:
    """Indices within windows [N, C, *out] as positions in the flattened input [*size], int64."""
    rank = len(size)
    number = ops.cast(number, dtype="int64")
    total: Any = None
    for axis in range(rank):
        inner = prod(kernel[axis + 1 :])
        offset = ops.remainder(ops.floor_divide(number, inner), kernel[axis])
        first = (
            ops.cast(ops.iota.apply_like(number, size=number.shape[2 + axis]), dtype="int64") * strides[axis]
            - pads[axis][0]
        )
        first = ops.reshape(first, shape=(number.shape[2 + axis], *(1,) * (rank - axis - 1)))
        position = (offset * dilation[axis] + first) * prod(size[axis + 1 :])
        total = position if total is None else total + position
    return total
