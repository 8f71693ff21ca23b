"""Rows with sorted keys, reduced key by key: sums (products, extrema, the last one) in a fixed order."""

from __future__ import annotations

from typing import Any

import numpy as np

from prototorch.cuda.kernels.launch import (
    ITEM_BYTES,
    KernelLaunch,
    WorkspaceArg,
    align_bytes,
    c_type,
    grid_stride_launch,
    index_scalar,
    kernel_source,
)
from prototorch.cuda.kernels.radix_sort import KeySort
from prototorch.spec import Spec

__all__ = ["REDUCTIONS", "segment_reduce"]

CHUNK = 64  #: neighbouring rows that one thread reduces
LAST_CHUNK = 128  #: rows that one thread reduces where nothing is left to do in parallel
#: how two values of one key are joined, in C
REDUCTIONS = {"set": "b", "sum": "a + b", "prod": "a * b", "amax": "max_nan(a, b)", "amin": "min_nan(a, b)"}
_BOOL = {"set": "b", "sum": "a | b", "prod": "a & b", "amax": "a | b", "amin": "a & b"}


def segment_reduce(
    x: Spec,
    sizes: tuple[int, int, int, int],
    keys: KeySort,
    values: Any,
    out: Any,
    reduce: str,
    joins_out: bool,
    largest: int,
    address: str = "",
) -> tuple[list[KernelLaunch], int]:
    """The launches that write the reduced rows of each key, and the end of the workspace they take.

    Args:
        x: the spec of an array of the values' dtype.
        sizes: outer, count, inner, rows: values are [outer, count, inner], out is [outer, rows, inner].
        keys: the sorted keys of the ``count`` rows; a key of ``rows`` drops its row.
        values, out: arguments of the launches.
        reduce: one of `REDUCTIONS`.
        joins_out: whether what is in ``out`` is the first value of each row; else rows are overwritten. Rows without a
            key are not touched.
        largest: the largest number of elements among the arrays.
        address: C of the offset in out of element ``c`` of ``row`` of ``o``, where it is not [outer, rows, inner].

    The work is that of ``count`` rows whatever the keys are: a run of equal keys is reduced in chunks of 64, their
    results again in chunks, and so on.
    """
    outer, count, inner, rows = sizes
    table = _BOOL if x.dtype == "bool" else REDUCTIONS
    source = kernel_source(
        "segment_reduce",
        largest,
        X=c_type(x),
        K=keys.key_type,
        INNER=inner,
        ROWS=rows,
        ONTO=int(joins_out),
        ADDRESS=address or f"(o * {rows}u + row) * {inner}u + c",
        **{"JOIN(a, b)": f"({table[reduce]})"},
    )
    item = 8 if x.dtype in ("float64", "int64", "uint64") else max(4, ITEM_BYTES[x.dtype])
    launches: list[KernelLaunch] = []
    level_keys: Any = keys.keys
    end, n, level_values = keys.end, count, values
    while True:
        is_last = n <= LAST_CHUNK
        chunk = n if is_last else CHUNK
        chunks = -(-n // chunk)
        next_keys: Any = np.uint64(0)
        next_values: Any = np.uint64(0)
        if not is_last:
            next_keys = WorkspaceArg(end)
            end += align_bytes((8 if keys.key_type == "u64" else 4) * 2 * chunks)
            next_values = WorkspaceArg(end)
            end += align_bytes(item * outer * 2 * chunks * inner)
        threads = outer * chunks * inner
        numbers = index_scalar(threads, largest), np.uint32(n), np.uint32(chunk), np.uint32(chunks)
        name, order = ("join_sorted", (keys.positions,)) if not launches else ("join_parts", ())
        args = (*numbers, level_keys, *order, level_values, next_keys, next_values, out)
        launches.append(grid_stride_launch(source, name, threads, *args))
        if is_last:
            return launches, end
        n, level_keys, level_values = 2 * chunks, next_keys, next_values
