"""The package's own matrix product: for strict float32, float64, unusual broadcasts, and wherever cuDNN is missing."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from prototorch.cuda.kernels.elementwise import merge_axes
from prototorch.cuda.kernels.launch import (
    InputArg,
    LaunchSequence,
    OutputArg,
    c_type,
    contiguous_strides,
    index_scalar,
    kernel_source,
    per_block_launch,
)
from prototorch.spec import Spec

__all__ = ["tiled_matmul"]

#: the side of a block's tile, that of a thread's tile, and the depth of the operands' tiles in shared memory
TILE, THREAD_TILE, TILE_K = 128, 8, 8


def tiled_matmul(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> LaunchSequence | None:
    """The product of `matmul`; None where its batches lie along more than two axes that cannot be taken together."""
    y = outs[0]
    m, n = y.shape[-2:]
    k = ins[0].shape[-2 if attrs.get("transpose_a", False) else -1]
    if not k:
        return None
    batch = y.shape[:-2]
    # the leading axes of each operand as multiples of its own matrix
    dims, steps = merge_axes(Spec(batch), [Spec(s.shape[:-2]) for s in ins])
    if len(dims) > 2:
        return None
    missing_axes = 2 - len(dims)
    inner = dims[-1] if dims else 1
    stride_args: list[np.int64] = []
    for spec, strides, name in zip(ins, steps, ("transpose_a", "transpose_b"), strict=True):
        row, column = contiguous_strides(spec)[-2:]
        pair = (column, row) if attrs.get(name, False) else (row, column)
        size = prod(spec.shape[-2:])
        stride_args += [np.int64(s) for s in (*[0] * missing_axes, *(o * size for o in strides), *pair)]
    rows, columns = -(-m // TILE), -(-n // TILE)
    tiles = prod(batch) * rows * columns
    source = kernel_source("matmul", max(y.size, tiles), X=c_type(y), TILE=TILE, WORK=THREAD_TILE, DEPTH=TILE_K)
    largest = max(y.size, tiles)
    counts = (*(index_scalar(v, largest) for v in (tiles, rows, columns)), np.int32(m), np.int32(n), np.int32(k))
    args = (*counts, index_scalar(inner, largest), *stride_args, InputArg(0), InputArg(1), OutputArg(0))
    sequence = LaunchSequence(per_block_launch(source, "matmul", tiles, *args, block=(TILE // THREAD_TILE) ** 2))
    sequence.layouts = (None, None)
    return sequence
