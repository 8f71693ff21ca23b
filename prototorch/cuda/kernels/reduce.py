"""Reductions over any axes: threads along contiguous memory; long reductions are split into chunks in a fixed way."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from prototorch.cuda.kernels.column_tiles import ColumnTiling
from prototorch.cuda.kernels.launch import (
    BLOCK,
    ITEM_BYTES,
    InputArg,
    KernelLaunch,
    LaunchSequence,
    OutputArg,
    WorkspaceArg,
    align_bytes,
    block_size_for,
    c_type,
    contiguous_strides,
    cuda_kernel,
    grid_stride_launch,
    index_scalar,
    kernel_source,
    memory_order,
    per_block_launch,
    vector_width,
)
from prototorch.engine.backends.capabilities import register_channels_last
from prototorch.ops.reduce import normalize_axes
from prototorch.spec import Spec

__all__ = ["TARGET_THREADS", "column_sum_launches", "reduce_launches"]

#: threads that occupy a large GPU; reductions with fewer are split further
TARGET_THREADS = 1 << 17
MIN_CHUNK = 32  # elements of a chunk
MAX_TOP_K = 1 << 10  # each of the largest elements is one pass over the row

#: op -> (the combination of two values, the initial value for floats, the one for integers)
_REDUCTIONS = {
    "sum": ("a + b", "0", "0"), "mean": ("a + b", "0", "0"), "prod": ("a * b", "1", "1"),
    "max": ("max_nan(a, b)", "-INF", None), "min": ("min_nan(a, b)", "INF", None),
    "all": ("a && b", "true", "true"), "any": ("a || b", "false", "false"),
}  # fmt: skip
_INT_MIN = {"int8": -(2**7), "int16": -(2**15), "int32": -(2**31), "int64": -(2**63)}


def _geometry_macros(x: Spec, kept_axes: tuple[int, ...], reduced_axes: tuple[int, ...]) -> dict[str, str | int] | None:
    """The geometry as macros; None where it has more axes than the kernel knows."""
    strides = contiguous_strides(x)
    place = {axis: i for i, axis in enumerate(memory_order(x))}

    def merge_axes_of(axes_in_order: tuple[int, ...], letter: str) -> dict[str, str | int]:
        dims: list[list[int]] = []
        for axis in axes_in_order:
            n, s = x.shape[axis], strides[axis]
            if n == 1:
                continue
            if dims and dims[-1][1] == s * n:
                dims[-1] = [dims[-1][0] * n, s]
            else:
                dims.append([n, s])
        dims = dims or [[1, 0]]
        macros: dict[str, str | int] = {f"{letter.upper()}{i}": n for i, (n, _) in enumerate(dims)}
        return {**macros, **{f"{letter}{i}": s for i, (_, s) in enumerate(dims)}, "COUNT": len(dims)}

    stage, two = merge_axes_of(kept_axes, "k"), merge_axes_of(tuple(sorted(reduced_axes, key=place.__getitem__)), "r")
    counts = int(stage.pop("COUNT")), int(two.pop("COUNT"))
    return None if max(counts) > 3 else {**stage, **two, "KEPT": counts[0], "REDUCED": counts[1]}


def reduce_launches(name: str, x: Spec, y: Spec, reduced_axes: tuple[int, ...]) -> LaunchSequence | None:
    """The launches of a reduction of x over these axes into y; None for types or strides the kernel does not know."""
    join, start, int_start = _REDUCTIONS[name]
    if not x.is_float:
        if name == "mean":
            return None
        start = int_start if int_start is not None else str(_INT_MIN.get(x.dtype, 0)) if name == "max" else None  # type: ignore[assignment]
        if start is None or x.dtype == "int64":
            return None
    kept_axes = tuple(a for a in range(x.ndim) if a not in reduced_axes)
    macros = _geometry_macros(x, kept_axes, reduced_axes)
    if macros is None:
        return None
    n = prod(x.shape[a] for a in reduced_axes)
    outputs = x.size // n
    fastest = next((a for a in reversed(memory_order(x)) if x.shape[a] > 1), None)
    reduces_fastest_axis = fastest in reduced_axes
    block = block_size_for(n) if reduces_fastest_axis else BLOCK
    workers = outputs * block if reduces_fastest_axis else outputs
    chunks = max(1, min(-(-TARGET_THREADS // workers), n // (MIN_CHUNK * (block if reduces_fastest_axis else 1)), 1024))
    chunk = -(-n // chunks)
    chunks = -(-n // chunk)
    acc_dtype = "float64" if x.dtype == "float64" else "float32" if x.is_float else x.dtype
    mean = f"total / (A){n}" if name == "mean" else "total"
    largest = x.size

    def stage(
        spec: Spec,
        out: str,
        geometry: dict[str, str | int],
        end: str,
        rows: bool,
        numbers: tuple[int, ...],
        *arrays: Any,
    ) -> KernelLaunch:
        source = kernel_source(
            "reduce", largest, X=c_type(spec), Y=out, JOIN=join, START=f"(A){start}", END=end, **geometry
        )
        args = (*(index_scalar(v, largest) for v in numbers), *arrays)
        if rows:
            return per_block_launch(source, "rows", numbers[0] * numbers[2], *args, block=block_size_for(numbers[3]))
        return grid_stride_launch(source, "columns", numbers[0] * numbers[2], *args)

    if chunks == 1:
        return LaunchSequence(
            stage(x, c_type(y), macros, mean, reduces_fastest_axis, (outputs, n, 1, n), InputArg(0), OutputArg(0))
        )
    sums_rows = (macros["KEPT"], macros["REDUCED"], macros["k0"], macros["r0"]) == (1, 1, 1, outputs)
    if sums_rows and x.is_float and name in ("sum", "mean"):
        return column_sum_launches(x, y, n, outputs, acc_dtype, mean)
    partial = Spec((chunks, outputs), acc_dtype)
    last: dict[str, str | int] = {"KEPT": 1, "K0": outputs, "k0": 1, "REDUCED": 1, "R0": chunks, "r0": outputs}
    first = stage(
        x,
        c_type(acc_dtype),
        macros,
        "total",
        reduces_fastest_axis,
        (outputs, n, chunks, chunk),
        InputArg(0),
        WorkspaceArg(),
    )
    # few outputs: a block for each of them; many: a thread
    second = stage(
        partial, c_type(y), last, mean, outputs < BLOCK * 8, (outputs, chunks, 1, chunks), WorkspaceArg(), OutputArg(0)
    )
    return LaunchSequence(first, second, workspace_bytes=align_bytes(partial.size * ITEM_BYTES[acc_dtype]))


def column_sum_launches(x: Spec, y: Spec, rows: int, columns: int, acc_dtype: str, end: str) -> LaunchSequence:
    """The launches of the sums of a matrix's columns, [rows, columns] in memory. end: C expression of
    ``total``."""
    pack = vector_width(x, columns)
    tiling = ColumnTiling.of(rows, columns, pack)
    macros: dict[str, str | int] = {"C": columns, "PACK": pack, "TILE_VECTORS": tiling.vectors, "END": end}
    source = kernel_source("column_sums", x.size, X=c_type(x), Y=c_type(y), **macros)
    counts = tuple(index_scalar(v, x.size) for v in (rows, tiling.chunks, tiling.chunk))
    return LaunchSequence(
        per_block_launch(source, "column_sums", tiling.blocks, *counts, InputArg(0), WorkspaceArg(), block=BLOCK),
        per_block_launch(
            source,
            "column_sums_end",
            columns,
            counts[1],
            WorkspaceArg(),
            OutputArg(0),
            block=block_size_for(tiling.chunks),
        ),
        workspace_bytes=align_bytes(tiling.chunks * columns * ITEM_BYTES[acc_dtype]),
    )


def _register(name: str) -> None:
    @cuda_kernel(name, layouts=True)
    def prepare(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> LaunchSequence | None:
        if outs[0].layout is not None:
            return None
        return reduce_launches(name, ins[0], outs[0], normalize_axes(attrs.get("axis"), ins[0].ndim))


for _name in _REDUCTIONS:
    _register(_name)
register_channels_last("cuda", "follows", *_REDUCTIONS, ins=(0,), outs=())


def _register_arg(name: str) -> None:
    @cuda_kernel(name)
    def prepare(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> LaunchSequence | None:
        (x,) = ins
        (axis,) = normalize_axes(attrs["axis"], x.ndim)
        n = x.shape[axis]
        if n >= 1 << 31:
            return None
        rows = x.size // n
        macros: dict[str, str | int] = {
            "X": c_type(x),
            "INNER": prod(x.shape[axis + 1 :]),
            "LEAST": int(name == "argmin"),
        }
        source = kernel_source("argmax", x.size, **macros)
        args = (index_scalar(rows, x.size), np.int32(n), InputArg(0), OutputArg(0))
        return LaunchSequence(per_block_launch(source, "arg", rows, *args, block=block_size_for(n)))


for _name in ("argmax", "argmin"):
    _register_arg(_name)


@cuda_kernel("top_k")
def top_k(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> LaunchSequence | None:
    """The largest of each row, one after another."""
    x, k = ins[0], attrs["k"]
    n = x.shape[-1]
    if n >= 1 << 31 or k > MAX_TOP_K or x.dtype.startswith("uint"):
        return None
    source = kernel_source("top_k", x.size, X=c_type(x), TAKEN=k)
    args = (index_scalar(x.size // n, x.size), np.int32(n), InputArg(0), OutputArg(0), OutputArg(1))
    return LaunchSequence(per_block_launch(source, "top_k", x.size // n, *args, block=block_size_for(n)))
