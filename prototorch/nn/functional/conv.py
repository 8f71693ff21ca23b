"""Convolutions and transposed convolutions in one to three dimensions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prototorch import ops
from prototorch.eager.registry import FUNCTIONS
from prototorch.errors import ShapeError, UsageError
from prototorch.nn.arguments import as_sizes, check_input, with_batch
from prototorch.ops.windows import dilated_size

__all__ = ["conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"]

Pads = tuple[tuple[int, int], ...]


def same_pads(kernel: tuple[int, ...], dilation: tuple[int, ...]) -> Pads:
    """PyTorch's "same": the output has the input's size; extra padding goes at the end."""
    totals = [dilated_size(k, d) - 1 for k, d in zip(kernel, dilation, strict=True)]
    return tuple((total // 2, total - total // 2) for total in totals)


def check_weight(name: str, input: Any, weight: Any, bias: Any, rank: int) -> None:
    """Raises UsageError for what is no tensor and for other element types, ShapeError for other dimensions."""
    check_input(input, name)
    check_input(weight, name)
    if weight.ndim != rank + 2:
        raise ShapeError(f"{name}: expected a weight of {rank + 2} dimensions, got {list(weight.shape)}")
    for other, what in ((weight, "weight"), (bias, "bias")):
        if other is not None and other.dtype != input.dtype:
            raise UsageError(
                f"{name}: the input has the element type {input.dtype}, the {what} {other.dtype}: cast one of them"
            )


def add_bias(y: Any, bias: Any, rank: int) -> Any:
    """A bias [channels] added to [batch, channels, ...]. Raises ShapeError for another shape."""
    if bias is None:
        return y
    if tuple(bias.shape) != (y.shape[1],):
        raise ShapeError(f"a bias of shape [{y.shape[1]}] is expected, got {list(bias.shape)}")
    return y + ops.reshape(bias, shape=(1, y.shape[1], *(1,) * rank))


def _define_conv(rank: int) -> Callable[..., Any]:
    name = f"conv{rank}d"

    def conv(
        input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
    ) -> Any:
        check_weight(name, input, weight, bias, rank)
        strides = as_sizes(stride, rank, f"{name}: stride", 1)
        rates = as_sizes(dilation, rank, f"{name}: dilation", 1)
        if isinstance(padding, str):
            if padding not in ("valid", "same"):
                raise UsageError(f"{name}: padding must be 'valid', 'same' or integers, got {padding!r:.60}")
            if padding == "same" and max(strides) > 1:
                raise UsageError(f"{name}: padding 'same' needs a stride of 1, got {stride}")
            pads = same_pads(weight.shape[2:], rates) if padding == "same" else ((0, 0),) * rank
        else:
            pads = tuple((p, p) for p in as_sizes(padding, rank, f"{name}: padding"))

        def run(x: Any) -> Any:
            y = ops.conv(x, weight, strides=strides, pads=pads, dilation=rates, groups=groups)
            return add_bias(y, bias, rank)

        return with_batch(input, rank, name, run)

    conv.__name__ = conv.__qualname__ = name
    conv.__doc__ = f"""Cross-correlation over {rank} dimension{"s" * (rank > 1)}: input [batch, in, ...] (or without the
    batch), weight [out, in / groups, *kernel], bias [out].

    stride, padding, dilation: an integer, or one for each dimension; ``padding="same"``: the output has the input's
    size, "valid": none. Raises ShapeError and UsageError for what does not fit.
    """
    FUNCTIONS.setdefault(name, conv)
    return conv


def _define_transpose(rank: int) -> Callable[..., Any]:
    name = f"conv_transpose{rank}d"

    def conv_transpose(
        input: Any,
        weight: Any,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        dilation: Any = 1,
    ) -> Any:
        check_weight(name, input, weight, bias, rank)
        strides = as_sizes(stride, rank, f"{name}: stride", 1)
        rates = as_sizes(dilation, rank, f"{name}: dilation", 1)
        paddings = as_sizes(padding, rank, f"{name}: padding")
        extras = as_sizes(output_padding, rank, f"{name}: output_padding")
        if any(e >= max(s, d) for e, s, d in zip(extras, strides, rates, strict=True)):
            raise UsageError(
                f"{name}: output_padding {output_padding} must be smaller than the stride {stride} or the dilation "
                f"{dilation}"
            )

        def run(x: Any) -> Any:
            sizes, pads, tails = [], [], []
            for n, k, s, d, p, e in zip(x.shape[2:], weight.shape[2:], strides, rates, paddings, extras, strict=True):
                tail = max(e - p, 0)  # zeros that no window reaches
                sizes.append((n - 1) * s + dilated_size(k, d) - 2 * p + e - tail)
                pads.append((p, p - e + tail))
                tails.append((0, tail))
            if min(sizes) < 1:
                raise ShapeError(f"{name}: the output of {list(x.shape)} would have the size {sizes}")
            y = ops.conv_input_grad(
                x, weight, size=tuple(sizes), strides=strides, pads=tuple(pads), dilation=rates, groups=groups
            )
            if any(tail for _, tail in tails):
                y = ops.pad(y, pads=((0, 0), (0, 0), *tails))
            return add_bias(y, bias, rank)

        return with_batch(input, rank, name, run)

    conv_transpose.__name__ = conv_transpose.__qualname__ = name
    conv_transpose.__doc__ = f"""The transposed convolution over {rank} dimension{"s" * (rank > 1)}: input [batch, in,
    ...] (or without the batch), weight [in, out / groups, *kernel], bias [out]; sizes (n - 1) * stride - 2 * padding +
    dilation * (kernel - 1) + output_padding + 1.

    Raises ShapeError and UsageError for what does not fit.
    """
    FUNCTIONS.setdefault(name, conv_transpose)
    return conv_transpose


conv1d, conv2d, conv3d = _define_conv(1), _define_conv(2), _define_conv(3)
conv_transpose1d, conv_transpose2d, conv_transpose3d = _define_transpose(1), _define_transpose(2), _define_transpose(3)
