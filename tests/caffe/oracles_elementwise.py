"""Caffe's elementwise layers in NumPy, forward and backward, as its sources compute them.

Each function takes the fields of the layer's parameter, the bottoms and the gradient of the top, and returns the top
and the gradients of the bottoms. Numbers of fields are given as Caffe holds them, in single precision.
"""

from __future__ import annotations

import numpy as np


def relu(x, g, negative_slope=0.0):
    return np.maximum(x, 0) + negative_slope * np.minimum(x, 0), g * ((x > 0) + negative_slope * (x <= 0))


def elu(x, g, alpha=1.0):
    y = np.maximum(x, 0) + alpha * (np.exp(np.minimum(x, 0)) - 1)
    return y, g * ((x > 0) + (alpha + y) * (x <= 0))


def clip(x, g, min, max):
    return np.maximum(min, np.minimum(x, max)), g * (x >= min) * (x <= max)


def swish(x, g, beta=1.0):
    s = 0.5 * np.tanh(0.5 * beta * x) + 0.5
    y = x * s
    return y, g * (beta * y + s * (1 - beta * y))


def sigmoid(x, g):
    y = 0.5 * np.tanh(0.5 * x) + 0.5
    return y, g * y * (1 - y)


def tanh(x, g):
    y = np.tanh(x)
    return y, g * (1 - y * y)


def bnll(x, g):
    y = np.where(x > 0, x + np.log(1 + np.exp(-np.abs(x))), np.log(1 + np.exp(np.minimum(x, 0))))
    e = np.exp(np.minimum(x, 50.0))
    return y, g * e / (e + 1)


def absval(x, g):
    return np.abs(x), g * np.sign(x)


def exponential(x, g, base=-1.0, scale=1.0, shift=0.0):
    log_base = 1.0 if base == -1 else np.log(base)
    outer = 1.0 if shift == 0 else np.exp(shift) if base == -1 else base**shift
    y = outer * np.exp(log_base * scale * x)
    return y, g * y * log_base * scale


def logarithm(x, g, base=-1.0, scale=1.0, shift=0.0):
    log_base = 1.0 if base == -1 else np.log(base)
    return np.log(scale * x + shift) / log_base, g * (scale / log_base) / (scale * x + shift)


def power(x, g, power=1.0, scale=1.0, shift=0.0):
    if power * scale == 0:
        return np.full_like(x, 1.0 if power == 0 else shift**power), np.zeros_like(x)
    base = scale * x + shift
    y = base**power
    if power == 1:
        return y, g * scale
    if power == 2:
        return y, g * (2 * scale * scale * x + 2 * scale * shift)
    return y, g * power * scale * y / base


def threshold(x, g, threshold=0.0):
    return (x > threshold).astype(x.dtype), None


def eltwise_sum(xs, g, coeff):
    return sum(c * x for c, x in zip(coeff, xs, strict=True)), [c * g for c in coeff]


def eltwise_prod(xs, g):
    return np.prod(xs, axis=0), [g * np.prod([x for j, x in enumerate(xs) if j != i], axis=0) for i in range(len(xs))]


def eltwise_max(xs, g):
    index = np.where(xs[0] > xs[1], 0, 1)
    y = np.where(xs[0] > xs[1], xs[0], xs[1])
    for i, x in enumerate(xs[2:], start=2):
        index, y = np.where(x > y, i, index), np.where(x > y, x, y)
    return y, [g * (index == i) for i in range(len(xs))]


def prelu(x, g, slope):
    """slope: of each channel, or a scalar."""
    shape = (1, -1, *(1,) * (x.ndim - 2)) if slope.ndim else ()
    s = slope.reshape(shape)
    over = tuple(i for i in range(x.ndim) if i != 1) if slope.ndim else None
    return (
        np.maximum(x, 0) + s * np.minimum(x, 0),
        g * ((x > 0) + s * (x <= 0)),
        np.sum(g * x * (x <= 0), axis=over),
    )
