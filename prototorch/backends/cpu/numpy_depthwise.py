"""Depthwise convolution: each channel with its own filter, as multiply-add over the places of the kernel.

Channels of all images are one list of rows; a block of rows stays in the cache while the places are gone through.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from prototorch.backends.core import Runner
from prototorch.backends.cpu.numpy_windows import Windows
from prototorch.backends.cpu.pool import parallel, scratch

_ELEMENTS = 1 << 15  # of the output that are done together


def _rows(windows: Windows) -> int:
    return max(_ELEMENTS // max(windows.points, 1), 1)


def depthwise(windows: Windows, n: int, channels: int, dtype: str, backward: bool = False) -> Runner:
    """Inputs x (or the gradient of y) and w [C, 1, *kernel]; gives y (or the gradient of x)."""
    rows = _rows(windows)
    full_shape = (0, 1) if windows.bare else (rows, 1, *windows.full)
    slices = windows.slices()
    tail = (1,) * len(windows.kernel)
    inner = windows.inner

    def forward(x: Any, weights: Any, y: Any) -> None:
        full, part = scratch((full_shape, dtype), ((rows, *windows.out), dtype))
        x = windows.pad(x[:, None], full[: len(x)])[:, 0]
        part = part[: len(x)]
        np.multiply(x[slices[0]], weights[0], out=y)
        for key, weight in zip(slices[1:], weights[1:], strict=True):
            np.multiply(x[key], weight, out=part)
            np.add(y, part, out=y)

    def back(g: Any, weights: Any, dx: Any) -> None:
        full, part = scratch((full_shape, dtype), ((rows, *windows.out), dtype))
        target = dx if windows.bare else full[: len(g), 0]
        part = part[: len(g)]
        target.fill(0)
        for key, weight in zip(slices, weights, strict=True):
            seen = target[key]
            np.multiply(g, weight, out=part)
            np.add(seen, part, out=seen)
        if not windows.bare:
            dx[...] = target[inner]

    body = back if backward else forward

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        source = inputs[0].reshape(n * channels, *inputs[0].shape[2:])
        target = outputs[0].reshape(n * channels, *outputs[0].shape[2:])
        weights = inputs[1].reshape(channels, windows.places).T

        def work(start: int, stop: int) -> None:
            which = np.arange(start, stop) % channels
            mine = weights[:, which].reshape(windows.places, stop - start, *tail)
            body(source[start:stop], mine, target[start:stop])

        parallel(work, n * channels, rows)

    return run


def depthwise_weights(windows: Windows, n: int, channels: int, dtype: str) -> Runner:
    """Inputs x and the gradient of y; gives the gradient of w [C, 1, *kernel]."""
    rows = _rows(windows)
    full_shape = (0, 1) if windows.bare else (rows, 1, *windows.full)
    slices = windows.slices()
    points = prod(windows.out)
    ones = np.ones(points, dtype)

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        x = inputs[0].reshape(n * channels, *inputs[0].shape[2:])
        g = inputs[1].reshape(n * channels, *windows.out)
        (sums,) = scratch(((n * channels, windows.places), dtype), use="sums")

        def work(start: int, stop: int) -> None:
            full, part = scratch((full_shape, dtype), ((rows, *windows.out), dtype))
            many = stop - start
            images = windows.pad(x[start:stop, None], full[:many])[:, 0]
            part = part[:many]
            for i, key in enumerate(slices):
                np.multiply(images[key], g[start:stop], out=part)
                sums[start:stop, i] = np.matmul(part.reshape(many, points), ones)

        parallel(work, n * channels, rows, blas=True)
        np.add.reduce(sums.reshape(n, channels * windows.places), axis=0, out=outputs[0].reshape(-1))

    return run
