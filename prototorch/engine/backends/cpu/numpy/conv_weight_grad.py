"""The gradient of a convolution's weights: products of gradients with unfolded windows, summed over blocks of images.

The windows of a block are adjacent in memory, so that one product sums over all its images. Blocks depend on the
shapes alone and are added in order, so that the result does not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from prototorch.engine.backends.cpu.numpy.conv import has_blas_dtypes
from prototorch.engine.backends.cpu.numpy.depthwise_conv import make_depthwise_weight_grad
from prototorch.engine.backends.cpu.numpy.windows import WindowGeometry
from prototorch.engine.backends.cpu.worker_pool import parallel_for, scratch_arrays
from prototorch.engine.backends.registry import KernelFn, kernel
from prototorch.spec import Spec

_MIN_PRODUCT_LENGTH = 512  # windows in a product, so that adding its result to the sum costs little beside it
_MIN_BLOCK_BYTES, _MAX_BLOCK_BYTES = 1 << 20, 8 << 20  # bytes of a block's unfolded windows
_MAX_COLUMN_BYTES = 8 << 20  # bytes of those that are unfolded at a time


def _images_per_block(n: int, points: int, bytes_each: int) -> int:
    target_size = max(-(-_MIN_PRODUCT_LENGTH // points), _MIN_BLOCK_BYTES // max(bytes_each, 1))
    return max(min(target_size, _MAX_BLOCK_BYTES // max(bytes_each, 1), -(-n // 4)), 1)


@kernel("numpy", "conv_weight_grad")
def conv_weight_grad(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
    """dw = the gradient times the windows of x, summed over images."""
    x, g = ins
    if not has_blas_dtypes(x, g):
        return None
    groups, dw = attrs.get("groups", 1), outs[0]
    windows = WindowGeometry(
        x.shape[2:], attrs["kernel"], g.shape[2:], attrs["strides"], attrs["pads"], attrs["dilation"]
    )
    if dw.shape[1] == 1 and groups == x.shape[1] == dw.shape[0]:
        return make_depthwise_weight_grad(windows, x.shape[0], groups, x.dtype)
    n, c = x.shape[:2]
    filters, points = g.shape[1], windows.num_windows
    depth = c // groups * windows.window_elements
    block = _images_per_block(n, points, groups * depth * points * (4 if x.dtype == "float32" else 8))
    group_channels = c // groups  # channels of a group, of which some at a time are unfolded
    channels_at_a_time = max(
        _MAX_COLUMN_BYTES * group_channels // max(depth * points * block * (4 if x.dtype == "float32" else 8), 1), 1
    )
    channels_at_a_time = min(channels_at_a_time, max(group_channels, 1))
    is_direct = windows.pointwise and block == 1  # images and gradients are matrices as they lie
    shape = (groups, filters // groups, depth)
    shapes = (
        ((0,) if windows.is_unpadded else (block, c, *windows.padded_size), x.dtype),
        ((0,) if is_direct else (channels_at_a_time * windows.window_elements * points * block,), x.dtype),
        ((0,) if block == 1 else (filters * points * block,), x.dtype),
        (shape, x.dtype),
    )

    def run_im2col(images: Any, grads: Any, full: Any, memory: Any, product: Any) -> None:
        """Product by product: a group's gradients [filters, length] times some of its channels' windows."""
        full = windows.pad(images, full[: len(images)])
        length = grads.shape[-1]
        for group in range(groups):
            for first in range(0, group_channels, channels_at_a_time):
                last = min(first + channels_at_a_time, group_channels)
                view = windows.unfold(full, True, slice(group * group_channels + first, group * group_channels + last))
                col = memory[: view.size]
                np.copyto(col.reshape(view.shape), view)
                part = product[group][:, first * windows.window_elements : last * windows.window_elements]
                np.matmul(grads[group], col.reshape((last - first) * windows.window_elements, length).T, out=part)

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        images, grads, total = np.ascontiguousarray(inputs[0]), inputs[1], outputs[0].reshape(shape)
        if n == 0:
            total.fill(0)
            return

        def work(start: int, stop: int) -> Any:
            many = stop - start
            full, memory, grad, product = scratch_arrays(*shapes)
            if grad.size:
                grad = grad[: filters * points * many].reshape(filters, many, points)
                np.copyto(grad, grads[start:stop].reshape(many, filters, points).swapaxes(0, 1))
            else:
                grad = grads[start]
            grad = grad.reshape(groups, filters // groups, many * points)
            if is_direct:
                np.matmul(grad, images[start].reshape(groups, depth, points).swapaxes(1, 2), out=product)
            else:
                run_im2col(images[start:stop], grad, full, memory, product)
            return start, product

        def commit(partial: tuple[int, Any]) -> None:
            start, product = partial
            if start == 0:
                np.copyto(total, product)
            else:
                np.add(total, product, out=total)

        parallel_for(work, n, block, blas=True, combine=commit)

    return run
