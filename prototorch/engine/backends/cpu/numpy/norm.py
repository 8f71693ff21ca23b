"""Batch and layer normalisation: a few channels, or a few rows, at a time, which stay in the cache.

Statistics are computed in two passes, as in the reference implementations; sums go through BLAS.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from prototorch.engine.backends.cpu.numpy.reduce import sum_columns, sum_rows
from prototorch.engine.backends.cpu.worker_pool import parallel_for, scratch_arrays
from prototorch.engine.backends.registry import KernelFn, kernel
from prototorch.ops.reduce import normalize_axes
from prototorch.spec import Spec

_BLOCK_ELEMENTS = 1 << 16  # elements that are processed together


def _has_blas_dtype(*specs: Spec) -> bool:
    return all(s.dtype in ("float32", "float64") and s.size for s in specs) and len({s.dtype for s in specs}) == 1


def _channel_shape(shape: tuple[int, ...], axis: int) -> tuple[int, int, int]:
    """The shape as [before, channels, after]."""
    return prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])


def channel_sums(x: Any) -> Any:
    """[n, c, p] summed over n and p."""
    n, c, p = x.shape
    if p == 1:
        out = np.empty(c, x.dtype)
        sum_columns(x[:, :, 0], out)
        return out
    parts = np.empty((n, c), x.dtype)
    for i in range(n):
        sum_rows(x[i], parts[i])
    return np.add.reduce(parts, axis=0)


def channel_dots(a: Any, b: Any, product: Any) -> Any:
    """a * b, [n, c, p], summed over n and p."""
    return channel_sums(np.multiply(a, b, out=product))


@kernel("numpy", "batch_norm")
def batch_norm(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
    """y, the mean and the biased variance of each channel."""
    x = ins[0]
    if not _has_blas_dtype(*ins):
        return None
    n, c, p = _channel_shape(x.shape, normalize_axes(attrs.get("axis", 1), x.ndim)[0])
    eps = attrs["eps"]
    grain = max(_BLOCK_ELEMENTS // (n * p), 1)

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        values, gamma, beta = inputs[0].reshape(n, c, p), inputs[1], inputs[2]
        y, mean, var = outputs[0].reshape(n, c, p), outputs[1], outputs[2]

        def work(start: int, stop: int) -> None:
            part = slice(start, stop)
            channels, result = values[:, part], y[:, part]
            (product,) = scratch_arrays(((n, stop - start, p), x.dtype))
            np.divide(channel_sums(channels), n * p, out=mean[part])
            np.subtract(channels, mean[part, None], out=result)
            np.divide(channel_dots(result, result, product), n * p, out=var[part])
            scale = 1 / np.sqrt(var[part] + eps) * gamma[part]
            np.multiply(result, scale[:, None], out=result)
            np.add(result, beta[part, None], out=result)

        parallel_for(work, c, grain, blas=True)

    return run


@kernel("numpy", "batch_norm_grad")
def batch_norm_grad(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
    """dx = scale * gamma * (g - mean(g) - normal * mean(g * normal)), with the sums as dgamma and dbeta."""
    x = ins[1]
    if not _has_blas_dtype(*ins):
        return None
    n, c, p = _channel_shape(x.shape, normalize_axes(attrs.get("axis", 1), x.ndim)[0])
    eps, count = attrs["eps"], n * p
    grain = max(_BLOCK_ELEMENTS // (n * p), 1)

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        g, values, gamma, mean, var = inputs
        g, values = g.reshape(n, c, p), values.reshape(n, c, p)
        dx, dgamma, dbeta = outputs[0].reshape(n, c, p), outputs[1], outputs[2]

        def work(start: int, stop: int) -> None:
            part = slice(start, stop)
            grads, result = g[:, part], dx[:, part]
            (product,) = scratch_arrays(((n, stop - start, p), x.dtype))
            scale = 1 / np.sqrt(var[part] + eps)
            full_scale = scale * gamma[part]
            np.subtract(values[:, part], mean[part, None], out=result)
            np.multiply(channel_dots(grads, result, product), scale, out=dgamma[part])
            dbeta[part] = channel_sums(grads)
            np.multiply(result, (full_scale * scale * dgamma[part] / count)[:, None], out=result)
            np.multiply(grads, full_scale[:, None], out=product)
            np.subtract(product, result, out=result)
            np.subtract(result, (full_scale * dbeta[part] / count)[:, None], out=result)

        parallel_for(work, c, grain, blas=True)

    return run


@kernel("numpy", "batch_norm_inference")
def batch_norm_inference(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
    """x * scale + shift."""
    x = ins[0]
    if not _has_blas_dtype(*ins):
        return None
    n, c, p = _channel_shape(x.shape, normalize_axes(attrs.get("axis", 1), x.ndim)[0])
    eps = attrs["eps"]
    grain = max(_BLOCK_ELEMENTS // (c * p), 1)

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        values, gamma, beta, mean, var = inputs
        values, y = values.reshape(n, c, p), outputs[0].reshape(n, c, p)
        scale = 1 / np.sqrt(var + eps) * gamma
        scale, shift = scale[:, None], (beta - mean * scale)[:, None]

        def work(start: int, stop: int) -> None:
            result = y[start:stop]
            np.multiply(values[start:stop], scale, out=result)
            np.add(result, shift, out=result)

        parallel_for(work, n, grain)

    return run


def _trailing_shape(x: Spec, axis: Any) -> tuple[int, int] | None:
    """[rows, elements of each] where the axes are the last ones."""
    over = normalize_axes(axis, x.ndim)
    if over != tuple(range(x.ndim - len(over), x.ndim)):
        return None
    return prod(x.shape[: x.ndim - len(over)]), prod(x.shape[i] for i in over)


def _row_means(x: Any, out: Any) -> None:
    sum_rows(x, out[:, 0])
    np.divide(out, x.shape[1], out=out)


@kernel("numpy", "layer_norm")
def layer_norm(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
    """Each row less its mean, over its deviation, times gamma, plus beta."""
    x = ins[0]
    sizes = _trailing_shape(x, attrs["axis"]) if _has_blas_dtype(*ins) else None
    if sizes is None:
        return None
    m, k = sizes
    eps = attrs["eps"]
    grain = max(_BLOCK_ELEMENTS // k, 1)

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        rows, y = inputs[0].reshape(m, k), outputs[0].reshape(m, k)
        gamma, beta = inputs[1].reshape(k), inputs[2].reshape(k)

        def work(start: int, stop: int) -> None:
            result = y[start:stop]
            product, small = scratch_arrays((result.shape, x.dtype), ((stop - start, 1), x.dtype))
            _row_means(rows[start:stop], small)
            np.subtract(rows[start:stop], small, out=result)
            _row_means(np.multiply(result, result, out=product), small)
            np.divide(1, np.sqrt(np.add(small, eps, out=small), out=small), out=small)
            np.multiply(result, small, out=result)
            np.multiply(result, gamma, out=result)
            np.add(result, beta, out=result)

        parallel_for(work, m, grain, blas=True)

    return run


@kernel("numpy", "layer_norm_grad")
def layer_norm_grad(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
    """The gradients of x, gamma and beta; the last two summed over blocks of rows in their order."""
    x = ins[1]
    sizes = _trailing_shape(x, attrs["axis"]) if _has_blas_dtype(*ins) else None
    if sizes is None:
        return None
    m, k = sizes
    eps = attrs["eps"]
    grain = max(_BLOCK_ELEMENTS // k, 1)
    pieces = -(-m // grain)

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        g, rows, gamma = inputs[0].reshape(m, k), inputs[1].reshape(m, k), inputs[2].reshape(k)
        dx = outputs[0].reshape(m, k)
        (sums,) = scratch_arrays(((2, pieces, k), x.dtype), use="sums")

        def work(start: int, stop: int) -> None:
            result, grads = dx[start:stop], g[start:stop]
            shape = result.shape
            normal, product, small = scratch_arrays((shape, x.dtype), (shape, x.dtype), ((stop - start, 1), x.dtype))
            _row_means(rows[start:stop], small)
            np.subtract(rows[start:stop], small, out=normal)
            _row_means(np.multiply(normal, normal, out=product), small)
            scale = 1 / np.sqrt(small + eps)
            np.multiply(normal, scale, out=normal)
            np.multiply(grads, normal, out=product)
            sum_columns(product, sums[0, start // grain])
            sum_columns(grads, sums[1, start // grain])
            np.multiply(product, gamma, out=product)
            _row_means(product, small)
            np.multiply(normal, small, out=normal)
            np.multiply(grads, gamma, out=result)
            _row_means(result, small)
            np.subtract(result, small, out=result)
            np.subtract(result, normal, out=result)
            np.multiply(result, scale, out=result)

        parallel_for(work, m, grain, blas=True)
        np.add.reduce(sums[0], axis=0, out=outputs[1].reshape(k))
        np.add.reduce(sums[1], axis=0, out=outputs[2].reshape(k))

    return run
