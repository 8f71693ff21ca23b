"""Layer normalisation over the last axes: a block of threads for each row, and sums over rows in a fixed order."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from prototorch.backends.cuda.kernels.launch import (
    In,
    Launches,
    Out,
    Space,
    aligned,
    block_launch,
    c_type,
    cuda_kernel,
    index,
    launch,
    source,
    threads_for,
)  # fmt: skip
from prototorch.backends.cuda.kernels.reduce import ENOUGH
from prototorch.ops.reduce import axes
from prototorch.spec import Spec

Specs = tuple[Spec, ...]


def _layer(x: Spec, gamma: Spec, attrs: dict[str, Any]) -> tuple[str, int, int, Any] | None:
    """The text, rows, elements of a row, and the type of numbers; None where the axes are not the last ones."""
    over = axes(attrs["axis"], x.ndim)
    n = prod(x.shape[a] for a in over)
    if over != tuple(range(x.ndim - len(over), x.ndim)) or not x.is_float or n >= 1 << 31:
        return None
    wide = x.dtype == "float64"
    text = source("layer", x.size, X=c_type(x), W=c_type(gamma), sqrt_of="sqrt" if wide else "sqrtf")
    return text, x.size // n, n, np.float64 if wide else np.float32


@cuda_kernel("layer_norm")
def layer_norm(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> Launches | None:
    """Over the last axes."""
    x, gamma, beta = ins
    found = _layer(x, gamma, attrs)
    if found is None or gamma.dtype != beta.dtype or outs[0].dtype != x.dtype:
        return None
    text, rows, n, number = found
    args = (index(rows, x.size), np.int32(n), In(0), In(1), In(2), Out(0), number(attrs["eps"]))
    return Launches(block_launch(text, "layer", rows, *args, block=threads_for(n)))


@cuda_kernel("layer_norm_grad")
def layer_norm_grad(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> Launches | None:
    """Gradients of x, gamma and beta."""
    g, x, gamma = ins
    found = _layer(x, gamma, attrs)
    if found is None or g.dtype != x.dtype or outs[0].dtype != x.dtype or any(o.dtype != gamma.dtype for o in outs[1:]):
        return None
    text, rows, n, number = found
    size = np.dtype(number).itemsize
    chunks = max(1, min(-(-ENOUGH // n), rows // 16, 64))
    chunk = -(-rows // chunks)
    chunks = -(-rows // chunk)
    stats = aligned(2 * rows * size)
    count = lambda *v: tuple(index(i, x.size) for i in v)  # noqa: E731 - said three times below
    first = (*count(rows), np.int32(n), In(0), In(1), In(2), Out(0), Space(), number(attrs["eps"]))
    vectors = (*count(rows), np.int32(n), *count(chunks, chunk), In(0), In(1), Space(), Space(stats))
    return Launches(
        block_launch(text, "layer_grad", rows, *first, block=threads_for(n)),
        launch(text, "layer_vectors", chunks * n, *vectors, block=128),
        launch(text, "layer_end", n, *count(n, chunks), Space(stats), Out(1), Out(2), block=64),
        space=stats + aligned(2 * chunks * n * size),
    )
