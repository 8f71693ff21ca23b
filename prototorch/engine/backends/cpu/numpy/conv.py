"""Convolution kernels: windows unfolded to a matrix, then one BLAS product an image and group.

Images are processed by several threads in blocks, with BLAS limited to one thread; a single image is left to the
threads of BLAS. A 1 x 1 convolution needs no unfolding.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from prototorch.engine.backends.cpu.numpy.depthwise_conv import make_depthwise
from prototorch.engine.backends.cpu.numpy.windows import WindowGeometry
from prototorch.engine.backends.cpu.worker_pool import parallel_for, scratch_arrays
from prototorch.engine.backends.registry import KernelFn, kernel
from prototorch.ops.windows import dilated_size
from prototorch.spec import Spec

#: Bytes of unfolded windows: the target for a block of images, and the limit for a part of one image.
_BLOCK_BYTES = 1 << 20
_MAX_COLUMN_BYTES = 4 << 20
#: How much larger the products of an input gradient may become before adding windows back is faster.
_MAX_PRODUCT_GROWTH = 1.5


def images_per_block(n: int, bytes_each: int) -> int:
    """The number of images in a block: what fits `_BLOCK_BYTES`, and at least eight blocks in total."""
    return max(min(_BLOCK_BYTES // max(bytes_each, 1), -(-n // 8)), 1)


def lines_per_part(windows: WindowGeometry, bytes_each: int) -> int:
    """The number of positions of the first output axis that are unfolded together."""
    lines = windows.out[0]
    return lines if bytes_each <= _MAX_COLUMN_BYTES else max(_MAX_COLUMN_BYTES * lines // bytes_each, 1)


def has_blas_dtypes(*specs: Spec) -> bool:
    """Whether BLAS supports the dtypes and there are spatial axes."""
    return all(s.dtype in ("float32", "float64") and s.ndim > 2 for s in specs)


@kernel("numpy", "conv")
def conv(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
    """y = w times the windows of x."""
    x, w = ins
    if not has_blas_dtypes(x, w):
        return None
    groups = attrs.get("groups", 1)
    windows = WindowGeometry(
        x.shape[2:], w.shape[2:], outs[0].shape[2:], attrs["strides"], attrs["pads"], attrs["dilation"]
    )
    if w.shape[1] == 1 and groups == x.shape[1] == w.shape[0]:
        return make_depthwise(windows, x.shape[0], groups, x.dtype)
    body = make_conv(windows, x, groups, w.shape[0])
    return lambda inputs, outputs: body(inputs[0], inputs[1], outputs[0])


def make_conv(windows: WindowGeometry, x: Spec, groups: int, filters: int) -> Any:
    """A function ``run(x, w, y)``; w may have any shape of filters x (channels of a group, kernel)."""
    n, c = x.shape[:2]
    points = windows.num_windows
    depth = c // groups * windows.window_elements
    each = groups * depth * points * (4 if x.dtype == "float32" else 8)
    block, lines = images_per_block(n, each), lines_per_part(windows, each)
    line = points // windows.out[0]
    lead = (groups,) if groups > 1 else ()
    w_shape, column_shape = (*lead, filters // groups, depth), (*lead, depth)
    result = (*lead, filters // groups, points)
    shapes = (
        ((0,) if windows.is_unpadded else (block, c, *windows.padded_size), x.dtype),
        ((block, groups * depth * lines * line), x.dtype),
    )
    leading = (slice(None),) * (2 + len(windows.kernel))

    def run_pointwise(images: Any, w: Any, y: Any) -> None:
        np.matmul(w, images.reshape(len(images), *column_shape, points), out=y)

    def run_im2col(images: Any, w: Any, y: Any) -> None:
        many = len(images)
        full, memory = scratch_arrays(*shapes)
        view = windows.unfold(windows.pad(images, full[:many]))
        for first in range(0, windows.out[0], lines):
            last = min(first + lines, windows.out[0])
            part = view[(*leading, slice(first, last))]
            col = memory[:many, : part.size // many]
            np.copyto(col.reshape(part.shape), part)
            np.matmul(
                w, col.reshape(many, *column_shape, (last - first) * line), out=y[..., first * line : last * line]
            )

    body = run_pointwise if windows.pointwise else run_im2col

    def run(x_: Any, w: Any, y: Any) -> None:
        x_, w, y = np.ascontiguousarray(x_), w.reshape(w_shape), y.reshape(n, *result)
        parallel_for(lambda start, stop: body(x_[start:stop], w, y[start:stop]), n, block, blas=True)

    return run


@kernel("numpy", "conv_input_grad")
def conv_input_grad(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
    """The transposed convolution: with strides of 1 a convolution of g with the flipped w, else col2im."""
    g, w = ins
    if not has_blas_dtypes(g, w):
        return None
    groups, dx = attrs.get("groups", 1), outs[0]
    windows = WindowGeometry(dx.shape[2:], w.shape[2:], g.shape[2:], attrs["strides"], attrs["pads"], attrs["dilation"])
    if w.shape[1] == 1 and groups == dx.shape[1] == w.shape[0]:
        return make_depthwise(windows, g.shape[0], groups, g.dtype, backward=True)
    reach = [dilated_size(k, d) - 1 for k, d in zip(windows.kernel, windows.dilation, strict=True)]
    flipped_pads = tuple((r - lo, r - hi) for r, (lo, hi) in zip(reach, windows.pads, strict=True))
    is_small = (
        prod(windows.size) <= _MAX_PRODUCT_GROWTH * windows.num_windows
    )  # the flipped one computes a product for each element of dx
    if all(s == 1 for s in windows.strides) and min(map(min, flipped_pads)) >= 0 and is_small:
        flipped_windows = WindowGeometry(
            windows.out, windows.kernel, windows.size, windows.strides, flipped_pads, windows.dilation
        )
        return _make_flipped_conv(flipped_windows, g, w, groups, dx.shape[1])
    return _make_col2im(windows, g, w, groups, dx.shape[1])


def _make_flipped_conv(windows: WindowGeometry, g: Spec, w: Spec, groups: int, channels: int) -> KernelFn:
    body = make_conv(windows, g, groups, channels)
    shape = (groups, w.shape[0] // groups, *w.shape[1:])
    reverse = (slice(None),) * 3 + (slice(None, None, -1),) * len(windows.kernel)

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        swapped = inputs[1].reshape(shape)[reverse].swapaxes(1, 2)
        (w_flipped,) = scratch_arrays((swapped.shape, w.dtype), use="weights")
        np.copyto(w_flipped, swapped)
        body(inputs[0], w_flipped, outputs[0])

    return run


def _make_col2im(windows: WindowGeometry, g: Spec, w: Spec, groups: int, channels: int) -> KernelFn:
    n, filters = g.shape[:2]
    points, depth = windows.num_windows, w.shape[1] * windows.window_elements
    block = images_per_block(n, groups * depth * points * (4 if g.dtype == "float32" else 8))
    slices = windows.slices()
    inner = windows.interior

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        grads = inputs[0].reshape(n, groups, filters // groups, points)
        weights = inputs[1].reshape(groups, filters // groups, depth).swapaxes(1, 2)
        dx = outputs[0]

        def work(start: int, stop: int) -> None:
            many = stop - start
            shape = (block, channels, *windows.padded_size) if not windows.is_unpadded else (0,)
            full, col = scratch_arrays((shape, g.dtype), ((block, groups, depth, points), g.dtype))
            col = col[:many]
            np.matmul(weights, grads[start:stop], out=col)
            col = col.reshape(many, channels, windows.window_elements, *windows.out)
            target = dx[start:stop] if windows.is_unpadded else full[:many]
            target.fill(0)
            for i, key in enumerate(slices):
                part = target[key]
                np.add(part, col[:, :, i], out=part)
            if not windows.is_unpadded:
                dx[start:stop] = target[inner]

        parallel_for(work, n, block, blas=True)

    return run
