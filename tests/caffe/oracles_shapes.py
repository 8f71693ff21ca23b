"""Caffe's layers that move, choose or normalize elements, in NumPy, as its sources compute them.

Each function takes the fields, the bottoms and the gradient of the top (or tops), and returns tops and gradients.
"""

from __future__ import annotations

import numpy as np


def concat(xs, g, axis):
    ends = np.cumsum([x.shape[axis] for x in xs])[:-1]
    return np.concatenate(xs, axis), np.split(g, ends, axis)


def slices(x, points, axis):
    return np.split(x, points, axis)


def tile(x, g, axis, tiles):
    y = np.concatenate([x] * tiles, axis)
    return y, sum(np.split(g, tiles, axis))


def reshape_shape(shape, dims, axis=0, num_axes=-1):
    start = axis if axis >= 0 else len(shape) + axis + 1
    end = len(shape) if num_axes == -1 else start + num_axes
    new = [shape[start + i] if d == 0 else d for i, d in enumerate(dims)]
    out = [*shape[:start], *new, *shape[end:]]
    if -1 in out:
        out[out.index(-1)] = int(np.prod(shape)) // int(np.prod([n for n in out if n != -1]))
    return tuple(out)


def flatten_shape(shape, axis=1, end_axis=-1):
    axis, end = axis % len(shape), end_axis % len(shape)
    return (*shape[:axis], int(np.prod(shape[axis : end + 1])), *shape[end + 1 :])


def reduction(x, g, operation, axis, coeff):
    axis %= x.ndim
    flat = x.reshape(*x.shape[:axis], -1)
    up = np.broadcast_to((g * coeff)[..., None], flat.shape)
    dim = flat.shape[-1]
    y, d = {
        "SUM": (flat.sum(-1), up),
        "ASUM": (np.abs(flat).sum(-1), up * np.sign(flat)),
        "SUMSQ": ((flat * flat).sum(-1), 2 * up * flat),
        "MEAN": (flat.mean(-1), up / dim),
    }[operation]
    return y * coeff, d.reshape(x.shape)


def argmax(x, axis, top_k, out_max_val):
    """Sorted by (value, position), the largest first."""
    if axis is None:
        flat = x.reshape(len(x), -1)
    else:
        flat = np.moveaxis(x, axis, -1)
    rows = flat.reshape(-1, flat.shape[-1])
    order = np.array([sorted(range(len(r)), key=lambda j: (r[j], j), reverse=True)[:top_k] for r in rows])
    values = np.take_along_axis(rows, order, 1)
    if axis is not None:
        chosen = (values if out_max_val else order).reshape(*flat.shape[:-1], top_k)
        return np.moveaxis(chosen, -1, axis).astype(float)
    parts = [order, values] if out_max_val else [order]
    tail = [1] * max(0, x.ndim - 3)
    return np.stack(parts, 1).reshape(len(x), len(parts), top_k, *tail).astype(float)


def batch_reindex(x, positions, g):
    dx = np.zeros_like(x)
    for i, p in enumerate(positions):
        dx[int(p)] += g[i]
    return x[positions.astype(int)], dx


def softmax(x, g, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    y = e / e.sum(axis, keepdims=True)
    return y, (g - (g * y).sum(axis, keepdims=True)) * y


def batch_norm(x, g, blobs, uses_global, fraction, eps):
    """Returns y, dx and the blobs after the pass."""
    mean_sum, var_sum, weight = blobs
    over = tuple(i for i in range(x.ndim) if i != 1)
    shape = (1, -1, *(1,) * (x.ndim - 2))
    if uses_global:
        factor = 0.0 if weight[0] == 0 else 1 / weight[0]
        mean, var = mean_sum * factor, var_sum * factor
        root = np.sqrt(var + eps).reshape(shape)
        return (x - mean.reshape(shape)) / root, g / root, blobs
    mean = x.mean(over)
    var = ((x - mean.reshape(shape)) ** 2).mean(over)
    m = x.size // x.shape[1]
    after = (
        fraction * mean_sum + mean,
        fraction * var_sum + var * (m / (m - 1) if m > 1 else 1.0),
        fraction * weight + 1,
    )
    root = np.sqrt(var + eps).reshape(shape)
    y = (x - mean.reshape(shape)) / root
    dx = (g - g.mean(over, keepdims=True) - y * (g * y).mean(over, keepdims=True)) / root
    return y, dx, after


def mvn(x, g, normalize_variance, across_channels, eps):
    x4, shape = x.reshape(*x.shape, *(1,) * (4 - x.ndim)), g.shape
    rows = x4.reshape(len(x4) if across_channels else len(x4) * x4.shape[1], -1)
    up = g.reshape(rows.shape)
    y = rows - rows.mean(1, keepdims=True)
    if not normalize_variance:
        return y.reshape(shape), (up - up.mean(1, keepdims=True)).reshape(x.shape)
    root = np.sqrt((y * y).mean(1, keepdims=True)) + eps
    y = y / root
    dx = (up - up.mean(1, keepdims=True) - y * (up * y).mean(1, keepdims=True)) / root
    return y.reshape(shape), dx.reshape(x.shape)


def scale(x, s, bias, g, axis):
    """Returns y and the gradients of x, the scale and the bias."""
    axis = axis % x.ndim if s.ndim else 0
    shape = (*(1,) * axis, *s.shape, *(1,) * (x.ndim - axis - s.ndim))
    over = tuple(i for i in range(x.ndim) if not axis <= i < axis + s.ndim)
    y = x * s.reshape(shape) + (0 if bias is None else bias.reshape(shape))
    return y, g * s.reshape(shape), (g * x).sum(over), g.sum(over)
