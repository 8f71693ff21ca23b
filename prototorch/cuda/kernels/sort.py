"""Sorting along the last axis, the largest elements of long selections, and positions in sorted elements."""

from __future__ import annotations

from typing import Any

from prototorch.cuda.kernels.launch import (
    ITEM_BYTES,
    InputArg,
    LaunchSequence,
    OutputArg,
    c_type,
    cuda_kernel,
    grid_stride_launch,
    index_scalar,
    kernel_source,
)
from prototorch.cuda.kernels.radix_sort import MAX_KEYS, plan_sort
from prototorch.spec import Spec

Specs = tuple[Spec, ...]
_UNSIGNED = {1: "u8", 2: "u16", 4: "u32", 8: "u64"}


def _source(x: Spec, largest: int, key_type: str, **macros: str | int) -> str:
    defines: dict[str, str | int] = {
        "DESCENDING": 0, "NAN_LAST": 0, "ROWS": 1, "PER_ROW": 1, "SHARED": 0, "RIGHT": 0,
        "I": "i64",
    }  # fmt: skip
    size = ITEM_BYTES[x.dtype]
    defines |= {
        "X": c_type(x),
        "K": key_type,
        "B": _UNSIGNED[size],
        "VALUE_BITS": 8 * size,
        "N": x.shape[-1],
        "I": "i64",
    }
    defines |= {"IS_FLOAT": int(x.is_float), "IS_SIGNED": int(x.dtype.startswith("int")), **macros}
    return kernel_source("sort", largest, **defines)


def _sorted_rows(x: Spec, per_row: int, index_type: str, descending: bool, nan_last: bool) -> LaunchSequence | None:
    """The first ``per_row`` elements of each sorted row, and their indices."""
    n, value_bits = x.shape[-1], 8 * ITEM_BYTES[x.dtype]
    rows = x.size // n
    bits = value_bits + (rows - 1).bit_length()
    if bits > 64 or x.size >= MAX_KEYS:
        return None
    key_type = "u32" if bits <= 32 else "u64"
    sort = plan_sort(x.size, bits, key_type)
    source = _source(
        x,
        x.size,
        key_type,
        DESCENDING=int(descending),
        NAN_LAST=int(nan_last and x.is_float),
        ROWS=rows,
        PER_ROW=per_row,
        I=index_type,
    )
    count, total = rows * per_row, index_scalar(x.size, x.size)
    gather = (index_scalar(count, x.size), InputArg(0), sort.positions, OutputArg(0), OutputArg(1))
    return LaunchSequence(
        grid_stride_launch(source, "sort_keys", x.size, total, InputArg(0), sort.input_keys),
        *sort.launches,
        grid_stride_launch(source, "sort_gather", count, *gather),
        workspace_bytes=sort.end,
    )


@cuda_kernel("sort")
def sort(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> LaunchSequence | None:
    """Stable, NaN as the largest; None for 8-byte elements in more than one row."""
    return _sorted_rows(ins[0], ins[0].shape[-1], "i64", attrs.get("descending", False), nan_last=False)


@cuda_kernel("top_k")
def top_k(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> LaunchSequence | None:
    """More elements than the other kernel searches for one by one: the rows are sorted."""
    return _sorted_rows(ins[0], attrs["k"], "i32", descending=True, nan_last=True)


@cuda_kernel("searchsorted")
def searchsorted(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> LaunchSequence | None:
    """A binary search for each value."""
    elements, values = ins
    largest = max(elements.size, values.size)
    shared = elements.ndim == 1
    per_row = 1 if shared else values.shape[-1]
    source = _source(
        elements, largest, "u64", PER_ROW=per_row, SHARED=int(shared), RIGHT=int(attrs.get("side") == "right")
    )
    args = (index_scalar(values.size, largest), InputArg(0), InputArg(1), OutputArg(0))
    return LaunchSequence(grid_stride_launch(source, "searchsorted", values.size, *args))
