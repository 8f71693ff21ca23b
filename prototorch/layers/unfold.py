"""The elements of sliding windows as channels."""

from __future__ import annotations

from math import prod
from typing import Any

from prototorch import ops
from prototorch.layers.channels import MapLayer
from prototorch.layers.context import ArrayValue, Context
from prototorch.layers.windows import batch_axes_field, merge_batch_axes, split_batch_axes
from prototorch.ops.windows import dilated_size, kernel_offsets, num_windows, window_slices
from prototorch.schema import example, field

MAX_PADDING = 1 << 30
MAX_WINDOW = 4096  # elements of a window, for each of which the graph has ops


class Unfold(MapLayer):
    """The elements of each window as channels, as a convolution by a product of matrices reads them (Caffe's Im2col;
    PyTorch's Unfold, which has the positions as one axis).

    Input [batch, channels, ...spatial], output [batch, channels * elements of a window, ...positions]: the windows of a
    convolution with these fields, over one to three dimensions; channels go slowest. Padding is 0. Over one dimension
    the channels are last by default: [batch, steps, channels].
    """

    foreign_names = dict.fromkeys(("Im2col", "Im2Col"), "Unfold")
    keeps_bounds = False
    kernel_size: list[int] = field(min=1, doc="Window size, one number for each spatial dimension.")
    strides: list[int] = field(default=1, min=1, doc="Stride of the windows, one for each dimension or one for all.")
    padding: list[int] = field(default=0, min=0, doc="Zeros on both sides of each dimension, or one number for all.")
    dilation_rate: list[int] = field(default=1, min=1, doc="Dilation rate, one for each dimension or one for all.")
    batch_axes: int = batch_axes_field()
    examples = [
        example("Unfold { kernel_size: [3]  padding: 1 }", inputs=[(5, 2)]),
        example("Unfold { kernel_size: [2, 3]  strides: [2, 1]  padding: [1, 0]  dilation_rate: [1, 2] }",
                inputs=[(2, 4, 6)]),
        example("Unfold { kernel_size: [1, 2, 2] }", inputs=[(2, 3, 3, 2)]),
    ]  # fmt: skip

    def map_rank(self, ndim: int) -> int:
        return len(self.kernel_size)

    @property
    def axes_before_channels(self) -> int:
        return self.batch_axes

    def check(self) -> None:
        """One number for each dimension, or one for all."""
        rank = len(self.kernel_size)
        if not 1 <= rank <= 3:
            self.refuse(f"kernel_size must have 1 to 3 numbers, not {rank}", "kernel_size")
        if prod(self.kernel_size) > MAX_WINDOW:
            self.refuse(
                f"a window must have at most {MAX_WINDOW} elements, not {prod(self.kernel_size)}", "kernel_size"
            )
        if max(self.padding) > MAX_PADDING:
            self.refuse(f"padding must be at most {MAX_PADDING:,}, not {max(self.padding):,}", "padding")
        for name in ("strides", "padding", "dilation_rate"):
            if len(getattr(self, name)) not in (1, rank):
                self.refuse(f"{name} must have 1 or {rank} numbers, not {len(getattr(self, name))}", name)

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        kernel = tuple(self.kernel_size)
        rank = len(kernel)
        original, x = x, merge_batch_axes(ctx, x, self.batch_axes, rank)
        strides, padding, dilation = (
            tuple(values) * (rank // len(values) if len(values) == 1 else 1)
            for values in (self.strides, self.padding, self.dilation_rate)
        )
        for axis, (n, k, p, d) in enumerate(zip(x.shape[2:], kernel, padding, dilation, strict=True)):
            if dilated_size(k, d) > n + 2 * p:
                ctx.fail(
                    f"kernel size {k} with dilation rate {d} (extent {dilated_size(k, d)}) exceeds the padded input "
                    f"size {n + 2 * p} (axis {axis} of {list(x.shape[2:])})"
                )
        each = zip(x.shape[2:], kernel, strides, padding, dilation, strict=True)
        out = tuple(num_windows(n, k, s, (p, p), d) for n, k, s, p, d in each)
        wide = ops.pad(x, pads=((0, 0), (0, 0), *((p, p) for p in padding))) if any(padding) else x
        parts = [wide[(..., *window_slices(at, out, strides, dilation))] for _, at in kernel_offsets(kernel)]
        y = ops.reshape(ops.stack(parts, axis=2), shape=(x.shape[0], x.shape[1] * prod(kernel), *out))
        return split_batch_axes(y, original, self.batch_axes)
