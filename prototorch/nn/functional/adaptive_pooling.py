"""Pooling to a given number of windows, and the inverse of max pooling."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

from prototorch import ops
from prototorch.eager.registry import FUNCTIONS
from prototorch.eager.value_bounds import bounded
from prototorch.errors import ShapeError, UsageError
from prototorch.layers.adaptive_pooling import averaging_matrix
from prototorch.nn.arguments import as_sizes, with_batch
from prototorch.ops.lazy_array import LazyArray

__all__ = ["adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
           "adaptive_max_pool1d_with_indices", "adaptive_max_pool2d", "adaptive_max_pool2d_with_indices",
           "adaptive_max_pool3d", "adaptive_max_pool3d_with_indices", "max_unpool1d", "max_unpool2d",
           "max_unpool3d"]  # fmt: skip


def map_axis(x: Any, matrix: Any, axis: int) -> Any:
    """A matrix [new, old] applied along one axis."""
    if axis == x.ndim - 1:
        return ops.matmul(x, matrix, transpose_b=True)
    if axis == x.ndim - 2:
        return ops.matmul(matrix, x)
    order = (*(i for i in range(x.ndim) if i != axis), axis)
    back = tuple(order.index(i) for i in range(x.ndim))
    return ops.transpose(ops.matmul(ops.transpose(x, order=order), matrix, transpose_b=True), order=back)


def _output_sizes(name: str, output_size: Any, size: tuple[int, ...]) -> tuple[int, ...]:
    rank = len(size)
    values = output_size if isinstance(output_size, tuple | list) else (output_size,) * rank
    if len(values) != rank:
        raise UsageError(f"{name}: output_size must be one integer or {rank}, got {output_size!r:.60}")
    return as_sizes([n if v is None else v for n, v in zip(size, values, strict=True)], rank, f"{name}: output_size", 1)


def _define_average(rank: int) -> Callable[..., Any]:
    name = f"adaptive_avg_pool{rank}d"

    def adaptive_avg_pool(input: Any, output_size: Any) -> Any:
        def run(x: Any) -> Any:
            for k, new in enumerate(_output_sizes(name, output_size, tuple(x.shape[2:]))):
                n = x.shape[2 + k]
                if n != new:
                    x = map_axis(x, LazyArray((new, n), str(x.dtype), partial(averaging_matrix, n, new)), 2 + k)
            return x

        return with_batch(input, rank, name, run)

    adaptive_avg_pool.__name__ = adaptive_avg_pool.__qualname__ = name
    adaptive_avg_pool.__doc__ = f"""The means of ``output_size`` windows of [batch, channels, ...] with {rank}
    dimension{"s" * (rank > 1)}, or without the batch; None in a size leaves the input's."""
    FUNCTIONS.setdefault(name, adaptive_avg_pool)
    return adaptive_avg_pool


