"""Layer normalization over the last axes (Ba et al., 2016): a block of threads for each row, and sums over rows in a
fixed order."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from prototorch.backends.cuda.kernels.launch import (
    InputArg,
    LaunchSequence,
    OutputArg,
    WorkspaceArg,
    align_bytes,
    block_size_for,
    c_type,
    cuda_kernel,
    grid_stride_launch,
    index_scalar,
    kernel_source,
    per_block_launch,
)  # fmt: skip
from prototorch.backends.cuda.kernels.reduce import TARGET_THREADS
from prototorch.ops.reduce import normalize_axes
from prototorch.spec import Spec

Specs = tuple[Spec, ...]


def _row_geometry(x: Spec, gamma: Spec, attrs: dict[str, Any]) -> tuple[str, int, int, Any] | None:
    """The text, rows, elements of a row, and the type of numbers; None where the axes are not the last ones."""
    normalized_axes = normalize_axes(attrs["axis"], x.ndim)
    n = prod(x.shape[a] for a in normalized_axes)
    if normalized_axes != tuple(range(x.ndim - len(normalized_axes), x.ndim)) or not x.is_float or n >= 1 << 31:
        return None
    is_double = x.dtype == "float64"
    source = kernel_source("layer_norm", x.size, X=c_type(x), W=c_type(gamma), sqrt_of="sqrt" if is_double else "sqrtf")
    return source, x.size // n, n, np.float64 if is_double else np.float32


@cuda_kernel("layer_norm")
def layer_norm(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> LaunchSequence | None:
    """Over the last axes."""
    x, gamma, beta = ins
    geometry = _row_geometry(x, gamma, attrs)
    if geometry is None or gamma.dtype != beta.dtype or outs[0].dtype != x.dtype:
        return None
    source, rows, n, acc_type = geometry
    args = (
        index_scalar(rows, x.size),
        np.int32(n),
        InputArg(0),
        InputArg(1),
        InputArg(2),
        OutputArg(0),
        acc_type(attrs["eps"]),
    )
    return LaunchSequence(per_block_launch(source, "layer", rows, *args, block=block_size_for(n)))


@cuda_kernel("layer_norm_grad")
def layer_norm_grad(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> LaunchSequence | None:
    """Gradients of x, gamma and beta."""
    g, x, gamma = ins
    geometry = _row_geometry(x, gamma, attrs)
    if (
        geometry is None
        or g.dtype != x.dtype
        or outs[0].dtype != x.dtype
        or any(o.dtype != gamma.dtype for o in outs[1:])
    ):
        return None
    source, rows, n, acc_type = geometry
    size = np.dtype(acc_type).itemsize
    chunks = max(1, min(-(-TARGET_THREADS // n), rows // 16, 64))
    chunk = -(-rows // chunks)
    chunks = -(-rows // chunk)
    stats = align_bytes(2 * rows * size)
    count = lambda *v: tuple(index_scalar(i, x.size) for i in v)  # noqa: E731 - said three times below
    input_args = (
        *count(rows),
        np.int32(n),
        InputArg(0),
        InputArg(1),
        InputArg(2),
        OutputArg(0),
        WorkspaceArg(),
        acc_type(attrs["eps"]),
    )
    vector_args = (
        *count(rows),
        np.int32(n),
        *count(chunks, chunk),
        InputArg(0),
        InputArg(1),
        WorkspaceArg(),
        WorkspaceArg(stats),
    )
    return LaunchSequence(
        per_block_launch(source, "layer_grad", rows, *input_args, block=block_size_for(n)),
        grid_stride_launch(source, "layer_vectors", chunks * n, *vector_args, block=128),
        grid_stride_launch(
            source, "layer_end", n, *count(n, chunks), WorkspaceArg(stats), OutputArg(1), OutputArg(2), block=64
        ),
        workspace_bytes=stats + align_bytes(2 * chunks * n * size),
    )
