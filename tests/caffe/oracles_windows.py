"""Caffe's layers over windows, written from their definitions with loops over single elements."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import ceil, floor, prod

import numpy as np

Sizes = tuple[int, ...]
Index = tuple[int, ...]


def conv_sizes(size: Sizes, kernel: Sizes, stride: Sizes, pad: Sizes, dilation: Sizes) -> Sizes:
    """The spatial sizes after a convolution: a quotient of integers, which C rounds towards 0."""
    each = zip(size, kernel, stride, pad, dilation, strict=True)
    return tuple(int((n + 2 * p - (d * (k - 1) + 1)) / s) + 1 for n, k, s, p, d in each)


def connections(
    batch: int,
    filters: int,
    channels: int,
    groups: int,
    size: Sizes,
    kernel: Sizes,
    stride: Sizes,
    pad: Sizes,
    dilation: Sizes,
) -> Iterator[tuple[Index, Index, Index]]:
    """Each product of a convolution: the indices of its output, its input and its weight."""
    out = conv_sizes(size, kernel, stride, pad, dilation)
    per_group_in, per_group_out = channels // groups, filters // groups
    for f, c, position, offset in product(
        range(filters), range(per_group_in), product(*map(range, out)), product(*map(range, kernel))
    ):
        at = tuple(o * s - p + k * d for o, s, p, k, d in zip(position, stride, pad, offset, dilation, strict=True))
        if all(0 <= a < n for a, n in zip(at, size, strict=True)):
            for n in range(batch):
                yield (n, f, *position), (n, f // per_group_out * per_group_in + c, *at), (f, c, *offset)


def convolution(x, w, bias, g, groups, stride, pad, dilation):
    """y and the gradients of x, w and the bias; g: the gradient of y, None before its shape is known."""
    out = conv_sizes(x.shape[2:], w.shape[2:], stride, pad, dilation)
    y = np.zeros((x.shape[0], w.shape[0], *out))
    dx, dw = np.zeros_like(x), np.zeros_like(w)
    g = np.zeros_like(y) if g is None else g
    for o, i, k in connections(
        x.shape[0], w.shape[0], x.shape[1], groups, x.shape[2:], w.shape[2:], stride, pad, dilation
    ):
        y[o] += x[i] * w[k]
        dx[i] += g[o] * w[k]
        dw[k] += g[o] * x[i]
    return y + bias.reshape(-1, *(1,) * len(out)), dx, dw, _over_all_but_channels(g)


def deconvolution(x, w, bias, g, groups, stride, pad, dilation):
    """As `convolution`, of which it is the adjoint: w [channels, filters / groups, *kernel]."""
    each = zip(x.shape[2:], w.shape[2:], stride, pad, dilation, strict=True)
    out = tuple(s * (n - 1) + d * (k - 1) + 1 - 2 * p for n, k, s, p, d in each)
    filters = w.shape[1] * groups
    y = np.zeros((x.shape[0], filters, *out))
    dx, dw = np.zeros_like(x), np.zeros_like(w)
    g = np.zeros_like(y) if g is None else g
    for i, o, k in connections(x.shape[0], x.shape[1], filters, groups, out, w.shape[2:], stride, pad, dilation):
        y[o] += x[i] * w[k]
        dx[i] += g[o] * w[k]
        dw[k] += g[o] * x[i]
    return y + bias.reshape(-1, *(1,) * len(out)), dx, dw, _over_all_but_channels(g)


def _over_all_but_channels(g: np.ndarray) -> np.ndarray:
    return g.sum(axis=(0, *range(2, g.ndim)))


def im2col(x, g, kernel, stride, pad, dilation):
    """The columns [N, C * elements of a window, *out] and the gradient of x."""
    out = conv_sizes(x.shape[2:], kernel, stride, pad, dilation)
    y = np.zeros((x.shape[0], x.shape[1] * prod(kernel), *out))
    dx = np.zeros_like(x)
    g = np.zeros_like(y) if g is None else g
    for c, (number, offset), position in product(
        range(x.shape[1]), enumerate(product(*map(range, kernel))), product(*map(range, out))
    ):
        at = tuple(o * s - p + k * d for o, s, p, k, d in zip(position, stride, pad, offset, dilation, strict=True))
        if all(0 <= a < n for a, n in zip(at, x.shape[2:], strict=True)):
            y[:, c * prod(kernel) + number, *position] = x[:, c, *at]
            dx[:, c, *at] += g[:, c * prod(kernel) + number, *position]
    return y, dx


def pooled_sizes(size: Sizes, kernel: Sizes, stride: Sizes, pad: Sizes, mode: str) -> Sizes:
    """Rows and columns after pooling."""
    rounded = ceil if mode == "CEIL" else floor
    out = [rounded((n + 2 * p - k) / s) + 1 for n, k, s, p in zip(size, kernel, stride, pad, strict=True)]
    if any(pad):
        out = [o - 1 if (o - 1) * s >= n + p else o for o, n, s, p in zip(out, size, stride, pad, strict=True)]
    return tuple(out)


def pooling(x, g, kind, kernel, stride, pad, mode):
    """y, the positions of the maxima (of zeros for AVE), and the gradient of x."""
    height, width = x.shape[2:]
    y = np.zeros((*x.shape[:2], *pooled_sizes((height, width), kernel, stride, pad, mode)))
    mask, dx = np.zeros_like(y), np.zeros_like(x)
    g = np.zeros_like(y) if g is None else g
    for n, c, i, j in np.ndindex(*y.shape):
        top, left = i * stride[0] - pad[0], j * stride[1] - pad[1]
        bottom, right = min(top + kernel[0], height + pad[0]), min(left + kernel[1], width + pad[1])
        area = (bottom - top) * (right - left)
        inside = list(product(range(max(top, 0), min(bottom, height)), range(max(left, 0), min(right, width))))
        values = [x[n, c, a, b] for a, b in inside]
        if kind == "AVE":
            y[n, c, i, j] = sum(values) / area
            for a, b in inside:
                dx[n, c, a, b] += g[n, c, i, j] / area
        elif kind == "MAX":
            a, b = inside[values.index(max(values))]
            y[n, c, i, j], mask[n, c, i, j] = x[n, c, a, b], a * width + b
            dx[n, c, a, b] += g[n, c, i, j]
        else:  # STOCHASTIC in the phase TEST
            y[n, c, i, j] = sum(v * v for v in values) / sum(values) if sum(values) > 0 else 0
    return y, mask, dx


def pyramid(x, g, levels, kind):
    """SPP of several levels: y [N, C * (1 + 4 + ...)] and the gradient of x."""
    parts, dx, start = [], np.zeros_like(x), 0
    for bins in (2**level for level in range(levels)):
        kernel = tuple(ceil(n / bins) for n in x.shape[2:])
        pad = tuple((k * bins - n + 1) // 2 for k, n in zip(kernel, x.shape[2:], strict=True))
        y = pooling(x, None, kind, kernel, kernel, pad, "CEIL")[0]
        count = y[0].size
        if g is not None:
            dx += pooling(x, g[:, start : start + count].reshape(y.shape), kind, kernel, kernel, pad, "CEIL")[2]
        start += count
        parts.append(y.reshape(len(x), -1))
    return np.concatenate(parts, axis=1), dx


def lrn(x, size, alpha, beta, k, within):
    """Local response normalization of [N, C, H, W]."""
    y = np.zeros_like(x)
    half = size // 2
    for n, c, i, j in np.ndindex(*x.shape):
        if within:
            top, left = i - half, j - half
            bottom, right = min(top + size, x.shape[2] + half), min(left + size, x.shape[3] + half)
            window = x[n, c, max(top, 0) : bottom, max(left, 0) : right]
            base = 1 + alpha * (window**2).sum() / ((bottom - top) * (right - left))
        else:
            base = k + alpha / size * (x[n, max(c - half, 0) : c + half + 1, i, j] ** 2).sum()
        y[n, c, i, j] = x[n, c, i, j] * base**-beta
    return y