def _window_table(size: int, new: int) -> tuple[list[int], int]:
    """For each window the indices of its elements, the last one repeated up to the largest window."""
    bounds = [(i * size // new, -((i + 1) * size // -new)) for i in range(new)]
    longest = max(b - a for a, b in bounds)
    return [min(a + k, b - 1) for a, b in bounds for k in range(longest)], longest


def _define_max(rank: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    name = f"adaptive_max_pool{rank}d"

    def with_indices(input: Any, output_size: Any, return_indices: bool = True) -> Any:
        def run(x: Any) -> Any:
            size = tuple(x.shape[2:])
            news = _output_sizes(name, output_size, size)
            tables = [_window_table(n, new) for n, new in zip(size, news, strict=True)]
            at = ops.reshape(ops.cast(ops.iota.apply_like(x, size=prod(size)), dtype="int64"), shape=size)
            for k, (table, _) in enumerate(tables):
                x = ops.static_gather(x, indices=tuple(table), axis=2 + k)
                at = ops.static_gather(at, indices=tuple(table), axis=k)
            split = [n for new, (_, longest) in zip(news, tables, strict=True) for n in (new, longest)]
            order = (*range(0, 2 * rank, 2), *range(1, 2 * rank, 2))
            count = prod(longest for _, longest in tables)
            windows = ops.reshape(
                ops.transpose(ops.reshape(x, shape=(*x.shape[:2], *split)), order=(0, 1, *(2 + i for i in order))),
                shape=(*x.shape[:2], *news, count),
            )
            at = ops.reshape(ops.transpose(ops.reshape(at, shape=tuple(split)), order=order), shape=(*news, count))
            number = ops.expand_dims(ops.argmax(windows, axis=windows.ndim - 1), axis=-1)
            y = ops.squeeze(ops.take_along_axis(windows, number), axis=-1)
            if not return_indices:
                return y
            at = ops.broadcast_to(at, shape=tuple(windows.shape))
            return y, ops.squeeze(ops.take_along_axis(at, number), axis=-1)

        return with_batch(input, rank, name, run)

    def adaptive_max_pool(input: Any, output_size: Any, return_indices: bool = False) -> Any:
        return with_indices(input, output_size, return_indices)

    adaptive_max_pool.__name__ = adaptive_max_pool.__qualname__ = name
    adaptive_max_pool.__doc__ = f"""The maxima of ``output_size`` windows of [batch, channels, ...] with {rank}
    dimension{"s" * (rank > 1)}, or without the batch; ``return_indices`` gives their positions in the flattened input
    as well, int64."""
    with_indices.__name__ = with_indices.__qualname__ = f"{name}_with_indices"
    with_indices.__doc__ = f"As `{name}`, with the positions of the maxima."
    if rank == 1:
        FUNCTIONS.setdefault(name, with_indices)
    return adaptive_max_pool, with_indices


def _define_unpool(rank: int) -> Callable[..., Any]:
    name = f"max_unpool{rank}d"

    def max_unpool(
        input: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
    ) -> Any:
        kernel = as_sizes(kernel_size, rank, f"{name}: kernel_size", 1)
        strides = kernel if stride is None else as_sizes(stride, rank, f"{name}: stride", 1)
        paddings = as_sizes(padding, rank, f"{name}: padding")
        if tuple(indices.shape) != tuple(input.shape) or str(indices.dtype) != "int64":
            raise ShapeError(
                f"{name}: expected int64 indices of shape {list(input.shape)}, got {indices.dtype}{list(indices.shape)}"
            )

        def run(x: Any) -> Any:
            least = [(n - 1) * s - 2 * p + k for n, s, p, k in zip(x.shape[2:], strides, paddings, kernel, strict=True)]
            sizes = tuple(least) if output_size is None else as_sizes(list(output_size)[-rank:], rank, "output_size", 1)
            if any(not low - s < n < low + s for n, low, s in zip(sizes, least, strides, strict=True)):
                raise UsageError(f"{name}: output_size {list(sizes)} is not near {least}, that of the windows")
            rows, count = tuple(x.shape[:2]), prod(sizes)
            flat = ops.reshape(x, shape=(*rows, prod(x.shape[2:])))
            at = ops.reshape(indices, shape=tuple(flat.shape))
            at = bounded(at, count, f"{name}: indices must lie in 0 .. {count - 1}, got {{}}", waits_for_device=True)
            blank = x.interpreter.zeros(type(x.spec)((*rows, count), str(x.dtype)))
            return ops.reshape(FUNCTIONS["scatter"](blank, 2, at, flat), shape=(*rows, *sizes))

        return with_batch(input, rank, name, run)

    max_unpool.__name__ = max_unpool.__qualname__ = name
    max_unpool.__doc__ = f"""The inverse of `max_pool{rank}d`: zeros with each value at the position that ``indices``
    gives in the flattened output. output_size: the output's size, which the stride leaves open."""
    return max_unpool


adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = (_define_average(rank) for rank in (1, 2, 3))
adaptive_max_pool1d, adaptive_max_pool1d_with_indices = _define_max(1)
adaptive_max_pool2d, adaptive_max_pool2d_with_indices = _define_max(2)
adaptive_max_pool3d, adaptive_max_pool3d_with_indices = _define_max(3)
max_unpool1d, max_unpool2d, max_unpool3d = (_define_unpool(rank) for rank in (1, 2, 3))
