"""The matrix product of our own: for strict float32, float64, odd broadcasts, and wherever cuDNN is missing."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from prototorch.backends.cuda.kernels.fused import merged_axes
from prototorch.backends.cuda.kernels.launch import (
    In,
    Launches,
    Out,
    block_launch,
    c_type,
    contiguous_strides,
    index,
    source,
)  # fmt: skip
from prototorch.spec import Spec

#: side of a block's tile, elements of it a thread makes along each side, and depth of what is in shared memory
TILE, WORK, DEPTH = 128, 8, 8


def tiled(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> Launches | None:
    """The product of `matmul`; None where its batches lie along more than two axes that cannot be taken together."""
    y = outs[0]
    m, n = y.shape[-2:]
    k = ins[0].shape[-2 if attrs.get("transpose_a", False) else -1]
    if not k:
        return None
    batch = y.shape[:-2]
    # the leading axes of each operand as multiples of its own matrix
    dims, steps = merged_axes(Spec(batch), [Spec(s.shape[:-2]) for s in ins])
    if len(dims) > 2:
        return None
    lead = 2 - len(dims)
    inner = dims[-1] if dims else 1
    numbers: list[np.int64] = []
    for spec, own, name in zip(ins, steps, ("transpose_a", "transpose_b"), strict=True):
        row, column = contiguous_strides(spec)[-2:]
        pair = (column, row) if attrs.get(name, False) else (row, column)
        size = prod(spec.shape[-2:])
        numbers += [np.int64(s) for s in (*[0] * lead, *(o * size for o in own), *pair)]
    rows, columns = -(-m // TILE), -(-n // TILE)
    tiles = prod(batch) * rows * columns
    text = source("matmul", max(y.size, tiles), X=c_type(y), TILE=TILE, WORK=WORK, DEPTH=DEPTH)
    largest = max(y.size, tiles)
    counts = (*(index(v, largest) for v in (tiles, rows, columns)), np.int32(m), np.int32(n), np.int32(k))
    args = (*counts, index(inner, largest), *numbers, In(0), In(1), Out(0))
    made = Launches(block_launch(text, "matmul", tiles, *args, block=(TILE // WORK) ** 2))
    made.layouts = (None, None)
    return made
