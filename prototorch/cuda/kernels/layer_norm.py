"""Layer normalization over the last axes (Ba et al., 2016): a block of threads for each row, and sums over rows in a
fixed order."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from prototorch.cuda.kernels.candidates import candidate_enabled
from prototorch.cuda.kernels.column_tiles import ColumnTiling
from prototorch.cuda.kernels.launch import (
    BLOCK,
    InputArg,
    LaunchSequence,
    OutputArg,
    WorkspaceArg,
    align_bytes,
    block_size_for,
    c_type,
    cuda_kernel,
    index_scalar,
    kernel_source,
    per_block_launch,
    vector_width,
)
from prototorch.cuda.kernels.row_per_warp import row_launch
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
    if candidate_enabled("row_per_warp"):
        arrays = InputArg(0), InputArg(1), InputArg(2), OutputArg(0), acc_type(attrs["eps"])
        launch = row_launch("layer_norm_rows", "layer_rows", x, n, *arrays, **_weight_macros(gamma, acc_type))
        if launch is not None:
            return LaunchSequence(launch)
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
    tiling = ColumnTiling.of(rows, n, vector_width(x, n))
    stats = align_bytes(2 * rows * size)
    arrays = InputArg(0), InputArg(1), InputArg(2), OutputArg(0), WorkspaceArg(), acc_type(attrs["eps"])
    first = None
    if candidate_enabled("row_per_warp"):
        macros = _weight_macros(gamma, acc_type)
        first = row_launch("layer_norm_rows", "layer_rows_grad", x, n, *arrays, **macros)
    if first is None:
        counts = index_scalar(rows, x.size), np.int32(n)
        first = per_block_launch(source, "layer_grad", rows, *counts, *arrays, block=block_size_for(n))
    vectors_source = kernel_source(
        "layer_norm_vectors", x.size, X=c_type(x), W=c_type(gamma), C=n, PACK=tiling.pack, TILE_VECTORS=tiling.vectors
    )
    rows_and_chunks = tuple(index_scalar(v, x.size) for v in (rows, tiling.chunks, tiling.chunk))
    partial_sums = InputArg(0), InputArg(1), WorkspaceArg(), WorkspaceArg(stats)
    vectors = WorkspaceArg(stats), OutputArg(1), OutputArg(2)
    return LaunchSequence(
        first,
        per_block_launch(vectors_source, "layer_vectors", tiling.blocks, *rows_and_chunks, *partial_sums, block=BLOCK),
        per_block_launch(
            vectors_source, "layer_end", n, rows_and_chunks[1], *vectors, block=block_size_for(tiling.chunks)
        ),
        workspace_bytes=stats + align_bytes(2 * tiling.chunks * n * size),
    )


def _weight_macros(gamma: Spec, acc_type: Any) -> dict[str, str | int]:
    return {"W": c_type(gamma), "sqrt_of": "sqrt" if acc_type is np.float64 else "sqrtf"}
